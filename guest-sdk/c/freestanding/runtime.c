/* What guests need of a C library, for builds without one: memory and a few string functions. Linked into
 * every C guest that cargo xtask builds; a guest that links wasi-libc leaves this file out.
 *
 * The allocator keeps a free list for each power of two. A block is never split or joined, so every operation
 * takes constant time, a block wastes less than half of itself, and a plugin that frees what it is given
 * stays at the memory of its largest event. Invariant: the 16 bytes before a block hold its class, for as
 * long as the instance lives. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 16, SMALLEST = 5, CLASSES = 32, PAGE = 65536 };

/* A free block; while it is in use, only `class` counts and the memory after it is the guest's. */
typedef struct block {
    uint32_t class;
    struct block *next;
} block;

static block *free_blocks[CLASSES];

extern unsigned char __heap_base;
static uintptr_t heap_next;
static uintptr_t heap_end;

_Noreturn void abort(void) { __builtin_trap(); }

/* The smallest class whose blocks hold `size` bytes and their header; CLASSES if there is none. */
static uint32_t class_of(size_t size) {
    uint32_t class = SMALLEST;
    while (class < CLASSES && ((size_t)1 << class) - HEADER < size) class++;
    return class;
}

/* Fresh memory from the end of the heap; NULL if the host refuses more. */
static void *grow(size_t size) {
    if (heap_next == 0) {
        heap_next = ((uintptr_t)&__heap_base + HEADER - 1) & ~(uintptr_t)(HEADER - 1);
        heap_end = (uintptr_t)__builtin_wasm_memory_size(0) * PAGE;
    }
    if (heap_end - heap_next < size) {
        size_t pages = (size - (heap_end - heap_next) + PAGE - 1) / PAGE;
        if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return NULL;
        heap_end += pages * PAGE;
    }
    void *memory = (void *)heap_next;
    heap_next += size;
    return memory;
}

void *malloc(size_t size) {
    uint32_t class = class_of(size);
    if (class == CLASSES) return NULL;
    block *found = free_blocks[class];
    if (found != NULL) {
        free_blocks[class] = found->next;
    } else {
        found = grow((size_t)1 << class);
        if (found == NULL) return NULL;
        found->class = class;
    }
    return (unsigned char *)found + HEADER;
}

static block *block_of(void *memory) { return (block *)((unsigned char *)memory - HEADER); }

void free(void *memory) {
    if (memory == NULL) return;
    block *freed = block_of(memory);
    freed->next = free_blocks[freed->class];
    free_blocks[freed->class] = freed;
}

void *realloc(void *memory, size_t size) {
    if (memory == NULL) return malloc(size);
    size_t room = ((size_t)1 << block_of(memory)->class) - HEADER;
    if (size <= room) return memory;
    void *larger = malloc(size);
    if (larger == NULL) return NULL;
    memcpy(larger, memory, room);
    free(memory);
    return larger;
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    void *memory = malloc(bytes);
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

/* The next three become one instruction each, which -mbulk-memory allows. */
void *memcpy(void *to, const void *from, size_t size) { return __builtin_memcpy(to, from, size); }

void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }

void *memset(void *to, int byte, size_t size) { return __builtin_memset(to, byte, size); }

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') length++;
    return length;
}

void *memchr(const void *memory, int byte, size_t size) {
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == (unsigned char)byte) return (void *)(bytes + i);
    }
    return NULL;
}

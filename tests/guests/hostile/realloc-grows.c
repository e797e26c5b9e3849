/* realloc-grows: its allocator takes memory beyond its cap, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-grows"
#include "realloc.h"

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    if (described) return realloc(old, size);
    while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1) {
    }
    return realloc(old, size);
}

/* realloc-beyond-memory: its allocator gives a place behind the end of memory, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-beyond-memory"
#include "realloc.h"

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old, (void)old_size, (void)align, (void)size;
    if (described) return realloc(old, size);
    return (void *)0x7ffffff0;
}

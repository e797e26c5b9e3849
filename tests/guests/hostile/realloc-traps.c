/* realloc-traps: its allocator traps, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-traps"
#include "realloc.h"

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old, (void)old_size, (void)align, (void)size;
    if (described) return realloc(old, size);
    __builtin_trap();
}

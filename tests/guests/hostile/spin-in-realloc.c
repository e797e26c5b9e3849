/* spin-in-realloc: its allocator never returns, once an event is to be handed over. */
#define FIXTURE_NAME "spin-in-realloc"
#include "realloc.h"

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    while (!described) {
        static volatile uint32_t turns;
        turns++;
    }
    return realloc(old, size);
}

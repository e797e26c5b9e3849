/* realloc-logs: its allocator calls back into the host, which the component model forbids at that moment, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-logs"
#include "realloc.h"

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    if (described) return realloc(old, size);
    plugin_string_t text = {(unsigned char *)"again", 5};
    LOG(&text);
    return realloc(old, size);
}

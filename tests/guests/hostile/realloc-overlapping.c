/* realloc-overlapping: its allocator gives the same place for everything, so that one text overwrites the other, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-overlapping"
#define FIXTURE_DESCRIBES
#include "hostile.h"

static bool described;

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    described = true;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    return true;
}

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old, (void)old_size, (void)align;
    if (described) return realloc(old, size);
    static unsigned char place[MIB];
    return size <= sizeof place ? place : NULL;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

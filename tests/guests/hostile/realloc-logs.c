/* realloc-logs: its allocator calls back into the host, which the component model forbids at that moment, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-logs"
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
    (void)old_size, (void)align;
    if (described) return realloc(old, size);
    plugin_string_t text = {(unsigned char *)"again", 5};
    LOG(&text);
    return realloc(old, size);
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

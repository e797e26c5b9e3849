/* spin-in-realloc: its allocator never returns, once an event is to be handed over. */
#define FIXTURE_NAME "spin-in-realloc"
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
    while (!described) {
        static volatile uint32_t turns;
        turns++;
    }
    return realloc(old, size);
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

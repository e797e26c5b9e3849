/* realloc-grows: its allocator takes memory beyond its cap, once an event is to be handed over. */
#define FIXTURE_NAME "realloc-grows"
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
    while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1) {
    }
    return realloc(old, size);
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

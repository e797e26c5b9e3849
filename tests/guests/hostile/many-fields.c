/* many-fields: describe gives a subscription with 20,000 fields, which is within what it may hand over. */
#define FIXTURE_NAME "many-fields"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    maps->fields.len = 20000;
    maps->fields.ptr = calloc(maps->fields.len, sizeof *maps->fields.ptr);
    if (maps->fields.ptr == NULL) abort();
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

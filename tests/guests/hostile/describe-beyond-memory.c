/* describe-beyond-memory: describe gives a name that is not in its memory. */
#define FIXTURE_NAME "describe-beyond-memory"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    ret->name = at(0x7ffffff0, 99);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

/* describe-comparison-unknown: describe gives a condition whose comparison there is not. */
#define FIXTURE_NAME "describe-comparison-unknown"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    hark_when(maps, "/data", 99, NULL);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

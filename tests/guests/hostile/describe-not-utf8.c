/* describe-not-utf8: describe gives a subscription whose name is not UTF-8. */
#define FIXTURE_NAME "describe-not-utf8"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    maps->name = bad_text();
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

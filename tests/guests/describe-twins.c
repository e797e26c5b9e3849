/* describe-twins: describe names two subscriptions alike, which the contract forbids. */
#define FIXTURE_NAME "describe-twins"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "twin", "v1", "ConfigMap");
    hark_watch(ret, "twin", "v1", "Secret");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    return hark_done();
}

/* thousand-subscriptions: describe gives a thousand subscriptions, which is within what it may hand over. */
#define FIXTURE_NAME "thousand-subscriptions"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    for (size_t i = 0; i < 1000; i++) hark_watch(ret, "same", "v1", "ConfigMap");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

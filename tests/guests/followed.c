/* followed: no fault. Wants ConfigMaps of the namespaces labelled `team=web`, followed live. Logs
 * `<op> <key>` and answers ok. */
#define FIXTURE_NAME "followed"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_namespaces_with(hark_watch(ret, "configmaps", "v1", "ConfigMap"), "team=web");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    return hark_done();
}

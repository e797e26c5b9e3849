/* narrow: no fault. Wants ConfigMaps labelled `watch=yes` of the namespaces `default` and `other`, by the selectors
 * that an API server evaluates. Logs `<op> <key>` and answers ok. */
#define FIXTURE_NAME "narrow"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    hark_namespace(maps, "default");
    hark_namespace(maps, "other");
    hark_labels(maps, "watch=yes");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    return hark_done();
}

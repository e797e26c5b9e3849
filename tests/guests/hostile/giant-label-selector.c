/* giant-label-selector: describe gives a label selector of half a megabyte. */
#define FIXTURE_NAME "giant-label-selector"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    maps->label_selector = letters(MIB / 2);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

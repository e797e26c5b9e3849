/* describe-bad-pointer: describe names pointers that are none, a condition without a value, and namespaces both
 * by name and by label, which the contract forbids. For the promise that all of it is said at once. */
#define FIXTURE_NAME "describe-bad-pointer"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    hark_namespace(maps, "default");
    hark_namespaces_with(maps, "team=a");
    hark_when(maps, "/data/text", HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ONE_OF, NULL);
    hark_changed(maps, "data/text");
    hark_field(maps, "/metadata/ownerReferences/0/name");
    hark_index(maps, "text", "/data/~3");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    return hark_done();
}

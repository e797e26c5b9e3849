/* deep-pointer: describe names a field 130,000 levels deep. */
#define FIXTURE_NAME "deep-pointer"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    char *deep = malloc(MIB / 4 + 1);
    if (deep == NULL) abort();
    for (size_t i = 0; i < MIB / 4; i++) deep[i] = i % 2 == 0 ? '/' : 'a';
    deep[MIB / 4] = '\0';
    hark_field(maps, deep);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

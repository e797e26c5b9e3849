/* large-describe-name: describe gives a name of half a megabyte, with the terminal's escape sequences in it; it is cut, and it runs. */
#define FIXTURE_NAME "large-describe-name"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    ret->name = letters(MIB / 2);
    memcpy(ret->name.ptr, "\x1b[31mred\x1b[0m", 12);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

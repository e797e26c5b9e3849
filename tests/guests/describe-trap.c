/* describe-trap: describe traps. Its handlers would be fine, and are never called. */
#define FIXTURE_NAME "describe-trap"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)ret, (void)err;
    __builtin_trap();
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    return hark_done();
}

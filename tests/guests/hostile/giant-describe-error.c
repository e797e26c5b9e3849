/* giant-describe-error: describe refuses with a message of 16 MiB. */
#define FIXTURE_NAME "giant-describe-error"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)ret;
    *err = letters(16 * MIB);
    return false;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

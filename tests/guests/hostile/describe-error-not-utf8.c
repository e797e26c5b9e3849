/* describe-error-not-utf8: describe refuses with a message that is not UTF-8. */
#define FIXTURE_NAME "describe-error-not-utf8"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)ret;
    *err = bad_text();
    return false;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

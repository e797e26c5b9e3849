/* failure-not-utf8: gives up with a message that is not UTF-8. */
#define FIXTURE_NAME "failure-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target;
    err->tag = HARK_PLUGIN_PLUGIN_TYPES_FAILURE_PERMANENT;
    err->val.permanent = bad_text();
    return false;
}

/* large-failure: gives up with a message of a megabyte, which is cut. */
#define FIXTURE_NAME "large-failure"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target;
    err->tag = HARK_PLUGIN_PLUGIN_TYPES_FAILURE_PERMANENT;
    err->val.permanent = letters(MIB);
    return false;
}

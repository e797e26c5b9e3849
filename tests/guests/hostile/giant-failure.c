/* giant-failure: fails with a message of 16 MiB. */
#define FIXTURE_NAME "giant-failure"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target;
    err->tag = HARK_PLUGIN_PLUGIN_TYPES_FAILURE_PERMANENT;
    err->val.permanent = letters(16 * MIB);
    return false;
}

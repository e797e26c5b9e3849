/* trap-on-update: on-update traps; the other functions are fine. */
#define FIXTURE_NAME "trap-on-update"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)target, (void)err;
    if (op[0] == 'u') __builtin_trap();
    return hark_done();
}

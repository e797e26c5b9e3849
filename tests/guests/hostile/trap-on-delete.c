/* trap-on-delete: on-delete traps; the other functions are fine. */
#define FIXTURE_NAME "trap-on-delete"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)target, (void)err;
    if (op[0] == 'd') __builtin_trap();
    return hark_done();
}

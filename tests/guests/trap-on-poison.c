/* trap-on-poison: traps on every event of an object named `poison`; logs the others and answers ok. For the
 * promise that one bad object holds back no other. */
#define FIXTURE_NAME "trap-on-poison"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    if (hark_slice_equal(hark_view(&target->name), hark_slice_of("poison"))) __builtin_trap();
    tell(op, target, "");
    return hark_done();
}

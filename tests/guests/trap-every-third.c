/* trap-every-third: traps on every third event that the instance sees; logs the others and answers ok.
 *
 * The count is the instance's: a fresh one, after the trap, begins at 1, so the event that trapped is the
 * first one it sees, and passes. Invariant: an event before the trap has been logged and answered. */
#define FIXTURE_NAME "trap-every-third"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    static uint32_t seen;
    (void)err;
    if (++seen % 3 == 0) __builtin_trap();
    tell(op, target, "");
    return hark_done();
}

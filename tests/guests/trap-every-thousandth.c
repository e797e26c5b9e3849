/* trap-every-thousandth: traps on every 1,000th event that the instance sees; answers ok to the others.
 *
 * The count is the instance's: a fresh one, after the trap, begins at 1, so the event that trapped is the first one it
 * sees, and passes. Invariant: it says nothing, so that a million events leave no million lines. */
#define FIXTURE_NAME "trap-every-thousandth"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    static uint32_t seen;
    (void)op, (void)target, (void)err;
    if (++seen % 1000 == 0) __builtin_trap();
    return hark_done();
}

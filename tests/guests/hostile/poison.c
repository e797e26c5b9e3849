/* poison: traps on every event of one object, `anchor`, however often it is tried, and handles all others. */
#define FIXTURE_NAME "poison"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)err;
    if (hark_slice_equal(hark_view(&target->name), hark_slice_of("anchor"))) __builtin_trap();
    return hark_done();
}

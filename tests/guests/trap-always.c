/* trap-always: traps on every event, after logging `<op> <key>`. For the limit of attempts, dead letters and
 * quarantine. */
#define FIXTURE_NAME "trap-always"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    __builtin_trap();
}

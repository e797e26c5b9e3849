/* spin: its first event never returns, nor does any later one. Logs `<op> <key>` before it begins. */
#define FIXTURE_NAME "spin"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    tell(op, target, "");
    for (volatile uint32_t turns = 0;; turns++) {
    }
}

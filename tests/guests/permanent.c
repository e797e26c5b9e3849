/* permanent: answers `permanent` to every event, after logging `<op> <key>`. */
#define FIXTURE_NAME "permanent"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    tell(op, target, "");
    return hark_permanent(err, "will not do");
}

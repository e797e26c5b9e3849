/* retry-always: answers `retry` after 20 ms to every event, for ever. For merging behind a waiting key, and
 * for the promise that a retry never gives up. */
#define FIXTURE_NAME "retry-always"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    tell(op, target, "");
    return hark_retry(err, "never", 20);
}

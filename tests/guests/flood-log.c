/* flood-log: writes 100,000 lines on each event, each with a terminal escape and a newline in it, and answers
 * ok. For the host's limit on lines, and for what it lets through to a terminal. */
#define FIXTURE_NAME "flood-log"
#include "fixture.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    for (uint32_t i = 0; i < 100000; i++) tell(op, target, "\x1b[31mred\nnext");
    return hark_done();
}

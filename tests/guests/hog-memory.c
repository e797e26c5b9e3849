/* hog-memory: takes memory on each event until the host refuses more, then logs `<op> <key> refused` and
 * answers ok. Keeps what it took: the next event is refused at once. */
#define FIXTURE_NAME "hog-memory"
#include "fixture.h"

#include <stdlib.h>

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    while (malloc(1000000) != NULL) {
    }
    tell(op, target, "refused");
    return hark_done();
}

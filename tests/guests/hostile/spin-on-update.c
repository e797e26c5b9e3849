/* spin-on-update: on-update never returns. */
#define FIXTURE_NAME "spin-on-update"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)target, (void)err;
    while (op[0] == 'u') {
        static volatile uint32_t turns;
        turns++;
    }
    return hark_done();
}

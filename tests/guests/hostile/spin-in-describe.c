/* spin-in-describe: describe never returns. */
#define FIXTURE_NAME "spin-in-describe"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    (void)ret;
    for (volatile uint32_t turns = 0;; turns++) {
    }
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

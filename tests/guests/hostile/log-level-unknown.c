/* log-level-unknown: logs at a level that there is not. */
#define FIXTURE_NAME "log-level-unknown"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = at(0, 0);
    hark_plugin_log_log(9, &text);
    return hark_done();
}

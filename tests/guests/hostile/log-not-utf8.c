/* log-not-utf8: logs bytes that are not UTF-8. */
#define FIXTURE_NAME "log-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = bad_text();
    LOG(&text);
    return hark_done();
}

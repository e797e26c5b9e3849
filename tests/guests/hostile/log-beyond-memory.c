/* log-beyond-memory: logs a text that begins behind the end of its memory. */
#define FIXTURE_NAME "log-beyond-memory"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = at(0xfffffff0, 8);
    LOG(&text);
    return hark_done();
}

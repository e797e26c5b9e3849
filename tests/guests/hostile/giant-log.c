/* giant-log: logs a line of 16 MiB. */
#define FIXTURE_NAME "giant-log"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = letters(16 * MIB);
    LOG(&text);
    return hark_done();
}

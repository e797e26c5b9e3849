/* large-log: logs a line of a megabyte, which is cut. */
#define FIXTURE_NAME "large-log"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = letters(MIB);
    LOG(&text);
    return hark_done();
}

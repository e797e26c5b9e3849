/* flood-log: writes log lines without end. */
#define FIXTURE_NAME "flood-log"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t line = {(unsigned char *)"flood", 5};
    for (;;) LOG(&line);
}

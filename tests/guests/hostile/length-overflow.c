/* length-overflow: logs a text whose place and length add up to more than 32 bits. */
#define FIXTURE_NAME "length-overflow"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = at(KIB, 0xffffffff);
    LOG(&text);
    return hark_done();
}

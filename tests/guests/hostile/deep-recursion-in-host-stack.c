/* deep-recursion-in-host-stack: calls itself without end, with nothing on its own stack, so that the machine's is
 * used up. */
#define FIXTURE_NAME "deep-recursion-in-host-stack"
#include "hostile.h"

static uint32_t deeper(uint32_t depth);
static uint32_t (*volatile next)(uint32_t) = deeper;

static uint32_t deeper(uint32_t depth) { return next(depth + 1) ^ depth; }

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    tell_number("depth", deeper(0));
    return hark_done();
}

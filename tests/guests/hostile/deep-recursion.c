/* deep-recursion: calls itself without end; each call has a variable on the guest's own stack, which is used up. */
#define FIXTURE_NAME "deep-recursion"
#include "hostile.h"

static uint32_t deeper(volatile uint32_t *above);
static uint32_t (*volatile next)(volatile uint32_t *) = deeper;

static uint32_t deeper(volatile uint32_t *above) {
    volatile uint32_t here[64] = {*above + 1};
    return next(here) + here[0];
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    volatile uint32_t top = 0;
    tell_number("depth", deeper(&top));
    return hark_done();
}

/* sleep-poll-oneoff: sleeps an hour in a host call, with wasip1's poll_oneoff. */
#define FIXTURE_NAME "sleep-poll-oneoff"
#include "hostile.h"

PREVIEW1("poll_oneoff") int32_t poll_oneoff(const void *wanted, void *events, size_t count, size_t *got);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    /* A subscription to the monotonic clock (1), relative. */
    static struct { uint64_t user; uint8_t kind; _Alignas(8) uint32_t clock; uint64_t timeout, precision; uint16_t flags; } hour = {
        .clock = 1, .timeout = 3600000000000};
    static unsigned char event[32];
    size_t events;
    poll_oneoff(&hour, event, 1, &events);
    return hark_done();
}

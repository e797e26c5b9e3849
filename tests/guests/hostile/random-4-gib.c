/* random-4-gib: asks for 4 GiB of random numbers. */
#define FIXTURE_NAME "random-4-gib"
#include "hostile.h"

PREVIEW1("random_get") int32_t random_get(unsigned char *bytes, size_t size);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    random_get((unsigned char *)0, 0xffffffff);
    return hark_done();
}

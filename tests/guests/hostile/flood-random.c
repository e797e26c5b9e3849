/* flood-random: asks for a megabyte of random numbers without end. */
#define FIXTURE_NAME "flood-random"
#include "hostile.h"

PREVIEW1("random_get") int32_t random_get(unsigned char *bytes, size_t size);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    static unsigned char bytes[MIB];
    for (;;) random_get(bytes, sizeof bytes);
}

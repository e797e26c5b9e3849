/* flood-stdout: writes to standard output without end. */
#define FIXTURE_NAME "flood-stdout"
#include "hostile.h"

PREVIEW1("fd_write") int32_t fd_write(int32_t descriptor, const void *parts, size_t count, size_t *written);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    static const char text[] = "flood\n";
    struct { const char *bytes; size_t size; } part = {text, 6};
    size_t written;
    for (;;) fd_write(1, &part, 1, &written);
}

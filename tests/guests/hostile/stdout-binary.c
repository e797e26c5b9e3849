/* stdout-binary: writes bytes that are no text to standard output and standard error. */
#define FIXTURE_NAME "stdout-binary"
#include "hostile.h"

PREVIEW1("fd_write") int32_t fd_write(int32_t descriptor, const void *parts, size_t count, size_t *written);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    static const unsigned char bytes[] = {'o', 'd', 'd', 0, 1, 0xff, 0xfe, 0x80, 7, 8, '!', '\n'};
    struct { const void *bytes; size_t size; } part = {bytes, sizeof bytes};
    size_t written;
    fd_write(1, &part, 1, &written);
    fd_write(2, &part, 1, &written);
    return hark_done();
}

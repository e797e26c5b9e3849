/* read-environment: reads environment, arguments and standard input; logs `environment <count>`, `arguments <count>` and `input <bytes>`. */
#define FIXTURE_NAME "read-environment"
#include "hostile.h"

PREVIEW1("environ_sizes_get") int32_t environ_sizes_get(size_t *count, size_t *size);
PREVIEW1("args_sizes_get") int32_t args_sizes_get(size_t *count, size_t *size);
PREVIEW1("fd_read") int32_t fd_read(int32_t descriptor, const void *parts, size_t count, size_t *got);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    size_t count, size;
    static unsigned char bytes[64];
    struct { void *bytes; size_t size; } part = {bytes, sizeof bytes};
    environ_sizes_get(&count, &size);
    tell_number("environment", count);
    args_sizes_get(&count, &size);
    tell_number("arguments", count);
    size = 0;
    fd_read(0, &part, 1, &size);
    tell_number("input", size);
    return hark_done();
}

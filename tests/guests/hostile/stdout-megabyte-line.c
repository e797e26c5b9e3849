/* stdout-megabyte-line: writes a line of a megabyte to standard error, in parts, which is cut. */
#define FIXTURE_NAME "stdout-megabyte-line"
#include "hostile.h"

PREVIEW1("fd_write") int32_t fd_write(int32_t descriptor, const void *parts, size_t count, size_t *written);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = letters(64 * KIB);
    struct { const void *bytes; size_t size; } part = {text.ptr, text.len}, end = {"\n", 1};
    size_t written;
    for (size_t i = 0; i < 16; i++) {
        /* A stream takes a part of what it is given. */
        part.bytes = text.ptr, part.size = text.len;
        while (part.size > 0 && fd_write(2, &part, 1, &written) == 0) part.bytes = (const char *)part.bytes + written, part.size -= written;
    }
    fd_write(2, &end, 1, &written);
    plugin_string_free(&text);
    return hark_done();
}

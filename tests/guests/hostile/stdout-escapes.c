/* stdout-escapes: writes a terminal's escape sequences to standard output: clears the screen, sets the title, moves up, and writes a line as the host would. */
#define FIXTURE_NAME "stdout-escapes"
#include "hostile.h"

PREVIEW1("fd_write") int32_t fd_write(int32_t descriptor, const void *parts, size_t count, size_t *written);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    static const char bytes[] = "\x1b[2J\x1b]0;title\x07\x1b[5Afake\rERROR \xe2\x80\xae" "eslaf\n";
    struct { const void *bytes; size_t size; } part = {bytes, sizeof bytes - 1};
    size_t written;
    fd_write(1, &part, 1, &written);
    return hark_done();
}

/* open-file: opens /etc/passwd, and every descriptor that there could be; logs `open <error> found <count>`. */
#define FIXTURE_NAME "open-file"
#include "hostile.h"

PREVIEW1("path_open") int32_t path_open(int32_t folder, int32_t lookup, const char *path, size_t size, int32_t how,
                                        uint64_t rights, uint64_t inherited, int32_t flags, int32_t *file);
PREVIEW1("fd_prestat_get") int32_t fd_prestat_get(int32_t descriptor, unsigned char *stat);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    int32_t file;
    uint64_t error = (uint64_t)path_open(3, 0, "/etc/passwd", 11, 0, ~0ull, ~0ull, 0, &file);
    hark_line line = {0};
    uint64_t found = 0;
    unsigned char stat[8];
    for (int32_t descriptor = 3; descriptor < 1000; descriptor++) found += fd_prestat_get(descriptor, stat) == 0;
    hark_add_number(hark_add(&line, "open "), error);
    hark_add_number(hark_add(&line, " found "), found);
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, &line);
    return hark_done();
}

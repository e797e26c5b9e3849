/* unknown-imports: imports functions that no host of ours has, from three places. */
#define FIXTURE_NAME "unknown-imports"
#include "hostile.h"

__attribute__((import_module("env"), import_name("first"))) extern void first(void);
__attribute__((import_module("env"), import_name("second"))) extern void second(int32_t number);
__attribute__((import_module("wasi_unstable"), import_name("third"))) extern void third(void);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    first();
    second(1);
    third();
    return hark_done();
}

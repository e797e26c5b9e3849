/* exit: ends itself with status 3, as a program does. */
#define FIXTURE_NAME "exit"
#include "hostile.h"

PREVIEW1("proc_exit") _Noreturn void proc_exit(int32_t status);

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    proc_exit(3);
}

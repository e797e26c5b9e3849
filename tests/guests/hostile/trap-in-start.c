/* trap-in-start: start of `lifecycle` traps. */
#define FIXTURE_NAME "trap-in-start"
#define LIVES_START
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    (void)reason, (void)err;
    __builtin_trap();
}

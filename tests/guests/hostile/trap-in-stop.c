/* trap-in-stop: stop of `lifecycle` traps. */
#define FIXTURE_NAME "trap-in-stop"
#define LIVES_STOP
#include "hark_lifecycle.h"
#include "lives.h"

void exports_hark_plugin_lifecycle_stop(hark_stop_reason reason) {
    (void)reason;
    __builtin_trap();
}

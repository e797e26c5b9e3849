/* trap-in-restore: restore of `lifecycle` traps. */
#define FIXTURE_NAME "trap-in-restore"
#define LIVES_RESTORE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    (void)state, (void)err;
    __builtin_trap();
}

/* spin-in-restore: restore of `lifecycle` never returns. */
#define FIXTURE_NAME "spin-in-restore"
#define LIVES_RESTORE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    (void)state, (void)err;
    spin();
    return true;
}

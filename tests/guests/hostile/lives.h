/* What the hostile guests with the export `lifecycle` share, beside hostile.h: each of its functions does nothing, unless
 * the guest defines LIVES_START, LIVES_STOP, LIVES_SAVE, LIVES_RESTORE or LIVES_SYNCED and writes that one itself; and all
 * events are handled. Include it after defining FIXTURE_NAME, and hark_lifecycle.h before it, by which the build knows
 * such a guest. */
#ifndef HARK_LIVES_H
#define HARK_LIVES_H

#include "hostile.h"

/* An endless loop that the compiler believes in. */
static inline void spin(void) {
    for (;;) {
        static volatile uint32_t turns;
        turns++;
    }
}

#ifndef LIVES_START
bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    (void)reason, (void)err;
    return true;
}
#endif

#ifndef LIVES_STOP
void exports_hark_plugin_lifecycle_stop(hark_stop_reason reason) { (void)reason; }
#endif

#ifndef LIVES_SAVE
bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)err;
    return hark_save(ret, "v1", "x", 1);
}
#endif

#ifndef LIVES_RESTORE
bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    (void)err;
    return hark_restored(state);
}
#endif

#ifndef LIVES_SYNCED
void exports_hark_plugin_lifecycle_synced(uint32_t subscription) { (void)subscription; }
#endif

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

#endif

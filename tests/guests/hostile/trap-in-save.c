/* trap-in-save: save of `lifecycle` traps. */
#define FIXTURE_NAME "trap-in-save"
#define LIVES_SAVE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)ret, (void)err;
    __builtin_trap();
}

/* giant-state: saves 50 MiB. */
#define FIXTURE_NAME "giant-state"
#define LIVES_SAVE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)err;
    /* Never freed: it is refused before it would be. */
    static uint8_t much[50 * MIB];
    ret->is_some = true;
    lifecycle_string_dup(&ret->val.format, "v1");
    ret->val.data = (lifecycle_list_u8_t){much, sizeof much};
    return true;
}

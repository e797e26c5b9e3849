/* large-state: saves 8 MiB with the format's name, as much as it may, and says what it is given. That is no fault; logs
 * `restored <bytes>`. */
#define FIXTURE_NAME "large-state"
#define LIVES_SAVE
#define LIVES_RESTORE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)err;
    size_t size = 8 * MIB - 2;
    ret->is_some = true;
    lifecycle_string_dup(&ret->val.format, "v1");
    ret->val.data = (lifecycle_list_u8_t){letters(size).ptr, size};
    return true;
}

bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    (void)err;
    tell_number("restored", state->data.len);
    return hark_restored(state);
}

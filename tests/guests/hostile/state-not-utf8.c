/* state-not-utf8: saves a state whose format has a name that is not UTF-8. */
#define FIXTURE_NAME "state-not-utf8"
#define LIVES_SAVE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)err;
    plugin_string_t bad = bad_text();
    ret->is_some = true;
    lifecycle_string_dup_n(&ret->val.format, (const char *)bad.ptr, bad.len);
    ret->val.data = (lifecycle_list_u8_t){NULL, 0};
    return true;
}

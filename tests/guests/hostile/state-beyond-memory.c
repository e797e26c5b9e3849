/* state-beyond-memory: saves what is not in its memory. */
#define FIXTURE_NAME "state-beyond-memory"
#define LIVES_SAVE
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    (void)err;
    ret->is_some = true;
    lifecycle_string_dup(&ret->val.format, "v1");
    ret->val.data = (lifecycle_list_u8_t){(uint8_t *)0x7ffffff0, 99};
    return true;
}

/* Implements hark_lifecycle.h. */
#include "hark_lifecycle.h"

#include <stdlib.h>
#include <string.h>

bool hark_save(hark_saved *ret, const char *format, const void *data, size_t len) {
    ret->is_some = true;
    lifecycle_string_dup(&ret->val.format, format);
    ret->val.data.len = len;
    ret->val.data.ptr = NULL;
    if (len == 0) return true;
    ret->val.data.ptr = malloc(len);
    if (ret->val.data.ptr == NULL) abort();
    memcpy(ret->val.data.ptr, data, len);
    return true;
}

bool hark_save_nothing(hark_saved *ret) {
    ret->is_some = false;
    return true;
}

bool hark_has_format(const hark_state *state, const char *format) {
    size_t len = strlen(format);
    return state->format.len == len && memcmp(state->format.ptr, format, len) == 0;
}

bool hark_restored(hark_state *state) {
    exports_hark_plugin_lifecycle_saved_state_free(state);
    return true;
}

bool hark_fail(lifecycle_string_t *err, const hark_line *why) {
    lifecycle_string_dup_n(err, why->bytes, why->len);
    return false;
}

bool hark_refuse_state(hark_state *state, lifecycle_string_t *err, const hark_line *why) {
    exports_hark_plugin_lifecycle_saved_state_free(state);
    return hark_fail(err, why);
}

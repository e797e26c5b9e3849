/* Native tests of what hark_lifecycle.c saves and restores; run by `cargo xtask guest-tests`, under the sanitizers where
 * the compiler has them. The few functions of the generated bindings that it calls are written here anew: the generated
 * ones are made for the 32 bits of wasm32. */
#include "hark_lifecycle.h"
#include "check.h"

/* === the bindings === */

void lifecycle_string_dup_n(lifecycle_string_t *ret, const char *s, size_t len) {
    ret->ptr = malloc(len > 0 ? len : 1);
    if (ret->ptr == NULL) abort();
    ret->len = len;
    memcpy(ret->ptr, s, len);
}

void lifecycle_string_dup(lifecycle_string_t *ret, const char *s) { lifecycle_string_dup_n(ret, s, strlen(s)); }

void exports_hark_plugin_lifecycle_saved_state_free(hark_state *ptr) {
    free(ptr->format.ptr);
    free(ptr->data.ptr);
}

/* === the tests === */

static void what_is_saved_is_a_copy_and_is_told_by_its_format(void) {
    char data[] = "seven";
    hark_saved saved;
    memset(&saved, 0xAA, sizeof saved);
    CHECK(hark_save(&saved, "v1", data, 5) && saved.is_some);
    data[0] = 'x';
    CHECK(saved.val.data.len == 5 && memcmp(saved.val.data.ptr, "seven", 5) == 0);
    CHECK(hark_has_format(&saved.val, "v1"));
    CHECK(!hark_has_format(&saved.val, "v") && !hark_has_format(&saved.val, "v11") && !hark_has_format(&saved.val, ""));
    CHECK(hark_restored(&saved.val));
}

static void nothing_may_be_saved_and_a_state_without_bytes(void) {
    hark_saved saved;
    memset(&saved, 0xAA, sizeof saved);
    CHECK(hark_save_nothing(&saved) && !saved.is_some);
    CHECK(hark_save(&saved, "", NULL, 0) && saved.is_some && saved.val.data.len == 0);
    CHECK(hark_has_format(&saved.val, "") && !hark_has_format(&saved.val, "v1"));
    CHECK(hark_restored(&saved.val));
}

static void a_state_is_refused_with_a_reason(void) {
    hark_saved saved;
    hark_line why = {.len = 7, .bytes = "no, why"};
    lifecycle_string_t err;
    hark_save(&saved, "v9", "x", 1);
    CHECK(!hark_refuse_state(&saved.val, &err, &why));
    CHECK(err.len == 7 && memcmp(err.ptr, "no, why", 7) == 0);
    free(err.ptr);
    CHECK(!hark_fail(&err, &why) && err.len == 7);
    free(err.ptr);
}

int main(void) {
    what_is_saved_is_a_copy_and_is_told_by_its_format();
    nothing_may_be_saved_and_a_state_without_bytes();
    a_state_is_refused_with_a_reason();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* million-subscriptions: describe gives a million subscriptions, for which it needs 128 MiB of memory. */
#define FIXTURE_NAME "million-subscriptions"
#define FIXTURE_DESCRIBES
#include "hostile.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    ret->subscriptions.len = 1000000;
    ret->subscriptions.ptr = calloc(ret->subscriptions.len, sizeof *ret->subscriptions.ptr);
    if (ret->subscriptions.ptr == NULL) abort();
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

/* trap-on-secrets: wants Secrets, and traps on every event. For the promise that no dead letter has their contents. */
#define FIXTURE_NAME "trap-on-secrets"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "secrets", "v1", "Secret");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    __builtin_trap();
}

/* What guests with an allocator of their own share: it works while they describe themselves, so that they get as far as
 * an event. `described` says whether this instance is the one that was asked. Events are answered with ok. */
#define FIXTURE_DESCRIBES
#include "hostile.h"

static bool described;

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    described = true;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

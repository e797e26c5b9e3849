/* counter: logs `v<version> <op> <key> <rv>` for every ConfigMap event, and answers ok.
 *
 * No fault at all. Built several times, as counter-v1.wasm … counter-v5.wasm, for tests of hot reload: they
 * differ in HARK_FIXTURE_VERSION and in nothing else. Invariant: exactly one line per event. */
#define TEXT_(macro) #macro
#define TEXT(macro) TEXT_(macro)
#define VERSION TEXT(HARK_FIXTURE_VERSION)
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, "counter", VERSION);
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    hark_line line = {0};
    hark_add(hark_add(hark_add(&line, "v" VERSION " "), op), " ");
    hark_add(hark_add_target(&line, target), " ");
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_string(&line, &target->resource_version));
    return hark_done();
}

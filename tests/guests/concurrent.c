/* concurrent: proposes four instances, and no replay on a reload. Logs `<op> <key> <count>`, where the count is of
 * the events that this instance has seen, kept in its memory; answers ok. So the lines tell how many instances
 * there are (each has a first event), and that events of one object are always the same one's. */
#define FIXTURE_NAME "concurrent"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    ret->proposal.concurrency = (plugin_option_u32_t){true, 4};
    ret->proposal.on_reload.is_some = true;
    ret->proposal.on_reload.val = HARK_PLUGIN_PLUGIN_TYPES_QUEUE_POLICY_KEEP;
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    static uint64_t seen;
    (void)err;
    hark_line line = {0};
    hark_add(hark_add_target(hark_add(hark_add(&line, op), " "), target), " ");
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_number(&line, ++seen));
    return hark_done();
}

/* planned-stateful: `planned`, with a memory: each instance counts the events of the suite's own objects that it answered
 * with ok, and carries the count from one version to the next. Further instructions of its plan:
 *
 *   save refuse | nothing    `save` fails, or has nothing to carry
 *   restore refuse           `restore` fails
 *
 * Logs `restored <count>`, and `begins by a rollback` where that is the reason to start, and nothing else. Invariant: what `save` gives is the count. */
#include "planned.c"
#include "hark_lifecycle.h"

/* Whether the plan has this line. */
static bool is_planned(const char *wanted) {
    read_plan();
    size_t at = sizeof MARK - 1;
    hark_slice line;
    while (next_line(&at, &line)) {
        if (is(line, wanted)) return true;
    }
    return false;
}

static const hark_line *planned_so(hark_line *line) { return hark_add(line, "it is planned to fail"); }

bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    (void)err;
    hark_line line = {0};
    if (reason == EXPORTS_HARK_PLUGIN_LIFECYCLE_START_REASON_ROLLBACK)
        hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add(&line, "begins by a rollback"));
    return true;
}

void exports_hark_plugin_lifecycle_stop(hark_stop_reason reason) { (void)reason; }

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    hark_line why = {0}, text = {0};
    if (is_planned("save refuse")) return hark_fail(err, planned_so(&why));
    if (is_planned("save nothing")) return hark_save_nothing(ret);
    hark_add_number(&text, done_here);
    return hark_save(ret, "count", text.bytes, text.len);
}

bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    hark_line why = {0}, line = {0};
    if (is_planned("restore refuse")) return hark_refuse_state(state, err, planned_so(&why));
    done_here = 0;
    for (size_t at = 0; at < state->data.len; at++) done_here = done_here * 10 + (uint64_t)(state->data.ptr[at] - '0');
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_number(hark_add(&line, "restored "), done_here));
    return hark_restored(state);
}

void exports_hark_plugin_lifecycle_synced(uint32_t subscription) { (void)subscription; }

/* stateful: counts its events, saves the count as text in format `v1`, and goes on from there. Says `v<version> <what>`
 * for everything that it is called for: `start <reason>`, `restore <count>`, `<op> <key> <rv> count <count>`,
 * `synced <subscription>`, `save <count>`, `stop <reason>`. Proposes no replay on a reload.
 *
 * No fault at all, unless its settings name one: under the name of a call (`start`, `stop`, `save`, `restore`, `synced`)
 * `refuse`, `trap` or `spin`, for `save` also `nothing` and `too-much`; with a reason before it (`reload:trap`), `start`
 * and `stop` have it for that reason only. Under `format`, what `save` calls the layout; `restore` refuses all but `v1`.
 *
 * Built several times, as stateful-v1.wasm … stateful-v5.wasm, which differ in HARK_FIXTURE_VERSION and in nothing else.
 * Invariant: exactly one line per call, before its fault. */
#define TEXT_(macro) #macro
#define TEXT(macro) TEXT_(macro)
#define VERSION TEXT(HARK_FIXTURE_VERSION)
#define FIXTURE_DESCRIBES
#include "fixture.h"
#include "hark_lifecycle.h"

#include <stdlib.h>
#include <string.h>

enum { TOO_MUCH = 9 * 1024 * 1024 };

static const char *const START_REASONS[] = {"first", "reload", "settings", "restart", "recycle", "rollback", "other"};
static const char *const STOP_REASONS[] = {"reload", "recycle", "removed", "shutdown", "unused", "other"};

static uint64_t count;

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, "stateful", VERSION);
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    ret->proposal.on_reload.is_some = true;
    ret->proposal.on_reload.val = HARK_PLUGIN_PLUGIN_TYPES_QUEUE_POLICY_KEEP;
    return true;
}

static hark_line begin(const char *what) {
    hark_line line = {0};
    hark_add(hark_add(hark_add(&line, "v" VERSION " "), what), " ");
    return line;
}

static void say(const hark_line *line) { hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, line); }

static void say_number(const char *what, uint64_t number) {
    hark_line line = begin(what);
    say(hark_add_number(&line, number));
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    hark_line line = begin(op);
    hark_add(hark_add_target(&line, target), " ");
    hark_add(hark_add_string(&line, &target->resource_version), " count ");
    say(hark_add_number(&line, ++count));
    return hark_done();
}

/* === faults === */

/* What the settings say under a key; empty if they say nothing. Never freed: it is short. */
static hark_slice setting(const char *key) {
    plugin_string_t name, value;
    plugin_string_set(&name, key);
    if (!hark_plugin_settings_get(&name, &value)) return hark_slice_of("");
    return hark_view(&value);
}

static bool is(hark_slice text, const char *want) { return hark_slice_equal(text, hark_slice_of(want)); }

/* The fault of a call that has a reason, or none (NULL). */
static hark_slice fault_of(const char *call, const char *reason) {
    hark_slice fault = setting(call);
    const char *colon = fault.len > 0 ? memchr(fault.ptr, ':', fault.len) : NULL;
    if (colon == NULL) return fault;
    hark_slice only = {fault.ptr, (size_t)(colon - fault.ptr)};
    if (reason == NULL || !is(only, reason)) return hark_slice_of("");
    return (hark_slice){colon + 1, fault.len - only.len - 1};
}

/* Traps or spins, if that is the fault; else says whether it is a refusal. */
static bool refuses(hark_slice fault) {
    if (is(fault, "trap")) __builtin_trap();
    volatile bool spins = is(fault, "spin");
    while (spins) {
    }
    return is(fault, "refuse");
}

static const hark_line *why(const char *text) {
    static hark_line line;
    line.len = 0;
    return hark_add(&line, text);
}

/* === lifecycle === */

bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    hark_line line = begin("start");
    say(hark_add(&line, START_REASONS[reason]));
    if (refuses(fault_of("start", START_REASONS[reason]))) return hark_fail(err, why("not today"));
    return true;
}

void exports_hark_plugin_lifecycle_stop(hark_stop_reason reason) {
    hark_line line = begin("stop");
    say(hark_add(&line, STOP_REASONS[reason]));
    refuses(fault_of("stop", STOP_REASONS[reason]));
}

bool exports_hark_plugin_lifecycle_save(hark_saved *ret, lifecycle_string_t *err) {
    say_number("save", count);
    hark_slice fault = fault_of("save", NULL);
    if (refuses(fault)) return hark_fail(err, why("not today"));
    if (is(fault, "nothing")) return hark_save_nothing(ret);
    char format[32] = "v1";
    hark_slice other = setting("format");
    if (other.len > 0 && other.len < sizeof format) {
        memcpy(format, other.ptr, other.len);
        format[other.len] = '\0';
    }
    if (is(fault, "too-much")) {
        void *much = calloc(TOO_MUCH, 1);
        if (much == NULL) abort();
        return hark_save(ret, format, much, TOO_MUCH);
    }
    hark_line text = {0};
    hark_add_number(&text, count);
    return hark_save(ret, format, text.bytes, text.len);
}

bool exports_hark_plugin_lifecycle_restore(hark_state *state, lifecycle_string_t *err) {
    if (!hark_has_format(state, "v1")) return hark_refuse_state(state, err, why("it knows format v1 only"));
    count = 0;
    for (size_t i = 0; i < state->data.len; i++) count = count * 10 + (uint64_t)(state->data.ptr[i] - '0');
    say_number("restore", count);
    if (refuses(fault_of("restore", NULL))) return hark_refuse_state(state, err, why("not today"));
    return hark_restored(state);
}

void exports_hark_plugin_lifecycle_synced(uint32_t subscription) {
    say_number("synced", subscription);
    refuses(fault_of("synced", NULL));
}

/* planned: does what the plan in its data says, which a test writes over the bytes after `HARK PLAN` of the built
 * module: so there are as many builds as a test wants, without a compiler. What is not in the plan, it does not do.
 *
 * One instruction a line; what narrows a subscription follows it.
 *
 *   version TEXT             of the description
 *   keep | replay            what it proposes for a reload
 *   concurrency N            instances that it proposes
 *   refuse | break           `describe` fails, or traps
 *   linger N                 `describe` says `lingers`, takes N tenths of a thousand million steps, and says `has lingered`
 *   watch NAME KIND          subscribes to a kind of v1
 *   namespace NAME           of the subscription before, as all that follows
 *   labels SELECTOR
 *   unless POINTER VALUE     a condition: none of this value
 *   changed POINTER
 *   field POINTER
 *   resync SECONDS
 *   trap N                   traps on every Nth event that the instance sees
 *   retry N                  the same, with `retry` after 20 ms
 *
 * Each event is held against the cache (delivery contract 2): `permanent`, if the cache is older than the event.
 * Invariant: it says nothing else in the log. */
#include <string.h>

#include "hark.h"

#define MARK "HARK PLAN\n"

/* Room, which a linker does not leave out of the module as it would zeros. */
#define LINES_16 "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"
#define LINES_64 LINES_16 LINES_16 LINES_16 LINES_16
#define LINES_256 LINES_64 LINES_64 LINES_64 LINES_64
#define LINES_1024 LINES_256 LINES_256 LINES_256 LINES_256

/* Volatile: what it holds is not known to the compiler. */
static volatile const char plan_bytes[] = MARK LINES_1024 LINES_1024;

static char plan[sizeof plan_bytes];
static uint32_t trap_every, retry_every, seen;

/* Events of the suite's own objects that were answered with ok. */
static uint64_t done_here;

/* The next word of a line, and the line's rest after it. */
static hark_slice word(hark_slice *line) {
    size_t length = 0;
    while (length < line->len && line->ptr[length] != ' ') length++;
    hark_slice found = {line->ptr, length};
    size_t skip = length < line->len ? length + 1 : length;
    *line = (hark_slice){line->ptr + skip, line->len - skip};
    return found;
}

/* The next line of the plan, each ended by a zero in place of its newline; false at an empty one, which is the end. */
static bool next_line(size_t *at, hark_slice *line) {
    size_t from = *at, to = from;
    while (to < sizeof plan - 1 && plan[to] != '\n' && plan[to] != '\0') to++;
    if (to == from) return false;
    *line = (hark_slice){plan + from, to - from};
    if (plan[to] == '\n') {
        plan[to] = '\0';
        *at = to + 1;
    } else {
        *at = to;
    }
    return true;
}

static void read_plan(void) {
    for (size_t at = 0; at < sizeof plan - 1; at++) plan[at] = plan_bytes[at];
}

static uint32_t number(hark_slice text) {
    uint32_t value = 0;
    for (size_t at = 0; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
        value = value * 10 + (uint32_t)(text.ptr[at] - '0');
    return value;
}

static bool is(hark_slice text, const char *wanted) { return hark_slice_equal(text, hark_slice_of(wanted)); }

/* What is handed to hark.c ends with a zero: a line does, and a word in its middle is made to. */
static char *text(hark_slice found) {
    char *begin = (char *)found.ptr;
    begin[found.len] = '\0';
    return begin;
}

/* One line, as far as a subscription is concerned. */
static void narrow(hark_subscription *subscription, hark_slice key, hark_slice rest) {
    if (is(key, "namespace")) hark_namespace(subscription, text(rest));
    if (is(key, "labels")) hark_labels(subscription, text(rest));
    if (is(key, "changed")) hark_changed(subscription, text(rest));
    if (is(key, "field")) hark_field(subscription, text(rest));
    if (is(key, "resync")) subscription->resync_seconds = number(rest);
    if (is(key, "unless")) {
        hark_slice pointer = word(&rest);
        char *value = text(rest);
        hark_when(subscription, text(pointer), HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_NONE_OF, value);
    }
}

static void propose(hark_description *ret, hark_slice key, hark_slice rest) {
    if (is(key, "concurrency")) ret->proposal.concurrency = (plugin_option_u32_t){true, number(rest)};
    if (!is(key, "keep") && !is(key, "replay")) return;
    ret->proposal.on_reload.is_some = true;
    ret->proposal.on_reload.val =
        is(key, "keep") ? HARK_PLUGIN_PLUGIN_TYPES_QUEUE_POLICY_KEEP : HARK_PLUGIN_PLUGIN_TYPES_QUEUE_POLICY_REPLAY;
}

static void linger(uint32_t tenths) {
    hark_line before = {0};
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add(&before, "lingers"));
    for (uint32_t tenth = 0; tenth < tenths; tenth++) {
        for (volatile uint32_t step = 0; step < 100000000; step++) continue;
    }
    hark_line line = {0};
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add(&line, "has lingered"));
}

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    read_plan();
    size_t at = sizeof MARK - 1;
    const char *version = "0";
    hark_slice line;
    if (next_line(&at, &line)) {
        word(&line);
        version = text(line);
    }
    hark_describe(ret, "planned", version);
    hark_subscription *subscription = NULL;
    while (next_line(&at, &line)) {
        hark_slice key = word(&line);
        if (is(key, "break")) __builtin_trap();
        if (is(key, "refuse")) {
            hark_line why = {0};
            return hark_refuse(ret, err, hark_add(&why, "it is planned to refuse"));
        }
        propose(ret, key, line);
        if (is(key, "linger")) linger(number(line));
        if (is(key, "watch")) {
            hark_slice name = word(&line);
            char *kind = text(line);
            subscription = hark_watch(ret, text(name), "v1", kind);
        } else if (subscription != NULL) {
            narrow(subscription, key, line);
        }
    }
    return true;
}

/* What handling needs of the plan; once for each instance. */
static void prepare(void) {
    static bool prepared;
    if (prepared) return;
    prepared = true;
    read_plan();
    size_t at = sizeof MARK - 1;
    hark_slice line;
    while (next_line(&at, &line)) {
        hark_slice key = word(&line);
        if (is(key, "trap")) trap_every = number(line);
        if (is(key, "retry")) retry_every = number(line);
    }
}

/* Whether the cache's state of the object, if it has one, is at least as new. */
static bool cache_is_new_enough(uint32_t subscription, const hark_target *target) {
    plugin_string_t namespace = target->namespace_, name = target->name, pointer;
    plugin_string_set(&pointer, "/metadata/resourceVersion");
    plugin_list_string_t fields = {&pointer, 1};
    plugin_option_string_t found;
    hark_plugin_cache_problem_t problem;
    if (!hark_plugin_cache_get(subscription, &namespace, &name, &fields, &found, &problem)) return false;
    if (!found.is_some) return true;
    hark_slice metadata, version;
    char digits[24];
    size_t length = 0;
    bool read = hark_json_member(hark_view(&found.val), hark_slice_of("metadata"), &metadata) &&
                hark_json_member(metadata, hark_slice_of("resourceVersion"), &version) &&
                hark_json_text(version, digits, sizeof digits, &length);
    plugin_option_string_free(&found);
    /* Both are decimal numbers without leading zeros. */
    size_t wanted = target->resource_version.len;
    if (!read || length != wanted) return read && length > wanted;
    return memcmp(digits, target->resource_version.ptr, length) >= 0;
}

static bool begins(const plugin_string_t *text, const char *with) {
    size_t length = strlen(with);
    return text->len >= length && memcmp(text->ptr, with, length) == 0;
}

static bool handle(uint32_t subscription, const hark_target *target, bool remains, hark_failure *err) {
    prepare();
    seen++;
    if (trap_every != 0 && seen % trap_every == 0) __builtin_trap();
    if (remains && !cache_is_new_enough(subscription, target)) return hark_permanent(err, "the cache is older");
    if (retry_every != 0 && seen % retry_every == 0) return hark_retry(err, "it is planned to retry", 20);
    bool is_ours = begins(&target->name, "object-") || begins(&target->name, "last");
    if (is_ours && begins(&target->namespace_, "reloads-")) done_here++;
    return hark_done();
}

bool exports_hark_plugin_handler_on_add(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                        bool initial, hark_failure *err) {
    (void)initial;
    bool done = handle(subscription, target, true, err);
    hark_free_event(target, object);
    return done;
}

bool exports_hark_plugin_handler_on_update(uint32_t subscription, hark_target *target, plugin_string_t *old_object,
                                           plugin_string_t *new_object, bool resync, hark_failure *err) {
    (void)resync;
    bool done = handle(subscription, target, true, err);
    hark_free_update(target, old_object, new_object);
    return done;
}

bool exports_hark_plugin_handler_on_delete(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                           hark_delete_reason reason, hark_failure *err) {
    (void)reason;
    bool done = handle(subscription, target, false, err);
    hark_free_event(target, object);
    return done;
}

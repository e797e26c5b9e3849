/* read-cache: no fault. On each event it asks the cache for the event's own object, and lists the object's
 * namespace in pages of 2; logs `<op> <key> cached <yes|no> listed <count>` and answers ok. An answer that is
 * an error is logged as `<op> <key> problem <number>`, with the numbers of `cache.problem`. */
#define FIXTURE_NAME "read-cache"
#include "fixture.h"

static bool tell_problem(const char *op, const hark_target *target, hark_plugin_cache_problem_t problem) {
    char digit[] = {(char)('0' + problem), '\0'};
    hark_line line = {0};
    hark_add(hark_add_target(hark_add(hark_add(&line, op), " "), target), " problem ");
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add(&line, digit));
    return hark_done();
}

/* Counts the objects of a namespace, page by page. */
static bool list(plugin_string_t *namespace, uint64_t *count, hark_plugin_cache_problem_t *problem) {
    hark_plugin_cache_page_t page = {0};
    plugin_list_string_t whole = {0};
    bool more = true;
    *count = 0;
    while (more) {
        plugin_string_t after = page.next;
        bool answered = hark_plugin_cache_list_objects(0, namespace, &whole, &after, 2, &page, problem);
        plugin_string_free(&after);
        if (!answered) return false;
        *count += page.objects.len;
        plugin_list_string_free(&page.objects);
        more = page.next.len > 0;
    }
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    plugin_string_t namespace = target->namespace_, name = target->name;
    plugin_list_string_t whole = {0};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    uint64_t count;
    bool answered = hark_plugin_cache_get(0, &namespace, &name, &whole, &object, &problem);
    if (!answered) return tell_problem(op, target, problem);
    if (!list(&namespace, &count, &problem)) return tell_problem(op, target, problem);
    hark_line line = {0};
    hark_add_target(hark_add(hark_add(&line, op), " "), target);
    hark_add(&line, object.is_some ? " cached yes listed " : " cached no listed ");
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_number(&line, count));
    plugin_option_string_free(&object);
    return hark_done();
}

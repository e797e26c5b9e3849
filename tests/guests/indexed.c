/* indexed: no fault. Indexes ConfigMaps as `team` by the label `team`; on each event it asks for the names of all
 * objects of team `a`, in pages of 2, and for all teams, one by one.
 *
 * Logs `<op> <key> a=<name>,<name>,… teams=<team>,<team>,…` and answers ok, or logs `<op> <key> problem <number>`,
 * with the numbers of `cache.problem`. */
#define FIXTURE_NAME "indexed"
#define FIXTURE_DESCRIBES
#include "fixture.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_index(hark_watch(ret, "configmaps", "v1", "ConfigMap"), "team", "/metadata/labels/team");
    return true;
}

/* Adds `metadata.name` of an object, which has nothing else, and a comma. */
static void add_name(hark_line *line, const plugin_string_t *object) {
    hark_slice metadata, name;
    char text[256];
    size_t length;
    if (!hark_json_member(hark_view(object), hark_slice_of("metadata"), &metadata)) return;
    if (!hark_json_member(metadata, hark_slice_of("name"), &name)) return;
    if (!hark_json_text(name, text, sizeof text, &length)) return;
    hark_add(hark_add_slice(line, (hark_slice){text, length}), ",");
}

/* Adds the names of the objects of team `a`. */
static bool add_objects(hark_line *line, hark_plugin_cache_problem_t *problem) {
    plugin_string_t index, value, pointer;
    plugin_string_set(&index, "team");
    plugin_string_set(&value, "a");
    plugin_string_set(&pointer, "/metadata/name");
    plugin_list_string_t fields = {&pointer, 1};
    hark_plugin_cache_page_t page = {0};
    do {
        plugin_string_t after = page.next;
        bool answered = hark_plugin_cache_by_index(0, &index, &value, &fields, &after, 2, &page, problem);
        plugin_string_free(&after);
        if (!answered) return false;
        for (size_t i = 0; i < page.objects.len; i++) add_name(line, &page.objects.ptr[i]);
        plugin_list_string_free(&page.objects);
    } while (page.next.len > 0);
    return true;
}

/* Adds the teams that there are. */
static bool add_teams(hark_line *line, hark_plugin_cache_problem_t *problem) {
    plugin_string_t index;
    plugin_string_set(&index, "team");
    hark_plugin_cache_value_page_t page = {0};
    do {
        plugin_string_t after = page.next;
        bool answered = hark_plugin_cache_index_values(0, &index, &after, 1, &page, problem);
        plugin_string_free(&after);
        if (!answered) return false;
        for (size_t i = 0; i < page.values.len; i++) hark_add(hark_add_string(line, &page.values.ptr[i]), ",");
        plugin_list_string_free(&page.values);
    } while (page.next.len > 0);
    return true;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    hark_plugin_cache_problem_t problem;
    hark_line line = {0};
    (void)err;
    hark_add(hark_add_target(hark_add(hark_add(&line, op), " "), target), " ");
    hark_line answer = line;
    hark_add(&answer, "a=");
    bool answered = add_objects(&answer, &problem);
    hark_add(&answer, " teams=");
    if (answered && add_teams(&answer, &problem)) {
        hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, &answer);
    } else {
        hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_number(hark_add(&line, "problem "), problem));
    }
    return hark_done();
}

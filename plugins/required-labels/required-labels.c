/* required-labels: warns of objects that lack labels every object of their kind should have.
 *
 * A Hark plugin in C without a C library. Settings, both lists of texts:
 *   kinds   which objects to look at, as `v1/Namespace` or `apps/v1/Deployment` (default: apps/v1/Deployment)
 *   labels  the label keys they should have (default: app.kubernetes.io/name)
 *
 * Invariant: one warning per object and per set of missing labels; an object that stays as it was is not
 * warned of again by its updates. Nothing is remembered between events: the old object tells. */

#include "hark.h"

enum { MOST = 64 };

/* The labels that an object lacks: bit N for the Nth label of the settings. */
typedef uint64_t label_set;

/* A setting, as JSON text: the operator's, or the default. Kept for the life of the instance. */
static hark_slice setting(const char *name, const char *otherwise) {
    plugin_string_t key, value;
    plugin_string_set(&key, name);
    return hark_plugin_settings_get(&key, &value) ? hark_view(&value) : hark_slice_of(otherwise);
}

/* The labels wanted, as a JSON list. The settings do not change while an instance lives. */
static hark_slice wanted_labels(void) {
    static hark_slice labels;
    if (labels.ptr == NULL) labels = setting("labels", "[\"app.kubernetes.io/name\"]");
    return labels;
}

/* How many texts a JSON list holds; MOST + 1 if it is not a list of 1 to MOST texts. */
static size_t count_texts(hark_slice list) {
    hark_json_cursor cursor;
    hark_slice value;
    size_t count = 0;
    if (!hark_json_open(list, &cursor) || cursor.is_object) return MOST + 1;
    while (count <= MOST && hark_json_next(&cursor, NULL, &value)) {
        if (value.ptr[0] != '"' || value.len == 2) return MOST + 1;
        count++;
    }
    return count == 0 ? MOST + 1 : count;
}

static bool refuse_setting(hark_description *ret, plugin_string_t *err, const char *name, const char *example) {
    hark_line why = {0};
    hark_add(hark_add(hark_add(&why, "settings: "), name), " must be a list of 1 to 64 texts such as ");
    return hark_refuse(ret, err, hark_add(&why, example));
}

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    hark_slice kinds = setting("kinds", "[\"apps/v1/Deployment\"]"), value;
    hark_json_cursor cursor;
    hark_describe(ret, "required-labels", "0.1.0");
    if (count_texts(wanted_labels()) > MOST) return refuse_setting(ret, err, "labels", "\"team\"");
    if (count_texts(kinds) > MOST) return refuse_setting(ret, err, "kinds", "\"apps/v1/Deployment\"");
    hark_json_open(kinds, &cursor);
    while (hark_json_next(&cursor, NULL, &value)) {
        char kind[256];
        size_t length;
        bool fits = hark_json_text(value, kind, sizeof kind, &length);
        hark_subscription *objects = fits ? hark_watch_kind(ret, (hark_slice){kind, length}) : NULL;
        if (objects == NULL) return refuse_setting(ret, err, "kinds", "\"apps/v1/Deployment\"");
        /* All that is looked at, and so all whose change is an update. */
        hark_field(objects, "/metadata/labels");
    }
    return true;
}

/* Whether an object of labels has one of this name, which is a JSON string too. */
static bool has_label(hark_slice labels, hark_slice wanted) {
    char name[512];
    size_t length;
    hark_slice value;
    if (!hark_json_text(wanted, name, sizeof name, &length)) return false;
    return hark_json_member(labels, (hark_slice){name, length}, &value);
}

static label_set missing_labels(hark_slice object) {
    hark_slice metadata, labels, wanted;
    hark_json_cursor cursor;
    label_set missing = 0;
    if (!hark_json_member(object, hark_slice_of("metadata"), &metadata) ||
        !hark_json_member(metadata, hark_slice_of("labels"), &labels)) {
        labels = hark_slice_of("{}");
    }
    hark_json_open(wanted_labels(), &cursor);
    for (label_set bit = 1; hark_json_next(&cursor, NULL, &wanted); bit <<= 1) {
        if (!has_label(labels, wanted)) missing |= bit;
    }
    return missing;
}

static void warn(const hark_target *target, label_set missing) {
    hark_json_cursor cursor;
    hark_slice wanted;
    hark_line line = {0};
    const char *before = " lacks ";
    hark_add_target(&line, target);
    hark_json_open(wanted_labels(), &cursor);
    for (label_set bit = 1; hark_json_next(&cursor, NULL, &wanted); bit <<= 1) {
        if ((missing & bit) == 0) continue;
        hark_add(&line, before);
        hark_add_slice(&line, (hark_slice){wanted.ptr + 1, wanted.len - 2});
        before = ", ";
    }
    hark_log(HARK_PLUGIN_LOG_LEVEL_WARN, &line);
}

bool exports_hark_plugin_handler_on_add(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                        bool initial, hark_failure *err) {
    (void)subscription, (void)initial, (void)err;
    label_set missing = missing_labels(hark_view(object));
    if (missing != 0) warn(target, missing);
    hark_free_event(target, object);
    return hark_done();
}

bool exports_hark_plugin_handler_on_update(uint32_t subscription, hark_target *target, plugin_string_t *old_object,
                                           plugin_string_t *new_object, bool resync, hark_failure *err) {
    (void)subscription, (void)resync, (void)err;
    label_set missing = missing_labels(hark_view(new_object));
    if (missing != 0 && missing != missing_labels(hark_view(old_object))) warn(target, missing);
    hark_free_update(target, old_object, new_object);
    return hark_done();
}

bool exports_hark_plugin_handler_on_delete(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                           hark_delete_reason reason, hark_failure *err) {
    (void)subscription, (void)reason, (void)err;
    hark_free_event(target, object);
    return hark_done();
}

/* filtered: wants ConfigMaps labelled `watch=yes` whose `data.phase` is not `off`, is told of updates that change
 * `data.phase` or `data.text`, and is handed `data` and the name.
 *
 * Logs what it is handed, `<op> <key> <reason> <object>`, where the reason is that of a delete and `-` otherwise,
 * and of an update the object is `<old object> -> <new object>`; answers ok. Invariant: one line per event. */
#include "hark.h"

bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, "filtered", "0.1.0");
    hark_subscription *maps = hark_watch(ret, "configmaps", "v1", "ConfigMap");
    hark_when(maps, "/metadata/labels/watch", HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ONE_OF, "yes");
    hark_when(maps, "/data/phase", HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_NONE_OF, "off");
    hark_changed(maps, "/data/phase");
    hark_changed(maps, "/data/text");
    hark_field(maps, "/data");
    hark_field(maps, "/metadata/name");
    return true;
}

/* Logs one line; `old_object` is NULL but for updates. */
static void tell(const char *op, const hark_target *target, const char *reason, const plugin_string_t *old_object,
                 const plugin_string_t *object) {
    hark_line line = {0};
    hark_add(hark_add_target(hark_add(hark_add(&line, op), " "), target), " ");
    hark_add(hark_add(&line, reason), " ");
    if (old_object != NULL) hark_add(hark_add_string(&line, old_object), " -> ");
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, hark_add_string(&line, object));
}

bool exports_hark_plugin_handler_on_add(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                        bool initial, hark_failure *err) {
    (void)subscription, (void)initial, (void)err;
    tell("add", target, "-", NULL, object);
    hark_free_event(target, object);
    return hark_done();
}

bool exports_hark_plugin_handler_on_update(uint32_t subscription, hark_target *target, plugin_string_t *old_object,
                                           plugin_string_t *new_object, bool resync, hark_failure *err) {
    (void)subscription, (void)resync, (void)err;
    tell("update", target, "-", old_object, new_object);
    hark_free_update(target, old_object, new_object);
    return hark_done();
}

bool exports_hark_plugin_handler_on_delete(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                           hark_delete_reason reason, hark_failure *err) {
    static const char *const reasons[] = {"deleted", "unknown", "filtered", "namespace-left", "other"};
    (void)subscription, (void)err;
    tell("delete", target, reason < 5 ? reasons[reason] : "?", NULL, object);
    hark_free_event(target, object);
    return hark_done();
}

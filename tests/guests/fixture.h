/* What the misbehaving fixtures share: a description that wants all ConfigMaps, and handlers that all end in
 * one function, `handle`, which a fixture writes. Include it once, after defining FIXTURE_NAME; a fixture that
 * describes itself otherwise defines FIXTURE_DESCRIBES too. Invariant: what is handled here is freed here, so
 * a fixture has the one fault it is there for, and no leak beside it. */
#ifndef HARK_FIXTURE_H
#define HARK_FIXTURE_H

#include "hark.h"

/* Handles one event. False after hark_retry or hark_permanent. */
static bool handle(const char *op, const hark_target *target, hark_failure *err);

#ifndef FIXTURE_DESCRIBES
bool exports_hark_plugin_handler_describe(hark_description *ret, plugin_string_t *err) {
    (void)err;
    hark_describe(ret, FIXTURE_NAME, "0.1.0");
    hark_watch(ret, "configmaps", "v1", "ConfigMap");
    return true;
}
#endif

bool exports_hark_plugin_handler_on_add(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                        bool initial, hark_failure *err) {
    (void)subscription, (void)initial;
    bool done = handle("add", target, err);
    hark_free_event(target, object);
    return done;
}

bool exports_hark_plugin_handler_on_update(uint32_t subscription, hark_target *target, plugin_string_t *old_object,
                                           plugin_string_t *new_object, bool resync, hark_failure *err) {
    (void)subscription, (void)resync;
    bool done = handle("update", target, err);
    hark_free_update(target, old_object, new_object);
    return done;
}

bool exports_hark_plugin_handler_on_delete(uint32_t subscription, hark_target *target, plugin_string_t *object,
                                           hark_delete_reason reason, hark_failure *err) {
    (void)subscription, (void)reason;
    bool done = handle("delete", target, err);
    hark_free_event(target, object);
    return done;
}

/* Logs `<op> <key>` and, unless it is empty, ` <more>`. */
static inline void tell(const char *op, const hark_target *target, const char *more) {
    hark_line line = {0};
    hark_add_target(hark_add(hark_add(&line, op), " "), target);
    if (more[0] != '\0') hark_add(hark_add(&line, " "), more);
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, &line);
}

#endif

/* What makes the generated bindings (plugin.h) pleasant: descriptions, log lines, failures. For every C
 * plugin. Invariant: strings handed to the host through `ret` or `err` are copies made here, since the
 * bindings free them; strings only read by the host are borrowed.
 *
 * A handler owns its arguments: end it with hark_done or one of the failures, after hark_free_…. */
#ifndef HARK_H
#define HARK_H

#include "hark_json.h"
#include "plugin.h"

/* The generated names, without what all of them begin with. */
typedef exports_hark_plugin_handler_description_t hark_description;
typedef exports_hark_plugin_handler_object_reference_t hark_target;
typedef exports_hark_plugin_handler_failure_t hark_failure;
typedef exports_hark_plugin_handler_delete_reason_t hark_delete_reason;
typedef hark_plugin_plugin_types_subscription_t hark_subscription;
typedef hark_plugin_plugin_types_condition_t hark_condition;
typedef hark_plugin_plugin_types_comparison_t hark_comparison;

/* A line of text of bounded length: what does not fit is cut off. Begin with `hark_line line = {0};`. */
typedef struct {
    size_t len;
    char bytes[1024];
} hark_line;

hark_line *hark_add(hark_line *line, const char *text);
hark_line *hark_add_slice(hark_line *line, hark_slice text);
hark_line *hark_add_string(hark_line *line, const plugin_string_t *text);
hark_line *hark_add_number(hark_line *line, uint64_t number);
/* `namespace/name`, or `name` for a cluster-scoped object. */
hark_line *hark_add_target(hark_line *line, const hark_target *target);

/* Writes the line to the host's log; the levels are HARK_PLUGIN_LOG_LEVEL_…. */
void hark_log(hark_plugin_log_level_t level, const hark_line *line);

/* A view of a string that the host handed over. */
hark_slice hark_view(const plugin_string_t *text);

/* Starts a description, still without subscriptions, which proposes nothing: set ret->proposal to propose how
 * the plugin is best run, e.g. `ret->proposal.concurrency = (plugin_option_u32_t){true, 4};`. */
void hark_describe(hark_description *ret, const char *name, const char *version);
/* Adds a subscription to all objects of a kind; the caller may narrow it, with the functions below, before the
 * next one is added (which moves it). */
hark_subscription *hark_watch(hark_description *ret, const char *name, const char *api_version, const char *kind);
/* The same, named after a kind as operators write it, `v1/ConfigMap` or `apps/v1/Deployment`; NULL if `kind`
 * is not one. */
hark_subscription *hark_watch_kind(hark_description *ret, hark_slice kind);

/* Narrow a subscription; plugin.h says what each field of it means. Selectors are set once; namespaces,
 * conditions, pointers and indexes are added, one with each call. */
void hark_namespace(hark_subscription *subscription, const char *name);
void hark_namespaces_with(hark_subscription *subscription, const char *labels);
void hark_labels(hark_subscription *subscription, const char *selector);
void hark_field_selector(hark_subscription *subscription, const char *selector);
/* Adds a condition, whose comparison is HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_…; `value` is NULL for EXISTS and ABSENT. */
hark_condition *hark_when(hark_subscription *subscription, const char *pointer, hark_comparison comparison,
                          const char *value);
/* Adds another value to a condition of ONE_OF or NONE_OF, before the next condition is added. */
void hark_or(hark_condition *condition, const char *value);
void hark_changed(hark_subscription *subscription, const char *pointer);
void hark_field(hark_subscription *subscription, const char *pointer);
void hark_index(hark_subscription *subscription, const char *name, const char *pointer);

/* Lets describe fail: `return hark_refuse(ret, err, …);`. Frees `ret`. */
bool hark_refuse(hark_description *ret, plugin_string_t *err, const hark_line *why);

/* Frees what an add or a delete, or an update, came with. */
void hark_free_event(hark_target *target, plugin_string_t *object);
void hark_free_update(hark_target *target, plugin_string_t *old_object, plugin_string_t *new_object);

/* What a handler returns: the event is dealt with; try it again after so many milliseconds (0: the host's own
 * back-off); give it up. */
static inline bool hark_done(void) { return true; }
bool hark_retry(hark_failure *err, const char *why, uint32_t after_ms);
bool hark_permanent(hark_failure *err, const char *why);

#endif

/* Implements hark.h. */
#include "hark.h"

#include <stdlib.h>
#include <string.h>

hark_line *hark_add_slice(hark_line *line, hark_slice text) {
    size_t room = sizeof line->bytes - line->len;
    size_t taken = text.len < room ? text.len : room;
    /* Never end in the middle of a character: the host takes UTF-8 only. */
    while (taken < text.len && taken > 0 && ((unsigned char)text.ptr[taken] & 0xC0) == 0x80) taken--;
    memcpy(line->bytes + line->len, text.ptr, taken);
    line->len += taken;
    return line;
}

hark_line *hark_add(hark_line *line, const char *text) { return hark_add_slice(line, hark_slice_of(text)); }

hark_line *hark_add_string(hark_line *line, const plugin_string_t *text) {
    return hark_add_slice(line, hark_view(text));
}

hark_line *hark_add_number(hark_line *line, uint64_t number) {
    char digits[20];
    size_t start = sizeof digits;
    do {
        digits[--start] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return hark_add_slice(line, (hark_slice){digits + start, sizeof digits - start});
}

hark_line *hark_add_target(hark_line *line, const hark_target *target) {
    if (target->namespace_.len > 0) hark_add(hark_add_string(line, &target->namespace_), "/");
    return hark_add_string(line, &target->name);
}

void hark_log(hark_plugin_log_level_t level, const hark_line *line) {
    plugin_string_t message = {(uint8_t *)line->bytes, line->len};
    hark_plugin_log_log(level, &message);
}

hark_slice hark_view(const plugin_string_t *text) { return (hark_slice){(const char *)text->ptr, text->len}; }

void hark_describe(hark_description *ret, const char *name, const char *version) {
    memset(ret, 0, sizeof *ret);
    plugin_string_dup(&ret->name, name);
    plugin_string_dup(&ret->version, version);
}

/* Makes room for one more element in a list of `len`, and clears it. */
static void *one_more(void *list, size_t len, size_t size) {
    unsigned char *all = realloc(list, (len + 1) * size);
    if (all == NULL) abort();
    memset(all + len * size, 0, size);
    return all;
}

static hark_subscription *next_subscription(hark_description *ret) {
    ret->subscriptions.ptr = one_more(ret->subscriptions.ptr, ret->subscriptions.len, sizeof *ret->subscriptions.ptr);
    return &ret->subscriptions.ptr[ret->subscriptions.len++];
}

hark_subscription *hark_watch(hark_description *ret, const char *name, const char *api_version, const char *kind) {
    hark_subscription *subscription = next_subscription(ret);
    plugin_string_dup(&subscription->name, name);
    plugin_string_dup(&subscription->api_version, api_version);
    plugin_string_dup(&subscription->kind, kind);
    return subscription;
}

/* Where the kind begins in `v1/ConfigMap` or `apps/v1/Deployment`; 0 if it is neither. */
static size_t kind_start(hark_slice kind) {
    size_t slashes = 0, start = 0;
    for (size_t i = 0; i < kind.len; i++) {
        if (kind.ptr[i] != '/') continue;
        if (i == start) return 0;
        slashes++;
        start = i + 1;
    }
    return slashes >= 1 && slashes <= 2 && start < kind.len ? start : 0;
}

hark_subscription *hark_watch_kind(hark_description *ret, hark_slice kind) {
    size_t start = kind_start(kind);
    if (start == 0) return NULL;
    hark_subscription *subscription = next_subscription(ret);
    plugin_string_dup_n(&subscription->name, kind.ptr, kind.len);
    plugin_string_dup_n(&subscription->api_version, kind.ptr, start - 1);
    plugin_string_dup_n(&subscription->kind, kind.ptr + start, kind.len - start);
    return subscription;
}

static void add_text(plugin_list_string_t *list, const char *text) {
    list->ptr = one_more(list->ptr, list->len, sizeof *list->ptr);
    plugin_string_dup(&list->ptr[list->len++], text);
}

void hark_namespace(hark_subscription *subscription, const char *name) { add_text(&subscription->namespaces, name); }

void hark_namespaces_with(hark_subscription *subscription, const char *labels) {
    plugin_string_dup(&subscription->namespace_selector, labels);
}

void hark_labels(hark_subscription *subscription, const char *selector) {
    plugin_string_dup(&subscription->label_selector, selector);
}

void hark_field_selector(hark_subscription *subscription, const char *selector) {
    plugin_string_dup(&subscription->field_selector, selector);
}

hark_condition *hark_when(hark_subscription *subscription, const char *pointer, hark_comparison comparison,
                          const char *value) {
    hark_plugin_plugin_types_list_condition_t *all = &subscription->conditions;
    all->ptr = one_more(all->ptr, all->len, sizeof *all->ptr);
    hark_condition *condition = &all->ptr[all->len++];
    plugin_string_dup(&condition->pointer, pointer);
    condition->comparison = comparison;
    if (value != NULL) hark_or(condition, value);
    return condition;
}

void hark_or(hark_condition *condition, const char *value) { add_text(&condition->values, value); }

void hark_changed(hark_subscription *subscription, const char *pointer) { add_text(&subscription->changed, pointer); }

void hark_field(hark_subscription *subscription, const char *pointer) { add_text(&subscription->fields, pointer); }

void hark_index(hark_subscription *subscription, const char *name, const char *pointer) {
    hark_plugin_plugin_types_list_index_definition_t *all = &subscription->indexes;
    all->ptr = one_more(all->ptr, all->len, sizeof *all->ptr);
    plugin_string_dup(&all->ptr[all->len].name, name);
    plugin_string_dup(&all->ptr[all->len++].pointer, pointer);
}

bool hark_refuse(hark_description *ret, plugin_string_t *err, const hark_line *why) {
    exports_hark_plugin_handler_description_free(ret);
    plugin_string_dup_n(err, why->bytes, why->len);
    return false;
}

void hark_free_event(hark_target *target, plugin_string_t *object) {
    exports_hark_plugin_handler_object_reference_free(target);
    plugin_string_free(object);
}

void hark_free_update(hark_target *target, plugin_string_t *old_object, plugin_string_t *new_object) {
    hark_free_event(target, old_object);
    plugin_string_free(new_object);
}

bool hark_retry(hark_failure *err, const char *why, uint32_t after_ms) {
    err->tag = HARK_PLUGIN_PLUGIN_TYPES_FAILURE_RETRY;
    plugin_string_dup(&err->val.retry.message, why);
    err->val.retry.after_ms = after_ms;
    return false;
}

bool hark_permanent(hark_failure *err, const char *why) {
    err->tag = HARK_PLUGIN_PLUGIN_TYPES_FAILURE_PERMANENT;
    plugin_string_dup(&err->val.permanent, why);
    return false;
}

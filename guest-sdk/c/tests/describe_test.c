/* Native tests of the descriptions that hark.c builds; run by `cargo xtask guest-tests`, under the sanitizers
 * where the compiler has them. The few functions of the generated bindings that hark.c calls are written here
 * anew: the generated ones are made for the 32 bits of wasm32. */
#include "hark.h"
#include "check.h"

/* === the bindings === */

void plugin_string_dup_n(plugin_string_t *ret, const char *s, size_t len) {
    ret->ptr = malloc(len > 0 ? len : 1);
    if (ret->ptr == NULL) abort();
    ret->len = len;
    memcpy(ret->ptr, s, len);
}

void plugin_string_dup(plugin_string_t *ret, const char *s) { plugin_string_dup_n(ret, s, strlen(s)); }

void plugin_string_free(plugin_string_t *ret) { free(ret->ptr); }

static void free_texts(plugin_list_string_t *list) {
    for (size_t i = 0; i < list->len; i++) free(list->ptr[i].ptr);
    free(list->ptr);
}

static void free_subscription(hark_subscription *one) {
    plugin_string_t *texts[] = {&one->name, &one->api_version, &one->kind,
                                &one->namespace_selector, &one->label_selector, &one->field_selector};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]->ptr);
    for (size_t i = 0; i < one->conditions.len; i++) {
        free(one->conditions.ptr[i].pointer.ptr);
        free_texts(&one->conditions.ptr[i].values);
    }
    for (size_t i = 0; i < one->indexes.len; i++) {
        free(one->indexes.ptr[i].name.ptr);
        free(one->indexes.ptr[i].pointer.ptr);
    }
    free(one->conditions.ptr);
    free(one->indexes.ptr);
    free_texts(&one->namespaces);
    free_texts(&one->changed);
    free_texts(&one->fields);
}

void exports_hark_plugin_handler_description_free(hark_description *ptr) {
    for (size_t i = 0; i < ptr->subscriptions.len; i++) free_subscription(&ptr->subscriptions.ptr[i]);
    free(ptr->subscriptions.ptr);
    free(ptr->name.ptr);
    free(ptr->version.ptr);
}

void exports_hark_plugin_handler_object_reference_free(hark_target *ptr) { (void)ptr; }

void hark_plugin_log_log(hark_plugin_log_level_t level, plugin_string_t *message) { (void)level, (void)message; }

/* === the tests === */

static bool is(plugin_string_t text, const char *want) {
    return hark_slice_equal(hark_view(&text), hark_slice_of(want));
}

static bool are(plugin_list_string_t list, const char *first, const char *second) {
    size_t want = (first != NULL) + (second != NULL);
    return list.len == want && (want < 1 || is(list.ptr[0], first)) && (want < 2 || is(list.ptr[1], second));
}

static void a_plain_description_asks_for_everything_and_proposes_nothing(void) {
    hark_description description;
    memset(&description, 0xAA, sizeof description);
    hark_describe(&description, "p", "1");
    const hark_subscription *pods = hark_watch(&description, "pods", "v1", "Pod");
    CHECK(is(description.name, "p") && is(description.version, "1") && description.subscriptions.len == 1);
    CHECK(is(pods->name, "pods") && is(pods->api_version, "v1") && is(pods->kind, "Pod"));
    CHECK(pods->namespaces.len == 0 && pods->namespace_selector.len == 0 && pods->label_selector.len == 0);
    CHECK(pods->field_selector.len == 0 && pods->conditions.len == 0 && pods->indexes.len == 0);
    CHECK(are(pods->changed, NULL, NULL) && are(pods->fields, NULL, NULL) && pods->resync_seconds == 0);
    CHECK(!description.proposal.on_reload.is_some && !description.proposal.on_restart.is_some);
    CHECK(!description.proposal.delivery.is_some && !description.proposal.concurrency.is_some);
    exports_hark_plugin_handler_description_free(&description);
}

static void a_subscription_is_narrowed_step_by_step(void) {
    hark_description description;
    hark_describe(&description, "p", "1");
    hark_subscription *pods = hark_watch(&description, "pods", "v1", "Pod");
    hark_namespace(pods, "a");
    hark_namespace(pods, "b");
    hark_namespaces_with(pods, "team=a");
    hark_labels(pods, "app=web");
    hark_field_selector(pods, "spec.nodeName=n");
    hark_changed(pods, "/a");
    hark_field(pods, "/b");
    hark_field(pods, "/c");
    hark_index(pods, "node", "/spec/nodeName");
    hark_index(pods, "image", "/spec/containers/*/image");
    CHECK(are(pods->namespaces, "a", "b") && is(pods->namespace_selector, "team=a"));
    CHECK(is(pods->label_selector, "app=web") && is(pods->field_selector, "spec.nodeName=n"));
    CHECK(are(pods->changed, "/a", NULL) && are(pods->fields, "/b", "/c") && pods->indexes.len == 2);
    CHECK(is(pods->indexes.ptr[0].name, "node") && is(pods->indexes.ptr[0].pointer, "/spec/nodeName"));
    CHECK(is(pods->indexes.ptr[1].name, "image"));
    exports_hark_plugin_handler_description_free(&description);
}

static void conditions_have_the_values_added_to_them(void) {
    hark_description description;
    hark_describe(&description, "p", "1");
    hark_subscription *pods = hark_watch(&description, "pods", "v1", "Pod");
    hark_when(pods, "/x", HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ABSENT, NULL);
    hark_or(hark_when(pods, "/y", HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ONE_OF, "1"), "2");
    /* The next subscription moves the list, and what hangs on it stays. */
    hark_watch(&description, "nodes", "v1", "Node");
    pods = &description.subscriptions.ptr[0];
    CHECK(description.subscriptions.len == 2 && pods->conditions.len == 2);
    CHECK(pods->conditions.ptr[0].comparison == HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ABSENT);
    CHECK(is(pods->conditions.ptr[0].pointer, "/x") && are(pods->conditions.ptr[0].values, NULL, NULL));
    CHECK(pods->conditions.ptr[1].comparison == HARK_PLUGIN_PLUGIN_TYPES_COMPARISON_ONE_OF);
    CHECK(is(pods->conditions.ptr[1].pointer, "/y") && are(pods->conditions.ptr[1].values, "1", "2"));
    exports_hark_plugin_handler_description_free(&description);
}

static void a_kind_is_an_api_version_and_a_name(void) {
    hark_description description;
    hark_describe(&description, "p", "1");
    const char *bad[] = {"", "ConfigMap", "v1/", "/ConfigMap", "a/b/c/d", "apps//Deployment"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(hark_watch_kind(&description, hark_slice_of(bad[i])) == NULL);
    }
    const hark_subscription *one = hark_watch_kind(&description, hark_slice_of("apps/v1/Deployment"));
    CHECK(one != NULL && is(one->api_version, "apps/v1") && is(one->kind, "Deployment"));
    exports_hark_plugin_handler_description_free(&description);
}

int main(void) {
    a_plain_description_asks_for_everything_and_proposes_nothing();
    a_subscription_is_narrowed_step_by_step();
    conditions_have_the_values_added_to_them();
    a_kind_is_an_api_version_and_a_name();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

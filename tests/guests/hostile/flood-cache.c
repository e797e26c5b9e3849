/* flood-cache: asks the cache for its own object without end. */
#define FIXTURE_NAME "flood-cache"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)err;
    plugin_string_t namespace = target->namespace_, name = target->name;
    plugin_list_string_t whole = {0};
    for (;;) {
        plugin_option_string_t object;
        hark_plugin_cache_problem_t problem;
        if (hark_plugin_cache_get(0, &namespace, &name, &whole, &object, &problem)) plugin_option_string_free(&object);
    }
}

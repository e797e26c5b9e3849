/* list-misaligned: asks with a list that is not where a list may be. */
#define FIXTURE_NAME "list-misaligned"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t namespace = at(0, 0), name = at(0, 0);
    plugin_list_string_t fields = {(plugin_string_t *)(KIB + 1), 1};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_get(0, &namespace, &name, &fields, &object, &problem);
    return hark_done();
}

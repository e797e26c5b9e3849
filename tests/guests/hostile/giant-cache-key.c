/* giant-cache-key: asks the cache for an object whose name has 16 MiB. */
#define FIXTURE_NAME "giant-cache-key"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t namespace = at(0, 0), name = letters(16 * MIB);
    plugin_list_string_t whole = {0};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_get(0, &namespace, &name, &whole, &object, &problem);
    return hark_done();
}

/* giant-cursor: asks the cache for a page after a token of 16 MiB. */
#define FIXTURE_NAME "giant-cursor"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t namespace = at(0, 0), after = letters(16 * MIB);
    plugin_list_string_t whole = {0};
    hark_plugin_cache_page_t page;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_list_objects(0, &namespace, &whole, &after, 1, &page, &problem);
    return hark_done();
}

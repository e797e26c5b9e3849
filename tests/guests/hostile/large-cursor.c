/* large-cursor: asks the cache for a page after a token of a megabyte that no page gave; logs `problem <number>`. */
#define FIXTURE_NAME "large-cursor"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t namespace = at(0, 0), after = letters(MIB);
    plugin_list_string_t whole = {0};
    hark_plugin_cache_page_t page;
    hark_plugin_cache_problem_t problem;
    if (!hark_plugin_cache_list_objects(0, &namespace, &whole, &after, 1, &page, &problem)) tell_number("problem", problem);
    return hark_done();
}

/* cursor-not-utf8: asks the cache for a page after bytes that are not UTF-8. */
#define FIXTURE_NAME "cursor-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t bad = bad_text(), none = at(0, 0);
    plugin_list_string_t whole = {0};
    hark_plugin_cache_page_t page;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_list_objects(0, &none, &whole, &bad, 1, &page, &problem);
    return hark_done();
}

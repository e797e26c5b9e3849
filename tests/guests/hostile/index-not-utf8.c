/* index-not-utf8: asks the cache for an index named by bytes that are not UTF-8. */
#define FIXTURE_NAME "index-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t bad = bad_text(), none = at(0, 0);
    plugin_list_string_t whole = {0};
    hark_plugin_cache_page_t page;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_by_index(0, &bad, &none, &whole, &none, 1, &page, &problem);
    return hark_done();
}

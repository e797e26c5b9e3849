/* cache-key-not-utf8: asks the cache for an object by bytes that are not UTF-8. */
#define FIXTURE_NAME "cache-key-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t bad = bad_text(), none = at(0, 0);
    plugin_list_string_t whole = {0};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_get(0, &none, &bad, &whole, &object, &problem);
    return hark_done();
}

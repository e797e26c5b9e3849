/* cache-field-not-utf8: asks the cache for an object's field by bytes that are not UTF-8. */
#define FIXTURE_NAME "cache-field-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t bad = bad_text(), none = at(0, 0);
    plugin_list_string_t bads = {&bad, 1};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    hark_plugin_cache_get(0, &none, &none, &bads, &object, &problem);
    return hark_done();
}

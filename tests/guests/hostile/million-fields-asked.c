/* million-fields-asked: asks the cache for an object with a million fields; the list alone is within what a call may carry. */
#define FIXTURE_NAME "million-fields-asked"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)err;
    plugin_string_t namespace = target->namespace_, name = target->name;
    plugin_list_string_t fields = {calloc(1000000, sizeof(plugin_string_t)), 1000000};
    plugin_option_string_t object;
    hark_plugin_cache_problem_t problem;
    if (fields.ptr == NULL) abort();
    if (!hark_plugin_cache_get(0, &namespace, &name, &fields, &object, &problem)) tell_number("problem", problem);
    return hark_done();
}

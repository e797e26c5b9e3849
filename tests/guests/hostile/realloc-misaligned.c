/* realloc-misaligned: its allocator gives odd places, where no list may be, once an event is being handled. */
#define FIXTURE_NAME "realloc-misaligned"
#include "hostile.h"

static bool handling;

CABI_REALLOC(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align;
    unsigned char *memory = realloc(old, size + 1);
    return handling ? memory + 1 : memory;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t none = at(0, 0);
    plugin_list_string_t whole = {0};
    hark_plugin_cache_page_t page;
    hark_plugin_cache_problem_t problem;
    handling = true;
    hark_plugin_cache_list_objects(0, &none, &whole, &none, 1, &page, &problem);
    return hark_done();
}

/* log-across-the-end: logs a text that goes on behind the end of its memory. */
#define FIXTURE_NAME "log-across-the-end"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t text = at(__builtin_wasm_memory_size(0) * PAGES - 4, 8);
    LOG(&text);
    return hark_done();
}

/* spin-in-post-return: on-add answers, and what the host calls afterwards to have the answer freed never returns. */
#define FIXTURE_NAME "spin-in-post-return"
#include "hostile.h"

__attribute__((export_name("cabi_post_hark:plugin/handler@0.1.0#on-add"))) void
__wasm_export_exports_hark_plugin_handler_on_add_post_return(uint8_t *answer) {
    (void)answer;
    for (volatile uint32_t turns = 0;; turns++) {
    }
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

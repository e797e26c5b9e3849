/* post-return-logs: on-add answers, and what the host calls afterwards calls back into the host, which the component model forbids at that moment. */
#define FIXTURE_NAME "post-return-logs"
#include "hostile.h"

__attribute__((export_name("cabi_post_hark:plugin/handler@0.1.0#on-add"))) void
__wasm_export_exports_hark_plugin_handler_on_add_post_return(uint8_t *answer) {
    (void)answer;
    plugin_string_t text = {(unsigned char *)"again", 5};
    LOG(&text);
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    return hark_done();
}

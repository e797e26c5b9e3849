/* settings-not-utf8: asks for a setting by bytes that are not UTF-8. */
#define FIXTURE_NAME "settings-not-utf8"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t key = bad_text(), value;
    hark_plugin_settings_get(&key, &value);
    return hark_done();
}

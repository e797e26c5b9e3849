/* giant-settings-key: asks for a setting whose key has 16 MiB. */
#define FIXTURE_NAME "giant-settings-key"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    plugin_string_t key = letters(16 * MIB), value;
    hark_plugin_settings_get(&key, &value);
    return hark_done();
}

/* flood-settings: reads its settings without end. */
#define FIXTURE_NAME "flood-settings"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    for (;;) {
        plugin_string_t all;
        hark_plugin_settings_all(&all);
        plugin_string_free(&all);
    }
}

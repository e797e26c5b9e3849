/* spin-in-start: start of `lifecycle` never returns. */
#define FIXTURE_NAME "spin-in-start"
#define LIVES_START
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    (void)reason, (void)err;
    spin();
    return true;
}

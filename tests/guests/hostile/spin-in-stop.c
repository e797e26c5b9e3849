/* spin-in-stop: stop of `lifecycle` never returns. */
#define FIXTURE_NAME "spin-in-stop"
#define LIVES_STOP
#include "hark_lifecycle.h"
#include "lives.h"

void exports_hark_plugin_lifecycle_stop(hark_stop_reason reason) {
    (void)reason;
    spin();
}

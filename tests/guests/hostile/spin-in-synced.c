/* spin-in-synced: synced of `lifecycle` never returns. */
#define FIXTURE_NAME "spin-in-synced"
#define LIVES_SYNCED
#include "hark_lifecycle.h"
#include "lives.h"

void exports_hark_plugin_lifecycle_synced(uint32_t subscription) {
    (void)subscription;
    spin();
}

/* trap-in-synced: synced of `lifecycle` traps. */
#define FIXTURE_NAME "trap-in-synced"
#define LIVES_SYNCED
#include "hark_lifecycle.h"
#include "lives.h"

void exports_hark_plugin_lifecycle_synced(uint32_t subscription) {
    (void)subscription;
    __builtin_trap();
}

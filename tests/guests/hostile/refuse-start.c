/* refuse-start: refuses to start, with a megabyte of reasons. */
#define FIXTURE_NAME "refuse-start"
#define LIVES_START
#include "hark_lifecycle.h"
#include "lives.h"

bool exports_hark_plugin_lifecycle_start(hark_start_reason reason, lifecycle_string_t *err) {
    (void)reason;
    plugin_string_t much = letters(MIB);
    lifecycle_string_dup_n(err, (const char *)much.ptr, much.len);
    return false;
}

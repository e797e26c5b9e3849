/* flood-delivery: asks for the event's number without end. */
#define FIXTURE_NAME "flood-delivery"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    for (;;) hark_plugin_delivery_sequence();
}

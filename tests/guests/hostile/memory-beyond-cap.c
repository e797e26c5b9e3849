/* memory-beyond-cap: takes one page of memory after the other, beyond its cap. */
#define FIXTURE_NAME "memory-beyond-cap"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)err;
    while (__builtin_wasm_memory_grow(0, 1) != (size_t)-1) {
    }
    tell(op, target, "refused");
    return hark_done();
}

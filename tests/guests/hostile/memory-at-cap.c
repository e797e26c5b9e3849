/* memory-at-cap: takes exactly the memory that it may have, and writes to every page of it. That is no fault; logs `touched <pages>`. */
#define FIXTURE_NAME "memory-at-cap"
#include "hostile.h"

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    (void)op, (void)target, (void)err;
    const size_t cap = 1024;
    size_t have = __builtin_wasm_memory_size(0);
    if (have < cap && __builtin_wasm_memory_grow(0, cap - have) == (size_t)-1) __builtin_trap();
    for (size_t page = have; page < cap; page++) *(volatile unsigned char *)(page * PAGES) = 1;
    tell_number("touched", __builtin_wasm_memory_size(0));
    return hark_done();
}

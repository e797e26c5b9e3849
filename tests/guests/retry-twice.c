/* retry-twice: answers `retry` to the first two attempts at each object, then ok, and so on for its next event.
 *
 * Counts in its own memory, by namespace and name, for at most 256 objects (beyond them it answers ok at once):
 * so it also tells whether the instance lived on. Logs `<op> <key> attempt <host's count>`. */
#define FIXTURE_NAME "retry-twice"
#include "fixture.h"

enum { OBJECTS = 256 };

static struct {
    hark_line key;
    uint32_t attempts;
} objects[OBJECTS];

/* The count of attempts for an object; NULL if there is no room for another one. */
static uint32_t *attempts_of(const hark_target *target) {
    hark_line key = {0};
    hark_add_target(&key, target);
    for (size_t i = 0; i < OBJECTS; i++) {
        if (objects[i].key.len == 0) objects[i].key = key;
        if (hark_slice_equal((hark_slice){objects[i].key.bytes, objects[i].key.len}, (hark_slice){key.bytes, key.len})) {
            return &objects[i].attempts;
        }
    }
    return NULL;
}

static bool handle(const char *op, const hark_target *target, hark_failure *err) {
    uint32_t *attempts = attempts_of(target);
    hark_line line = {0};
    hark_add_target(hark_add(hark_add(&line, op), " "), target);
    hark_add_number(hark_add(&line, " attempt "), hark_plugin_delivery_attempt());
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, &line);
    if (attempts == NULL || ++*attempts % 3 == 0) return hark_done();
    return hark_retry(err, "not yet", 0);
}

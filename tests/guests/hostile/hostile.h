/* What the hostile guests share, beside fixture.h: memory to be wasteful with, strings that are none, and an
 * allocator that can be made to lie. Include it after defining FIXTURE_NAME, in place of fixture.h. */
#ifndef HARK_HOSTILE_H
#define HARK_HOSTILE_H

#include "../fixture.h"

#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * 1024, PAGES = 65536 };

#define PREVIEW1(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(name))) extern
#define LOG(text) hark_plugin_log_log(HARK_PLUGIN_LOG_LEVEL_INFO, text)

/* Stands in for the bindings' own, which is a weak symbol. */
#define CABI_REALLOC __attribute__((export_name("cabi_realloc"))) void *cabi_realloc

/* A text of so many letters `x`. Never freed: the guest is to be thrown away. */
static inline plugin_string_t letters(size_t size) {
    unsigned char *text = malloc(size);
    if (text == NULL) abort();
    memset(text, 'x', size);
    return (plugin_string_t){text, size};
}

/* A text that is said to be somewhere. */
static inline plugin_string_t at(uintptr_t place, size_t size) {
    return (plugin_string_t){(unsigned char *)place, size};
}

/* Four bytes that no UTF-8 text has. */
static inline plugin_string_t bad_text(void) {
    static unsigned char bytes[] = {'a', 0xff, 0xc0, 0x80};
    return (plugin_string_t){bytes, sizeof bytes};
}

/* Logs `<what> <number>`. */
static inline void tell_number(const char *what, uint64_t number) {
    hark_line line = {0};
    hark_add_number(hark_add(hark_add(&line, what), " "), number);
    hark_log(HARK_PLUGIN_LOG_LEVEL_INFO, &line);
}

#endif

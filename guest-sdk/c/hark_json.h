/* Reads JSON in place, without a tree and without memory of its own. For C plugins that need a few fields of
 * an object; depends on nothing else in this folder, so it is tested natively.
 *
 * A value is a slice of the text it was found in, and lives as long as that text. The input is taken to be
 * JSON, as the host's always is; whatever the bytes, nothing is read outside of the slice, nothing recurses,
 * and every function ends in time linear in the slice. */
#ifndef HARK_JSON_H
#define HARK_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Some bytes of a text that somebody else owns. */
typedef struct {
    const char *ptr;
    size_t len;
} hark_slice;

/* A place inside an array or an object. */
typedef struct {
    hark_slice rest;
    bool is_object;
} hark_json_cursor;

/* A slice of a C string. */
hark_slice hark_slice_of(const char *text);

/* Whether two slices hold the same bytes. */
bool hark_slice_equal(hark_slice a, hark_slice b);

/* Starts walking through an array or an object. False if `value` is neither. */
bool hark_json_open(hark_slice value, hark_json_cursor *cursor);

/* The next element of an array (`key` is empty), or member of an object (`key` is its name, in quotes and
 * escaped as in the text). False at the end, or where the text is not JSON. `key` may be NULL. */
bool hark_json_next(hark_json_cursor *cursor, hark_slice *key, hark_slice *value);

/* The member of an object that has this name. False if there is none, or `object` is not an object. */
bool hark_json_member(hark_slice object, hark_slice name, hark_slice *value);

/* Whether `value` is a JSON string that stands for `text`. */
bool hark_json_is(hark_slice value, hark_slice text);

/* Decodes a JSON string into `buffer`, `*len` bytes of UTF-8 without a final NUL. False if it is not a string
 * or does not fit. */
bool hark_json_text(hark_slice value, char *buffer, size_t capacity, size_t *len);

#endif

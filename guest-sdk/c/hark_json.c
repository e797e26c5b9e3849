/* Implements hark_json.h: a scanner that counts brackets and respects strings. */
#include "hark_json.h"

#include <stdint.h>
#include <string.h>

hark_slice hark_slice_of(const char *text) { return (hark_slice){text, strlen(text)}; }

bool hark_slice_equal(hark_slice a, hark_slice b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static hark_slice after(hark_slice text, size_t count) {
    return (hark_slice){text.ptr + count, text.len - count};
}

static hark_slice skip_space(hark_slice text) {
    size_t i = 0;
    while (i < text.len && (text.ptr[i] == ' ' || text.ptr[i] == '\t' || text.ptr[i] == '\n' || text.ptr[i] == '\r')) i++;
    return after(text, i);
}

static char first(hark_slice text) { return text.len > 0 ? text.ptr[0] : '\0'; }

/* Length of the string that begins at `text`, with both quotes; 0 if it does not end. */
static size_t string_length(hark_slice text) {
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] == '\\') {
            i++;
        } else if (text.ptr[i] == '"') {
            return i + 1;
        }
    }
    return 0;
}

/* Length of a number, `true`, `false` or `null`. */
static size_t word_length(hark_slice text) {
    size_t i = 0;
    while (i < text.len && memchr(" \t\n\r,:]}", text.ptr[i], 8) == NULL) i++;
    return i;
}

/* Length of the array or object that begins at `text`; 0 if it does not end. */
static size_t nested_length(hark_slice text) {
    size_t depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '"') {
            size_t length = string_length(after(text, i));
            if (length == 0) return 0;
            i += length - 1;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if ((c == ']' || c == '}') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Takes one value off the front of `rest`. */
static bool take_value(hark_slice *rest, hark_slice *value) {
    hark_slice text = skip_space(*rest);
    char c = first(text);
    size_t length = c == '"' ? string_length(text) : c == '[' || c == '{' ? nested_length(text) : word_length(text);
    if (length == 0) return false;
    *value = (hark_slice){text.ptr, length};
    *rest = after(text, length);
    return true;
}

static bool take_char(hark_slice *rest, char wanted) {
    hark_slice text = skip_space(*rest);
    if (first(text) != wanted) return false;
    *rest = after(text, 1);
    return true;
}

bool hark_json_open(hark_slice value, hark_json_cursor *cursor) {
    hark_slice text = skip_space(value);
    char c = first(text);
    if (c != '[' && c != '{') return false;
    *cursor = (hark_json_cursor){after(text, 1), c == '{'};
    return true;
}

bool hark_json_next(hark_json_cursor *cursor, hark_slice *key, hark_slice *value) {
    hark_slice name = {cursor->rest.ptr, 0};
    take_char(&cursor->rest, ',');
    if (cursor->is_object) {
        if (first(skip_space(cursor->rest)) != '"') return false;
        if (!take_value(&cursor->rest, &name) || !take_char(&cursor->rest, ':')) return false;
    }
    if (!take_value(&cursor->rest, value)) return false;
    if (key != NULL) *key = name;
    return true;
}

bool hark_json_member(hark_slice object, hark_slice name, hark_slice *value) {
    hark_json_cursor cursor;
    hark_slice key;
    if (!hark_json_open(object, &cursor) || !cursor.is_object) return false;
    while (hark_json_next(&cursor, &key, value)) {
        if (hark_json_is(key, name)) return true;
    }
    return false;
}

static bool hex4(hark_slice text, uint32_t *unit) {
    if (text.len < 4) return false;
    *unit = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = text.ptr[i];
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A') + 10;
        else return false;
        *unit = *unit << 4 | digit;
    }
    return true;
}

/* Takes the four digits of `\u` and, for a surrogate, the second half off the front of `rest`. A lone
 * surrogate becomes U+FFFD. */
static bool take_unicode(hark_slice *rest, uint32_t *code) {
    if (!hex4(*rest, code)) return false;
    *rest = after(*rest, 4);
    if (*code < 0xD800 || *code > 0xDFFF) return true;
    uint32_t low;
    bool is_pair = *code <= 0xDBFF && rest->len >= 6 && rest->ptr[0] == '\\' && rest->ptr[1] == 'u' &&
                   hex4(after(*rest, 2), &low) && low >= 0xDC00 && low <= 0xDFFF;
    if (!is_pair) {
        *code = 0xFFFD;
        return true;
    }
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    *rest = after(*rest, 6);
    return true;
}

static size_t encode_utf8(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00 >> count & 0xFF) | code);
    return count;
}

/* Takes one character off the front of a string's inside: up to 4 bytes of UTF-8. */
static bool take_character(hark_slice *rest, char out[4], size_t *count) {
    char c = first(*rest);
    *rest = after(*rest, 1);
    *count = 1;
    out[0] = c;
    if (c != '\\') return true;
    if (rest->len == 0) return false;
    char escaped = first(*rest);
    *rest = after(*rest, 1);
    if (escaped == 'u') {
        uint32_t code;
        if (!take_unicode(rest, &code)) return false;
        *count = encode_utf8(code, out);
        return true;
    }
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = memchr(names, escaped, sizeof names - 1);
    if (found == NULL) return false;
    out[0] = meanings[found - names];
    return true;
}

/* The inside of a string; false if `value` is not one. */
static bool inside(hark_slice value, hark_slice *text) {
    if (value.len < 2 || value.ptr[0] != '"') return false;
    *text = (hark_slice){value.ptr + 1, value.len - 2};
    return true;
}

bool hark_json_is(hark_slice value, hark_slice text) {
    hark_slice rest;
    char out[4];
    size_t count;
    if (!inside(value, &rest)) return false;
    while (rest.len > 0) {
        if (!take_character(&rest, out, &count)) return false;
        if (count > text.len || memcmp(out, text.ptr, count) != 0) return false;
        text = after(text, count);
    }
    return text.len == 0;
}

bool hark_json_text(hark_slice value, char *buffer, size_t capacity, size_t *len) {
    hark_slice rest;
    char out[4];
    size_t count;
    *len = 0;
    if (!inside(value, &rest)) return false;
    while (rest.len > 0) {
        if (!take_character(&rest, out, &count) || capacity - *len < count) return false;
        memcpy(buffer + *len, out, count);
        *len += count;
    }
    return true;
}

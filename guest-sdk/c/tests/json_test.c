/* Native tests of hark_json.c; run by `cargo xtask guest-tests`, under the sanitizers where the compiler has
 * them, so that a read outside of a slice is found as well. Every text is copied to a block of exactly its
 * size. */
#include "hark_json.h"
#include "check.h"

static hark_slice exact_copy(const char *text, size_t len) {
    char *bytes = malloc(len > 0 ? len : 1);
    if (bytes == NULL) abort();
    memcpy(bytes, text, len);
    return (hark_slice){bytes, len};
}

static void drop(hark_slice copy) { free((char *)copy.ptr); }

static bool equals(hark_slice value, const char *text) { return hark_slice_equal(value, hark_slice_of(text)); }

static const char OBJECT[] =
    "{ \"kind\" : \"Pod\", \"metadata\": {\"name\":\"web\",\"labels\":{\"a/b\":\"1\",\"quote\\\"d\":\"}\","
    "\"\\u0061pp\":\"x\"}, \"n\": -1.5e3}, \"list\":[1, \"two\" ,[3,{}],null], \"empty\":{}, \"none\":[] }";

static void members_are_found(void) {
    hark_slice object = exact_copy(OBJECT, strlen(OBJECT)), metadata, labels, value;
    CHECK(hark_json_member(object, hark_slice_of("kind"), &value) && equals(value, "\"Pod\""));
    CHECK(hark_json_member(object, hark_slice_of("metadata"), &metadata));
    CHECK(hark_json_member(metadata, hark_slice_of("n"), &value) && equals(value, "-1.5e3"));
    CHECK(hark_json_member(metadata, hark_slice_of("labels"), &labels));
    CHECK(hark_json_member(labels, hark_slice_of("a/b"), &value) && equals(value, "\"1\""));
    CHECK(hark_json_member(labels, hark_slice_of("quote\"d"), &value) && equals(value, "\"}\""));
    CHECK(hark_json_member(labels, hark_slice_of("app"), &value) && equals(value, "\"x\""));
    CHECK(!hark_json_member(labels, hark_slice_of("ap"), &value));
    CHECK(!hark_json_member(labels, hark_slice_of("appl"), &value));
    CHECK(!hark_json_member(object, hark_slice_of("name"), &value));
    CHECK(hark_json_member(object, hark_slice_of("empty"), &value) && equals(value, "{}"));
    CHECK(!hark_json_member(value, hark_slice_of("kind"), &value));
    drop(object);
}

static void lists_are_walked(void) {
    hark_slice object = exact_copy(OBJECT, strlen(OBJECT)), list, key, value;
    hark_json_cursor cursor;
    CHECK(hark_json_member(object, hark_slice_of("list"), &list) && hark_json_open(list, &cursor));
    CHECK(hark_json_next(&cursor, &key, &value) && key.len == 0 && equals(value, "1"));
    CHECK(hark_json_next(&cursor, NULL, &value) && equals(value, "\"two\""));
    CHECK(hark_json_next(&cursor, NULL, &value) && equals(value, "[3,{}]"));
    CHECK(hark_json_next(&cursor, NULL, &value) && equals(value, "null"));
    CHECK(!hark_json_next(&cursor, NULL, &value));
    CHECK(hark_json_member(object, hark_slice_of("none"), &list) && hark_json_open(list, &cursor));
    CHECK(!hark_json_next(&cursor, NULL, &value));
    CHECK(!hark_json_open(hark_slice_of("\"text\""), &cursor));
    CHECK(!hark_json_open(hark_slice_of(""), &cursor));
    drop(object);
}

/* What a JSON string decodes to, or "(none)". */
static const char *decoded(const char *json, size_t capacity) {
    static char buffer[64];
    size_t len;
    hark_slice value = exact_copy(json, strlen(json));
    bool fits = hark_json_text(value, buffer, capacity, &len);
    drop(value);
    if (!fits) return "(none)";
    buffer[len] = '\0';
    return buffer;
}

static void strings_are_decoded(void) {
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx"},
        {"\"\\ude00\"", "\xef\xbf\xbd"},
        {"\"\\ud83d\\u0041\"", "\xef\xbf\xbd" "A"},
        {"\"\xc3\xa9\"", "\xc3\xa9"},
        {"\"\\x\"", "(none)"},
        {"\"\\u12\"", "(none)"},
        {"\"\\\"", "(none)"},
        {"3", "(none)"},
        {"\"", "(none)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = decoded(cases[i].json, 60);
        if (strcmp(found, cases[i].text) != 0) {
            fprintf(stderr, "%s decodes to %s\n", cases[i].json, found);
            failures++;
        }
    }
    CHECK(strcmp(decoded("\"four\"", 4), "four") == 0);
    CHECK(strcmp(decoded("\"fives\"", 4), "(none)") == 0);
    CHECK(strcmp(decoded("\"abc\\u20ac\"", 5), "(none)") == 0);
}

/* Walks everything that can be reached; for texts that are broken in any way. */
static void walk(hark_slice value, int depth) {
    hark_json_cursor cursor;
    hark_slice key, inner;
    char buffer[16];
    size_t len;
    hark_json_text(value, buffer, sizeof buffer, &len);
    hark_json_is(value, hark_slice_of("web"));
    hark_json_member(value, hark_slice_of("app"), &inner);
    if (depth == 8 || !hark_json_open(value, &cursor)) return;
    while (hark_json_next(&cursor, &key, &inner)) walk(inner, depth + 1);
}

static void broken_texts_end_and_stay_inside(void) {
    size_t size = strlen(OBJECT);
    for (size_t cut = 0; cut <= size; cut++) {
        hark_slice text = exact_copy(OBJECT, cut);
        walk(text, 0);
        drop(text);
    }
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        hark_slice text = exact_copy(OBJECT, size);
        for (int change = 0; change < 4; change++) {
            seed = seed * 1103515245u + 12345u;
            ((char *)text.ptr)[(seed >> 8) % size] = "\"\\{}[],:u \x80"[(seed >> 24) % 11];
        }
        walk(text, 0);
        drop(text);
    }
}

int main(void) {
    members_are_found();
    lists_are_walked();
    strings_are_decoded();
    broken_texts_end_and_stay_inside();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

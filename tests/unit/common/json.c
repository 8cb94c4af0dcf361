/* SPDX-License-Identifier: MIT */
#include "common/json.h"
#include "tests/support/test.h"

#include <string.h>

static enum kiln_code parse_text(const char *text, struct json **ret_json, struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return json_parse(bytes_of_text(text), "test", ret_json, err);
}

TEST(plain, reads_members_by_type_and_falls_back_otherwise)
{
    KILN_AUTO(json) struct json *j = NULL;
    struct kiln_err err;
    must(parse_text("{\"text\": \"a\", \"n\": 12, \"yes\": true, \"list\": [1, 2]}", &j, &err),
         err);
    assert_string_equal(json_get_text(j, "text", "?"), "a");
    assert_int_equal(json_get_u64(j, "n", 0), 12);
    assert_true(json_get_bool(j, "yes", false));
    assert_string_equal(json_get_text(j, "n", "?"), "?");
    assert_int_equal(json_get_u64(j, "text", 7), 7);
    assert_int_equal(json_get_u64(j, "absent", 7), 7);
    assert_int_equal(json_count(json_get(j, "list")), 2);
    assert_null(json_get(j, "absent"));
}

TEST(plain, numbers_outside_of_53_bits_are_not_taken_for_counts)
{
    KILN_AUTO(json) struct json *j = NULL;
    struct kiln_err err;
    must(parse_text("{\"minus\": -1, \"huge\": 1e300, \"most\": 9007199254740992}", &j, &err), err);
    assert_int_equal(json_get_u64(j, "minus", 7), 7);
    assert_int_equal(json_get_u64(j, "huge", 7), 7);
    assert_int_equal(json_get_u64(j, "most", 7), 9007199254740992u);
}

TEST(plain, says_where_it_stopped)
{
    struct json *j = NULL;
    struct kiln_err err;
    static const char *const bad[] = { "",        "{",         "{\"a\": }", "nul",
                                       "{} more", "{\"a\" 1}", "\"open",    "[1,2" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse_text(bad[i], &j, &err), KILN_INVALID);
        assert_says(err.text, "test");
        assert_says(err.text, "byte");
        assert_null(j);
    }
}

TEST(plain, endless_nesting_is_refused)
{
    static char deep[200001];
    memset(deep, '[', sizeof(deep) - 1);
    struct json *j = NULL;
    struct kiln_err err;
    assert_int_equal(parse_text(deep, &j, &err), KILN_INVALID);
}

TEST(plain, builds_and_prints_one_line)
{
    KILN_AUTO(json) struct json *j = json_object();
    struct json *list = json_array();
    json_append(list, json_number(1));
    json_append(list, json_text("two"));
    json_set(j, "list", list);
    json_set_bool(j, "ok", true);
    KILN_AUTO(mem) char *text = json_print(j, false);
    assert_string_equal(text, "{\"list\":[1,\"two\"],\"ok\":true}");
    const struct json *first = json_first(j);
    assert_string_equal(json_name(first), "list");
    assert_string_equal(json_name(json_next(first)), "ok");
    assert_null(json_next(json_next(first)));
}

TEST(plain, blanks_may_follow_and_nothing_else)
{
    struct kiln_err err;
    static const char *const fine[] = { "{} ", "{}\n", "{}\r\n", "{}\t", " [1] \n\t" };
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        KILN_AUTO(json) struct json *j = NULL;
        must(parse_text(fine[i], &j, &err), err);
        KILN_AUTO(json) struct json *with_nul = NULL;
        must(json_parse(bytes_of(fine[i], strlen(fine[i]) + 1), "test", &with_nul, &err), err);
    }
    struct json *none = NULL;
    assert_int_equal(parse_text("{} \n x", &none, &err), KILN_INVALID);
    assert_says(err.text, "byte 5");
    assert_null(none);
}

/* As where memory ran out when it was made: what was to go into it is not lost for ever. */
TEST(plain, a_json_value_that_cannot_be_added_is_freed)
{
    json_set(NULL, "text", json_text("a"));
    json_append(NULL, json_number(1));
    json_set_bytes(NULL, "bytes", bytes_of_text("b"));
    assert_null(json_print(NULL, false));
    assert_null(json_first(NULL));
    assert_int_equal(json_count(NULL), 0);
}

TEST(plain, prints_with_indents_for_people)
{
    KILN_AUTO(json) struct json *j = json_object();
    json_set_u64(j, "n", 1);
    json_replace_u64(j, "n", 2);
    KILN_AUTO(mem) char *text = json_print(j, true);
    assert_string_equal(text, "{\n\t\"n\":\t2\n}");
}

/* A terminal of 8-bit characters, or one that reads UTF-8, obeys C1 as it obeys ESC. */
TEST(plain, control_characters_are_printed_as_escapes)
{
    KILN_AUTO(json) struct json *j = json_object();
    json_set_text(j, "name",
                  "a\x1b[2J\x7f\xc2\x9b"
                  "2J\xc2\x9d\xc3\xa9\xc2\xa0");
    KILN_AUTO(mem) char *text = json_print(j, false);
    assert_string_equal(text, "{\"name\":\"a\\u001b[2J\\u007f\\u009b2J\\u009d\xc3\xa9\xc2\xa0\"}");
    struct kiln_err err;
    KILN_AUTO(json) struct json *again = NULL;
    must(parse_text(text, &again, &err), err);
    assert_string_equal(json_get_text(again, "name", ""), json_get_text(j, "name", ""));
}

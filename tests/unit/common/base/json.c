/* SPDX-License-Identifier: MIT */
#include "common/base/json.h"

#include "tests/support/failing_json.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static enum kiln_code parse_text(const char *text, struct json **ret_json, struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return json_parse(bytes_of_text(text), "test", ret_json, err);
}

TEST(plain, a_json_member_of_another_type_reads_as_the_default)
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

TEST(plain, json_numbers_outside_53_bits_are_not_read_as_counts)
{
    KILN_AUTO(json) struct json *j = NULL;
    struct kiln_err err;
    must(parse_text("{\"minus\": -1, \"huge\": 1e300, \"most\": 9007199254740992}", &j, &err), err);
    assert_int_equal(json_get_u64(j, "minus", 7), 7);
    assert_int_equal(json_get_u64(j, "huge", 7), 7);
    assert_int_equal(json_get_u64(j, "most", 7), 9007199254740992u);
}

TEST(plain, an_error_in_json_text_is_reported_with_its_byte)
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

TEST(plain, endlessly_nested_json_is_refused)
{
    static char deep[200001];
    memset(deep, '[', sizeof(deep) - 1);
    struct json *j = NULL;
    struct kiln_err err;
    assert_int_equal(parse_text(deep, &j, &err), KILN_INVALID);
}

TEST(plain, a_json_tree_is_printed_on_one_line)
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

TEST(plain, only_blanks_may_follow_json_text)
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

TEST(plain, a_json_value_for_a_parent_that_was_not_allocated_is_freed)
{
    json_set(NULL, "text", json_text("a"));
    json_append(NULL, json_number(1));
    json_set_bytes(NULL, "bytes", bytes_of_text("b"));
    assert_null(json_set_array(NULL, "list"));
    assert_null(json_print(NULL, false));
    assert_null(json_first(NULL));
    assert_int_equal(json_count(NULL), 0);
}

/* |context| says whether to indent. */
static enum kiln_code print_tree(void *context, struct kiln_err *err)
{
    static const char *const whole[] = {
        "{\"text\":\"a\\u007f\",\"bytes\":\"b\",\"number\":0.5,\"yes\":true,"
        "\"list\":[{\"in\":[1]}],\"count\":2}",
        "{\n\t\"text\":\t\"a\\u007f\",\n\t\"bytes\":\t\"b\",\n\t\"number\":\t0.5,\n"
        "\t\"yes\":\ttrue,\n\t\"list\":\t[{\n\t\t\t\"in\":\t[1]\n\t\t}],\n\t\"count\":\t2\n}",
    };
    bool indent = *(const bool *)context;
    KILN_AUTO(json) struct json *j = json_object();
    json_set_text(j, "text", "a\x7f"); /* escaping this character takes one more allocation */
    json_set_bytes(j, "bytes", bytes_of_text("b"));
    json_set_number(j, "number", 0.5);
    json_set_bool(j, "yes", true);
    json_set_u64(j, "count", 1);
    struct json *list = json_set_array(j, "list"), *item = json_object(), *inner = json_array();
    json_append(inner, json_number(1));
    json_set(item, "in", inner);
    json_append(list, item);
    json_replace_u64(j, "count", 2);
    KILN_AUTO(mem) char *text = json_print(j, indent);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no text");
    assert_string_equal(text, whole[indent]);
    return KILN_OK;
}

TEST(plain, a_json_tree_is_printed_whole_or_not_at_all_when_memory_runs_out)
{
    json_allocations_can_fail();
    for (int indent = 0; indent <= 1; indent++)
        expect_failures(print_tree, &(bool){ indent }, FAILING("malloc", ENOMEM), KILN_NO_MEMORY,
                        "text");
}

static enum kiln_code parse_text_of(void *context, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *j = NULL;
    return json_parse(bytes_of_text(context), "a test", &j, err);
}

/* Running out of memory must not be reported as invalid JSON. A caller might then treat an
 * undamaged file as damaged. */
TEST(plain, a_lack_of_memory_is_not_reported_as_a_mistake_in_json_text)
{
    char text[] = "{\"text\":\"a\",\"list\":[1,{\"in\":true}]}";
    json_allocations_can_fail();
    expect_failures(parse_text_of, text, FAILING("malloc", ENOMEM), KILN_NO_MEMORY, "a test");
}

TEST(plain, a_json_tree_that_lost_a_value_is_still_readable)
{
    KILN_AUTO(json) struct json *j = json_object();
    json_set_text(j, "before", "a");
    json_set(j, "lost", NULL);
    json_set_text(j, "after", "b");
    assert_string_equal(json_get_text(j, "before", "?"), "a");
    assert_string_equal(json_get_text(j, "after", "?"), "b");
    assert_int_equal(json_count(j), 2);
    assert_null(json_print(j, false));
}

TEST(plain, a_json_tree_is_printed_with_indents_on_request)
{
    KILN_AUTO(json) struct json *j = json_object();
    json_set_u64(j, "n", 1);
    json_replace_u64(j, "n", 2);
    KILN_AUTO(mem) char *text = json_print(j, true);
    assert_string_equal(text, "{\n\t\"n\":\t2\n}");
}

/* Terminals interpret C1 characters like ESC sequences, both in 8-bit encodings and in UTF-8. */
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

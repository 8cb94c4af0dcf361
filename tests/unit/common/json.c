/* SPDX-License-Identifier: MIT */
#include "common/json.h"
#include "tests/support/test.h"

#include <string.h>

static enum kiln_code parse(const char *text, struct json **ret_json, struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return json_parse(bytes_of_text(text), "test", ret_json, err);
}

static void reads_members_by_type_and_falls_back_otherwise(void **state)
{
    (void)state;
    KILN_AUTO(json) struct json *j = NULL;
    struct kiln_err err;
    must(parse("{\"text\": \"a\", \"n\": 12, \"yes\": true, \"list\": [1, 2]}", &j, &err), err);
    assert_string_equal(json_get_text(j, "text", "?"), "a");
    assert_int_equal(json_get_u64(j, "n", 0), 12);
    assert_true(json_get_bool(j, "yes", false));
    assert_string_equal(json_get_text(j, "n", "?"), "?");
    assert_int_equal(json_get_u64(j, "text", 7), 7);
    assert_int_equal(json_get_u64(j, "absent", 7), 7);
    assert_int_equal(json_count(json_get(j, "list")), 2);
    assert_null(json_get(j, "absent"));
}

static void numbers_outside_of_53_bits_are_not_taken_for_counts(void **state)
{
    (void)state;
    KILN_AUTO(json) struct json *j = NULL;
    struct kiln_err err;
    must(parse("{\"minus\": -1, \"huge\": 1e300, \"most\": 9007199254740992}", &j, &err), err);
    assert_int_equal(json_get_u64(j, "minus", 7), 7);
    assert_int_equal(json_get_u64(j, "huge", 7), 7);
    assert_int_equal(json_get_u64(j, "most", 7), 9007199254740992u);
}

static void says_where_it_stopped(void **state)
{
    (void)state;
    struct json *j = NULL;
    struct kiln_err err;
    static const char *const bad[] = { "",        "{",         "{\"a\": }", "nul",
                                       "{} more", "{\"a\" 1}", "\"open",    "[1,2" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &j, &err), KILN_INVALID);
        assert_says(err.text, "test");
        assert_says(err.text, "byte");
        assert_null(j);
    }
}

static void endless_nesting_is_refused(void **state)
{
    (void)state;
    static char deep[200001];
    memset(deep, '[', sizeof(deep) - 1);
    struct json *j = NULL;
    struct kiln_err err;
    assert_int_equal(parse(deep, &j, &err), KILN_INVALID);
}

static void builds_and_prints_one_line(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_members_by_type_and_falls_back_otherwise),
        cmocka_unit_test(numbers_outside_of_53_bits_are_not_taken_for_counts),
        cmocka_unit_test(says_where_it_stopped),
        cmocka_unit_test(endless_nesting_is_refused),
        cmocka_unit_test(builds_and_prints_one_line),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

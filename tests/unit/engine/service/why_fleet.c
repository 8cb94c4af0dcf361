/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_users.h"

#define LINE "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -F 1"

SET_UP_OF(set_up, struct fleet_users)
{
    fill_amd_tree(f);
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    users_start_as(&f->users, CLANG);
}
FIXTURE_OF(why_fleet, struct fleet_users, set_up, NULL);

static struct json *ask_why(struct fleet_users *f, const char *target)
{
    char question[512];
    snprintf(question, sizeof(question),
             "{\"problem\":\"" LINE "\",\"target\":\"%s\",\"toolchain\":\"clang\"}", target);
    test_caller_forget_replies(&f->users.ann);
    test_caller_send(&f->users.ann, MESSAGE_why_miss, 4, bytes_of_text(question));
    finish_compiles(&f->users, bytes_of_text("object")); /* of the probe */
    run_tasks(f);
    return reply_json(&f->users.ann, 0);
}

static void expect_message(struct fleet_users *f, const char *target, const char *words)
{
    KILN_AUTO(json) struct json *first = ask_why(f, target);
    assert_true(json_get_bool(first, "fleet_loads", false));
    serve_all(f);
    KILN_AUTO(json) struct json *second = ask_why(f, target);
    assert_null(json_get(second, "fleet_loads"));
    assert_false(json_get_bool(second, "found", true));
    assert_says(json_get_text(second, "message", ""), words);
}

TEST_F(why_fleet, why_miss_names_the_target_that_the_fleet_has)
{
    expect_message(f, "gfx90a:xnack+", "the fleet has it for gfx90a:xnack-");
}

TEST_F(why_fleet, why_miss_says_that_the_fleet_has_the_kernel)
{
    expect_message(f, "gfx90a:xnack-", "the fleet has it: a fetch");
}

TEST_F(why_fleet, why_miss_of_another_arch_does_not_name_the_fleet)
{
    expect_message(f, "gfx942:xnack-", "nothing similar is");
}

TEST_F(why_fleet, why_miss_finds_a_key_in_an_index)
{
    KILN_AUTO(json) struct json *first = ask_why(f, "gfx90a:xnack-");
    serve_all(f);
    char question[128];
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", json_get_text(first, "key", ""));
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.ann, MESSAGE_why_miss, question);
    assert_says(json_get_text(answer, "message", ""), "the fleet has it for gfx90a:xnack-");
}

/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/import_fixture.h"

#include "engine/service/kernels/store_tasks.h"
#include "engine/store/kernel_name.h"

#include <stdio.h>

TEST_F(users, a_users_import_is_private_to_that_user)
{
    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets_content(&f->ann, "of ann"));
    assert_int_equal(last_result(&f->ann).tier, TIER_DISK);
    assert_true(gets_content(&f->ann, "of ann"));
    assert_int_equal(last_result(&f->ann).tier, TIER_HOT);
    assert_int_equal(ask_imported(&f->bob, "conv.o").code, KILN_NOT_FOUND);
    assert_int_equal(ask_imported(&f->admin, "conv.o").code, KILN_NOT_FOUND);
}

TEST_F(users, another_users_private_kernel_is_not_served_by_key)
{
    import_one(f, &f->ann, "{}", "of ann");
    assert_true(gets_content(&f->ann, "of ann"));
    struct digest key = last_result(&f->ann).key;
    for (int round = 0; round < 2; round++) {
        struct message_fetch m = { .key = key, .inline_limit = 100 };
        BUFFER_AUTO struct buffer b;
        buffer_init(&b, 100);
        message_fetch_write(&b, &m);
        test_caller_forget_replies(&f->bob);
        test_caller_forget_replies(&f->ann);
        test_caller_send(&f->bob, MESSAGE_fetch, 1, buffer_view(&b));
        test_caller_send(&f->ann, MESSAGE_fetch, 1, buffer_view(&b));
        fake_executor_run_tasks(&f->engine.executor);
        assert_int_equal(last_result(&f->bob).code, KILN_NOT_FOUND);
        assert_int_equal(last_result(&f->bob).content.size, 0);
        assert_true(bytes_equal_text(last_result(&f->ann).content, "of ann"));
        hot_set_clear(f->engine.engine->hot);
    }
}

TEST_F(users, another_users_private_kernel_is_listed_only_for_admins)
{
    import_one(f, &f->ann, "{}", "of ann");
    assert_int_equal(listed_kernels(&f->ann), 1);
    assert_int_equal(listed_kernels(&f->bob), 0);
    assert_int_equal(listed_kernels(&f->admin), 1);

    assert_true(gets_content(&f->ann, "of ann"));
    struct digest key = last_result(&f->ann).key;
    char hex[DIGEST_HEX_SIZE], question[100];
    digest_to_hex(&key, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    test_caller_refused(&f->bob, MESSAGE_kernel_show, question, KILN_NOT_FOUND, "begins with");
    KILN_AUTO(json)
    struct json *shown = test_caller_ask(&f->ann, MESSAGE_kernel_show, question);
    assert_true(json_get_bool(shown, "private", false));
    assert_string_equal(json_get_text(shown, "program", ""), "conv.o");
    assert_string_equal(json_get_text(shown, "options", ""), ARGS);
    assert_string_equal(json_get_text(shown, "database_id", ""), ID);
    assert_string_equal(json_get_text(shown, "package", ""), ID ".ukdb");
    json_destroy(test_caller_ask(&f->admin, MESSAGE_kernel_show, question));
}

static struct json *clear_kernels(struct test_caller *c, const char *question)
{
    struct json *answer = test_caller_ask(c, MESSAGE_clear, question);
    assert_non_null(json_get(answer, "kernels"));
    return answer;
}

TEST_F(users, a_user_clears_only_their_own_private_kernels)
{
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    import_one(f, &f->ann, "{}", "of ann");
    import_one(f, &f->bob, "{}", "of bob");
    assert_true(gets_content(&f->ann, "of ann"));

    KILN_AUTO(json) struct json *tried = clear_kernels(&f->ann, "{\"own\":true,\"dry_run\":true}");
    assert_int_equal(json_get_u64(tried, "kernels", 9), 1);
    assert_true(gets_content(&f->ann, "of ann"));
    KILN_AUTO(json) struct json *other = clear_kernels(&f->ann, "{\"own\":true,\"uid\":1001}");
    assert_int_equal(json_get_u64(other, "kernels", 9), 0);
    KILN_AUTO(json) struct json *done = clear_kernels(&f->ann, "{\"own\":true}");
    assert_int_equal(json_get_u64(done, "kernels", 9), 1);

    assert_true(gets_content(&f->ann, "for all"));
    assert_true(gets_content(&f->bob, "of bob"));
}

TEST_F(users, a_user_removes_only_their_own_private_kernel)
{
    char of_ann[DIGEST_HEX_SIZE], of_all[DIGEST_HEX_SIZE], question[100];
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    assert_true(gets_content(&f->ann, "for all"));
    struct digest key = kernel_name_key(KERNEL_SCOPE_EVERYONE, bytes_of_text(ID),
                                        bytes_of_text("conv.o"), bytes_of_text(ARGS));
    digest_to_hex(&key, of_all);
    import_one(f, &f->ann, "{}", "of ann");
    key = kernel_name_key(1000, bytes_of_text(ID), bytes_of_text("conv.o"), bytes_of_text(ARGS));
    digest_to_hex(&key, of_ann);

    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", of_all);
    test_caller_refused(&f->ann, MESSAGE_kernel_remove, question, KILN_DENIED, "administrator");
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", of_ann);
    test_caller_refused(&f->bob, MESSAGE_kernel_remove, question, KILN_NOT_FOUND, "begins with");
    json_destroy(test_caller_ask(&f->ann, MESSAGE_kernel_remove, question));

    assert_true(gets_content(&f->ann, "for all"));
}

TEST_F(users, kernels_are_listed_and_cleared_by_database_id_and_version)
{
    import_one(f, &f->ann, "{}", "plain");
    import_one(f, &f->ann, "{\"version\":\"1\"}", "one");
    import_one(f, &f->ann, "{\"version\":\"2\"}", "two");
    KILN_AUTO(json)
    struct json *listed =
        test_caller_ask(&f->ann, MESSAGE_kernel_list, "{\"database_id\":\"gfx906_60@2\"}");
    const struct json *only = json_first(json_get(listed, "kernels"));
    assert_int_equal(json_count(json_get(listed, "kernels")), 1);
    assert_string_equal(json_get_text(only, "database_id", ""), "gfx906_60@2");

    KILN_AUTO(json)
    struct json *one = clear_kernels(&f->admin, "{\"database_id\":\"gfx906_60@1\"}");
    assert_int_equal(json_get_u64(one, "kernels", 9), 1);
    KILN_AUTO(json)
    struct json *other = clear_kernels(&f->admin, "{\"database_id\":\"gfx906_6\"}");
    assert_int_equal(json_get_u64(other, "kernels", 9), 0);
    KILN_AUTO(json)
    struct json *rest = clear_kernels(&f->admin, "{\"database_id\":\"gfx906_60\"}");
    assert_int_equal(json_get_u64(rest, "kernels", 9), 2);
}

/* "next" names the last key of a page, which must not be the key of a hidden kernel. */
TEST_F(users, pages_of_a_list_reveal_no_hidden_kernel)
{
    write_many(f, 20);
    import_cache(f, &f->ann, "{}");
    import_one(f, &f->bob, "{}", "of bob");
    KILN_AUTO(json)
    struct json *page = test_caller_ask(&f->bob, MESSAGE_kernel_list, "{\"count\":3}");
    assert_int_equal(json_count(json_get(page, "kernels")), 1);
    assert_null(json_get(page, "next"));

    KILN_AUTO(json)
    struct json *own = test_caller_ask(&f->ann, MESSAGE_kernel_list, "{\"count\":3}");
    assert_int_equal(json_count(json_get(own, "kernels")), 3);
    assert_non_null(json_get(own, "next"));
    assert_int_equal(listed_kernels(&f->admin), 21);
}

/* If a guessed key made its kernel hot, faster fetches would show that the key exists. */
TEST_F(users, guessing_a_private_key_does_not_make_it_hot)
{
    import_one(f, &f->ann, "{}", "of ann");
    const struct digest keys[] = {
        kernel_name_key(1000, bytes_of_text(ID), bytes_of_text("conv.o"), bytes_of_text(ARGS)),
        kernel_name_key(1000, bytes_of_text(ID), bytes_of_text("none.o"), bytes_of_text(ARGS)),
    };
    struct kept_reply *answers[2] = { NULL };
    uint64_t before = users_stat(f, "hot_objects"), unknown = users_stat(f, "misses_unknown");
    test_caller_forget_replies(&f->bob);
    for (size_t i = 0; i < 2; i++) {
        struct message_fetch m = { .key = keys[i], .inline_limit = 100 };
        SEND_MESSAGE(&f->bob, fetch, 1, &m);
        fake_executor_run_tasks(&f->engine.executor);
        answers[i] = &f->bob.replies[i];
        assert_int_equal(users_stat(f, "hot_objects"), before);
        assert_int_equal(users_stat(f, "misses_unknown"), unknown + i + 1);
    }
    assert_int_equal(answers[0]->body.size, answers[1]->body.size);
    assert_int_equal(reply_result(&f->bob, 0).code, KILN_NOT_FOUND);
    assert_int_equal(reply_result(&f->bob, 1).code, KILN_NOT_FOUND);
    assert_int_equal(reply_result(&f->bob, 0).tier, TIER_NONE);
    assert_int_equal(reply_result(&f->bob, 0).size + reply_result(&f->bob, 0).spent_ns, 0);
}

TEST_F(users, removing_a_private_kernel_keeps_others_kernels_hot)
{
    char hex[DIGEST_HEX_SIZE], question[100];
    struct digest key =
        kernel_name_key(1000, bytes_of_text(ID), bytes_of_text("conv.o"), bytes_of_text(ARGS));
    digest_to_hex(&key, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    import_one(f, &f->bob, "{}", "of bob");
    assert_true(gets_content(&f->bob, "of bob"));
    for (int by_key = 0; by_key < 2; by_key++) {
        import_one(f, &f->ann, "{}", "of ann");
        assert_true(gets_content(&f->ann, "of ann"));
        json_destroy(test_caller_ask(&f->ann, by_key ? MESSAGE_kernel_remove : MESSAGE_clear,
                                     by_key ? question : "{\"own\":true}"));
        assert_int_equal(ask_imported(&f->ann, "conv.o").code, KILN_NOT_FOUND);
        assert_true(gets_content(&f->bob, "of bob"));
        assert_int_equal(last_result(&f->bob).tier, TIER_HOT);
    }
}

TEST_F(users, only_an_admin_may_import_for_everyone)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "for all");
    write_cache(f, &row, 1);
    begin_import(f, &f->ann, "{\"for_all\":true}");
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "administrator");
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);

    import_cache(f, &f->admin, "{\"for_all\":true}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_string_equal(json_get_text(answer, "scope", ""), "everyone");
    assert_true(gets_content(&f->ann, "for all"));
    assert_int_equal(last_result(&f->ann).tier, TIER_DISK);
    assert_true(gets_content(&f->bob, "for all"));
    assert_int_equal(listed_kernels(&f->bob), 1);
}

TEST_F(users, private_imports_come_before_shared_ones_and_packages)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of the package");
    put_package(&f->engine, ID ".kdb", &row, 1);
    engine_fixture_rescan(&f->engine);
    assert_true(gets_content(&f->ann, "of the package"));
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    assert_true(gets_content(&f->ann, "for all"));
    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets_content(&f->ann, "of ann"));
    assert_true(gets_content(&f->bob, "for all"));
}

TEST_F(users, importing_a_name_again_replaces_its_kernel)
{
    import_one(f, &f->ann, "{}", "old");
    assert_true(gets_content(&f->ann, "old"));
    import_one(f, &f->ann, "{}", "new");
    assert_true(gets_content(&f->ann, "new"));
    assert_int_equal(listed_kernels(&f->ann), 1);
}

static uint64_t count_uses(struct users *f)
{
    recency_write(f->engine.engine, /* force= */ true);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json)
    struct json *list = test_caller_ask(&f->admin, MESSAGE_kernel_list, NULL);
    return json_get_u64(json_first(json_get(list, "kernels")), "uses", 0);
}

TEST_F(users, uses_of_a_shared_kernel_count_when_it_is_hot)
{
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    uint64_t before = count_uses(f);
    assert_true(gets_content(&f->ann, "for all"));
    assert_int_equal(last_result(&f->ann).tier, TIER_DISK);
    uint64_t from_disk = count_uses(f);
    assert_true(from_disk > before);
    assert_true(gets_content(&f->ann, "for all"));
    assert_int_equal(last_result(&f->ann).tier, TIER_HOT);
    assert_true(count_uses(f) > from_disk);
}

static uint64_t replaced_by(struct users *f, const char *content)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, content);
    write_cache(f, &row, 1);
    import_cache(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 1);
    return json_get_u64(answer, "replaced", 9);
}

TEST_F(users, an_import_counts_kernels_replaced_by_other_bytes)
{
    import_one(f, &f->bob, "{}", "of bob");
    assert_int_equal(replaced_by(f, "of one MIOpen"), 0);
    assert_int_equal(replaced_by(f, "of one MIOpen"), 0);
    assert_int_equal(replaced_by(f, "of another MIOpen"), 1);
}

TEST_F(users, versions_of_miopen_do_not_replace_each_other)
{
    import_one(f, &f->ann, "{}", "of no version");
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of one version");
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of another version");
    write_cache(f, &row, 1);
    import_cache(f, &f->ann, "{\"version\":\"3.3.0-a_B\"}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);

    assert_int_equal(json_get_u64(answer, "replaced", 9), 0);
    assert_string_equal(json_get_text(answer, "database_id", ""), ID "@3.3.0-a_B");
    assert_int_equal(listed_kernels(&f->ann), 3);
    assert_true(gets_content(&f->ann, "of no version"));
}

TEST_F(users, a_plain_id_finds_a_version_only_while_there_is_one)
{
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of one version");
    assert_true(gets_content(&f->ann, "of one version"));
    assert_int_equal(ask_imported(&f->bob, "conv.o").code, KILN_NOT_FOUND);

    import_one(f, &f->ann, "{\"version\":\"3.3.0\"}", "of another version");

    assert_int_equal(ask_imported(&f->ann, "conv.o").code, KILN_NOT_FOUND);
}

TEST_F(users, private_and_shared_versions_are_separate)
{
    import_one(f, &f->admin, "{\"version\":\"3.4.0\",\"for_all\":true}", "of everyone's");
    assert_true(gets_content(&f->ann, "of everyone's"));
    assert_true(gets_content(&f->bob, "of everyone's"));

    import_one(f, &f->ann, "{\"version\":\"3.3.0\"}", "of ann's version");
    import_one(f, &f->bob, "{\"version\":\"3.4.0\"}", "of bob");

    assert_int_equal(ask_imported(&f->ann, "conv.o").code, KILN_NOT_FOUND);
    assert_true(gets_content(&f->bob, "of bob"));
}

TEST_F(users, no_version_is_guessed_if_unversioned_kernels_exist)
{
    const struct kernel_row row = TEXT_KERNEL("other.o", ARGS, "of no version");
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of one version");
    write_cache(f, &row, 1);
    import_cache(f, &f->ann, "{}");
    assert_int_equal(ask_imported(&f->ann, "conv.o").code, KILN_NOT_FOUND);
}

TEST_F(users, private_versions_of_others_do_not_matter)
{
    char question[40];
    import_one(f, &f->ann, "{\"version\":\"2.0\"}", "of two");
    for (unsigned i = 0; i < 70; i++) {
        snprintf(question, sizeof(question), "{\"version\":\"1.%u\"}", i);
        import_one(f, &f->bob, question, "of bob");
    }
    assert_true(gets_content(&f->ann, "of two"));
    assert_int_equal(ask_imported(&f->bob, "conv.o").code, KILN_NOT_FOUND);
    assert_int_equal(ask_imported(&f->admin, "conv.o").code, KILN_NOT_FOUND);
}

TEST_F(users, a_client_that_states_a_version_gets_no_other)
{
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of one version");
    test_caller_forget_replies(&f->ann);
    test_caller_fetch_name(&f->ann, ID "@3.3.0", "conv.o", ARGS);
    assert_int_equal(last_result(&f->ann).code, KILN_NOT_FOUND);
    test_caller_forget_replies(&f->ann);
    test_caller_fetch_name(&f->ann, ID "@3.2.0", "conv.o", ARGS);
    assert_true(bytes_equal_text(last_result(&f->ann).content, "of one version"));
}

TEST_F(users, an_invalid_version_is_refused_before_the_file_is_taken)
{
    static const char *const questions[] = {
        "{\"version\":\"\"}",
        "{\"version\":\"3@2\"}",
        "{\"version\":\"3/2\"}",
        "{\"version\":\"3 2\"}",
        "{\"version\":\"12345678901234567890123456789012345678901\"}",
    };
    write_many(f, 1);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        begin_import(f, &f->ann, questions[i]);
        assert_reply_refuses(&f->ann, 0, KILN_INVALID, "40 ");
    }
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);
}

TEST_F(users, kernels_hot_for_others_stay_hot_after_an_import)
{
    import_one(f, &f->bob, "{}", "of bob");
    assert_true(gets_content(&f->bob, "of bob"));
    assert_true(gets_content(&f->bob, "of bob"));
    assert_int_equal(last_result(&f->bob).tier, TIER_HOT);

    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets_content(&f->bob, "of bob"));
    assert_int_equal(last_result(&f->bob).tier, TIER_HOT);
}

TEST_F(users, kernels_hot_for_others_stay_hot_when_a_version_is_imported)
{
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    assert_true(gets_content(&f->bob, "for all"));
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of ann");
    assert_true(gets_content(&f->bob, "for all"));
    assert_int_equal(last_result(&f->bob).tier, TIER_HOT);
}

TEST_F(users, a_second_version_makes_the_only_version_cold)
{
    const struct kernel_row other = TEXT_KERNEL("other.o", ARGS, "of ann");
    static const char *const questions[] = { "{}", "{\"version\":\"3.3.0\"}" };
    struct test_caller *const whose[] = { &f->ann, &f->bob };
    import_one(f, &f->admin, "{\"version\":\"3.2.0\",\"for_all\":true}", "for all");
    for (size_t i = 0; i < 2; i++) {
        assert_true(gets_content(whose[i], "for all"));
        write_cache(f, &other, 1);
        import_cache(f, whose[i], questions[i]);
        assert_int_equal(ask_imported(whose[i], "conv.o").code, KILN_NOT_FOUND);
    }
}

TEST_F(users, an_import_may_name_the_database_id)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of ann");
    write_cache(f, &row, 1);
    begin_import(f, &f->ann, "{\"database_id\":\"gfx906_60\"}");
    fake_executor_transfer(&f->engine.executor, f->file, "backup.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->ann, 0));
    assert_true(gets_content(&f->ann, "of ann"));

    begin_import(f, &f->ann, "{}");
    fake_executor_transfer(&f->engine.executor, f->file, "backup.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "database id");
}

TEST_F(users, imports_are_of_a_user_and_need_no_signature)
{
    f->engine.options.require_signature = true;
    users_reopen(f);
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of ann");
    write_cache(f, &row, 1);
    begin_import(f, &f->ann, "{\"name\":\"gfx906_60.ukdb\"}");
    const struct transfer_job *job = &fake_executor_next_transfer(&f->engine.executor)->job;
    assert_true(job->of_user);
    assert_false(job->require_signature);
    assert_string_equal(job->name, "gfx906_60.ukdb");
    end_transfer(f);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(gets_content(&f->ann, "of ann"));
}

/* kilnd itself must not open files for a user, who might not be allowed to read them. */
TEST_F(users, an_import_needs_a_file_and_no_url)
{
    test_caller_refused(&f->ann, MESSAGE_kernel_import, "{\"url\":\"file:///etc/passwd\"}",
                        KILN_INVALID, "'url'");
    test_caller_refused(&f->ann, MESSAGE_kernel_import, "{}", KILN_INVALID, "neither");
}

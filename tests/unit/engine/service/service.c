/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static enum kiln_code send_text(struct users *f, struct test_caller *c, unsigned type,
                                const char *body)
{
    test_caller_forget_replies(c);
    enum kiln_code rc = test_caller_try_send(c, (enum message_type)type, 5, bytes_of_text(body));
    fake_executor_run_tasks(&f->engine.executor);
    return rc;
}

TEST_F(users, a_client_that_does_not_say_hello_first_is_refused_and_closed)
{
    struct test_caller rude;
    test_caller_join(&rude, &f->engine, 1000, ROLE_USE);
    assert_int_equal(send_text(f, &rude, MESSAGE_ping, ""), KILN_INVALID);
    assert_reply_refuses(&rude, 0, KILN_INVALID, "hello");
    test_caller_leave(&rude);
}

TEST_F(users, a_client_of_unsupported_versions_is_refused_with_both_ranges)
{
    struct test_caller future;
    test_caller_join(&future, &f->engine, 1000, ROLE_USE);
    struct message_hello m = { .oldest_version = 7, .newest_version = 9 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_hello_write(&b, &m);
    assert_int_equal(test_caller_try_send(&future, MESSAGE_hello, 1, buffer_view(&b)),
                     KILN_INVALID);
    assert_reply_refuses(&future, 0, KILN_UNSUPPORTED, "7 to");
    test_caller_leave(&future);
}

TEST_F(users, a_newer_client_that_still_speaks_our_version_is_welcome)
{
    struct test_caller newer;
    test_caller_join(&newer, &f->engine, 1000, ROLE_USE);
    struct message_hello m = { .oldest_version = 1, .newest_version = 9, .capabilities = ~0ull };
    SEND_MESSAGE(&newer, hello, 1, &m);
    struct reader r = reader_of(newer.replies[0].body);
    struct message_welcome w = message_welcome_read(&r);
    assert_int_equal(newer.replies[0].type, MESSAGE_welcome);
    assert_int_equal(w.version, 1);
    assert_int_equal(w.role, ROLE_USE);
    assert_int_equal(w.max_in_flight, LIMIT_REQUESTS_IN_FLIGHT);
    assert_true(w.instance != 0);
    test_caller_leave(&newer);
}

TEST_F(users, an_unknown_request_is_refused_without_closing)
{
    must(send_text(f, &f->ann, 9999, ""), f->engine.err);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    assert_int_equal(f->ann.replies[0].request_id, 5);
    /* MESSAGE_kernels is a reply, so kilnd refuses it as a request. */
    must(send_text(f, &f->ann, MESSAGE_kernels, ""), f->engine.err);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    assert_int_equal(users_stat(f, "refused"), 2);
}

TEST_F(users, a_ping_comes_back_unchanged)
{
    struct message_ping m = { .payload = bytes_of_text("anyone there") };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_ping_write(&b, &m);
    test_caller_send(&f->ann, MESSAGE_ping, 3, buffer_view(&b));
    assert_int_equal(f->ann.replies[0].type, MESSAGE_pong);
    assert_true(bytes_equal(f->ann.replies[0].body, buffer_view(&b)));
}

TEST_F(users, only_admins_may_clear)
{
    must(send_text(f, &f->ann, MESSAGE_clear, "{\"all\":true}"), f->engine.err);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "--own");
    must(send_text(f, &f->ann, MESSAGE_clear, "{\"uid\":1000}"), f->engine.err);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "administrator");
    must(send_text(f, &f->ann, MESSAGE_package_remove, "{\"name\":\"x.kdb\"}"), f->engine.err);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "pkg rm");
    must(send_text(f, &f->ann, MESSAGE_kernel_list, ""), f->engine.err);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_json);
    must(send_text(f, &f->admin, MESSAGE_clear, "{\"all\":true}"), f->engine.err);
    assert_int_equal(f->admin.replies[0].type, MESSAGE_json);
}

TEST_F(users, status_shows_the_mode_of_the_store)
{
    static const struct {
        enum kernel_store_mode mode;
        const char *name;
    } modes[] = { { KERNEL_STORE_ON, "on" },
                  { KERNEL_STORE_READ_ONLY, "read-only" },
                  { KERNEL_STORE_OFF, "off" } };
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        f->engine.options.store_mode = modes[i].mode;
        users_reopen(f);
        KILN_AUTO(json)
        struct json *status = test_caller_ask(&f->ann, MESSAGE_status, "{}");
        assert_string_equal(json_get_text(json_get(status, "store"), "mode", ""), modes[i].name);
    }
}

TEST_F(users, invalid_json_is_refused_with_the_name_of_the_request)
{
    static const char *const bad[] = { "{", "[]", "{} {}", "7" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        must(send_text(f, &f->admin, MESSAGE_clear, bad[i]), f->engine.err);
        struct message_error e = reply_error(&f->admin, 0);
        assert_int_equal(e.code, KILN_INVALID);
        KILN_AUTO(mem) char *text = bytes_to_text(e.text);
        assert_says(text, "'clear'");
    }
}

TEST_F(users, a_clear_request_without_members_is_refused)
{
    must(send_text(f, &f->admin, MESSAGE_clear, "{}"), f->engine.err);
    assert_int_equal(reply_error(&f->admin, 0).code, KILN_INVALID);
}

TEST_F(users, a_member_of_the_wrong_type_or_name_is_refused_by_name)
{
    static const struct {
        const char *body;
        const char *says;
    } bad[] = {
        { "{\"target\":\"gfx90a\",\"older_than_s\":\"30d\"}", "'older_than_s'" },
        { "{\"target\":\"gfx90a\",\"older_than_s\":-5}", "'older_than_s'" },
        { "{\"all\":true,\"dry_run\":\"yes\"}", "'dry_run'" },
        { "{\"all\":true,\"dryrun\":true}", "'dryrun'" },
        { "{\"target\":7}", "'target'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        must(send_text(f, &f->admin, MESSAGE_clear, bad[i].body), f->engine.err);
        struct message_error e = reply_error(&f->admin, 0);
        assert_int_equal(e.code, KILN_INVALID);
        KILN_AUTO(mem) char *text = bytes_to_text(e.text);
        assert_says(text, bad[i].says);
    }
    must(send_text(f, &f->admin, MESSAGE_toolchains, "{\"probe\":[7]}"), f->engine.err);
    assert_int_equal(reply_error(&f->admin, 0).code, KILN_INVALID);
}

TEST_F(users, a_json_body_of_megabytes_is_refused_unparsed)
{
    static char large[100001];
    memset(large, ' ', sizeof(large) - 1);
    must(send_text(f, &f->ann, MESSAGE_kernel_list, large), f->engine.err);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    KILN_AUTO(mem) char *text = bytes_to_text(reply_error(&f->ann, 0).text);
    assert_says(text, "65536");
}

TEST_F(users, clearing_by_an_age_beyond_the_epoch_clears_nothing)
{
    fetch_program(&f->ann, 1, "a.cl");
    finish_compile(f, "object");
    must(send_text(f, &f->admin, MESSAGE_clear, "{\"older_than_s\":9999999999}"), f->engine.err);
    KILN_AUTO(mem) char *text = bytes_to_text(f->admin.replies[0].body);
    assert_says(text, "\"kernels\":0,");
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, a_list_has_pages_and_a_next_key)
{
    static const char *const programs[] = { "a.cl", "b.cl" };
    for (size_t i = 0; i < 2; i++) {
        test_caller_fetch_source(&f->ann, i, programs[i], PRIORITY_INTERACTIVE);
        fake_executor_run_tasks(&f->engine.executor);
        finish_compile(f, "object");
    }
    must(send_text(f, &f->ann, MESSAGE_kernel_list, "{\"count\":1}"), f->engine.err);
    KILN_AUTO(mem) char *one = bytes_to_text(f->ann.replies[0].body);
    assert_says(one, "\"next\":");
    must(send_text(f, &f->ann, MESSAGE_kernel_list, "{\"count\":2}"), f->engine.err);
    KILN_AUTO(mem) char *two = bytes_to_text(f->ann.replies[0].body);
    assert_null(strstr(two, "\"next\":"));
}

static void assert_uid_reported(struct users *f, struct test_caller *c, unsigned type,
                                const char *body, bool is_reported)
{
    must(send_text(f, c, type, body), f->engine.err);
    assert_int_equal(c->replies[0].type, MESSAGE_json);
    KILN_AUTO(mem) char *text = bytes_to_text(c->replies[0].body);
    assert_says(text, "\"program\":\"a.cl\"");
    assert_true((strstr(text, "\"uid\":1000") != NULL) == is_reported);
}

TEST_F(users, the_owner_of_a_kernel_is_shown_to_the_owner_and_administrators)
{
    char show[100], *key;
    fetch_program(&f->ann, 1, "a.cl");
    finish_compile(f, "object");
    assert_uid_reported(f, &f->bob, MESSAGE_kernel_list, "", false);
    assert_uid_reported(f, &f->ann, MESSAGE_kernel_list, "", true);
    KILN_AUTO(mem) char *list = bytes_to_text(f->ann.replies[0].body);
    key = strstr(list, "\"key\":\"");
    assert_non_null(key);
    snprintf(show, sizeof(show), "{%.*s}", (int)strlen("\"key\":\"\"") + 64, key);
    assert_uid_reported(f, &f->admin, MESSAGE_kernel_list, "", true);
    assert_uid_reported(f, &f->bob, MESSAGE_kernel_show, show, false);
    assert_uid_reported(f, &f->ann, MESSAGE_kernel_show, show, true);
    assert_uid_reported(f, &f->admin, MESSAGE_kernel_show, show, true);
}

TEST_F(users, a_second_hello_is_refused)
{
    struct message_hello m = { .oldest_version = 1, .newest_version = 1 };
    SEND_MESSAGE(&f->ann, hello, 1, &m);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
}

TEST_F(users, every_request_of_the_table_answers_an_empty_body)
{
    static const unsigned types[] = {
#define KILN_REQUEST(name, number, role, body, purpose) number,
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        /* ends the caller's subscription, because test_caller would count events as replies */
        list_remove(&f->admin.base.subscribed);
        must(send_text(f, &f->admin, types[i], ""), f->engine.err);
        assert_int_equal(f->admin.reply_count, 1);
        assert_int_equal(f->admin.replies[0].request_id, 5);
    }
}

TEST_F(users, too_many_unanswered_requests_are_refused_one_by_one)
{
    for (unsigned i = 0; i < LIMIT_REQUESTS_IN_FLIGHT; i++) {
        char program[32];
        snprintf(program, sizeof(program), "p%u.cl", i % 50);
        test_caller_fetch_source(&f->ann, i, program, PRIORITY_INTERACTIVE);
    }
    assert_int_equal(f->ann.reply_count, 0);
    test_caller_fetch_source(&f->ann, 2000, "one-more.cl", PRIORITY_INTERACTIVE);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_BUSY);

    struct message_cancel m = { .cancelled_id = 7 };
    test_caller_forget_replies(&f->ann);
    SEND_MESSAGE(&f->ann, cancel, 3000, &m);
    /* The limit does not apply to cancel. */
    assert_int_equal(f->ann.replies[0].request_id, 7);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CANCELLED);
}

TEST_F(users, only_subscribers_get_events)
{
    must(send_text(f, &f->ann, MESSAGE_events, ""), f->engine.err);
    assert_int_equal(f->ann.replies[0].flags, FRAME_MORE);
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->admin, 1, "a.cl");
    finish_compile(f, "object");
    assert_int_equal(f->ann.reply_count, 1);
    KILN_AUTO(mem) char *text = bytes_to_text(f->ann.replies[0].body);
    assert_says(text, "\"event\":\"compiled\"");
    assert_says(text, "a.cl");
    assert_int_equal(f->ann.replies[0].request_id, 5);
    assert_int_equal(f->admin.reply_count, 1);
}

/* There may be thousands of clients, and each kernel causes an event. kilnd must therefore not look
 * at clients without a subscription. The test makes the memory of such a client inaccessible. */
TEST_F(users, an_event_does_not_look_at_clients_without_a_subscription)
{
    const size_t size = sizeof(struct caller);
    struct caller *idle = mmap(/* addr= */ NULL, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, /* fd= */ -1, /* offset= */ 0);
    assert_ptr_not_equal(idle, MAP_FAILED);
    service_join(f->engine.engine, idle);
    assert_int_equal(mprotect(idle, size, PROT_NONE), 0);
    must(send_text(f, &f->ann, MESSAGE_events, ""), f->engine.err);
    test_caller_forget_replies(&f->ann);

    event_report(f->engine.engine, "quarantined", "ab00");

    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(mprotect(idle, size, PROT_READ | PROT_WRITE), 0);
    service_leave(f->engine.engine, idle);
    munmap(idle, size);
}

/* The kernel with this key may be private, and the event does not state its owner. Other users must
 * therefore not get the event. */
TEST_F(users, an_event_about_a_damaged_key_goes_only_to_administrators)
{
    const struct digest key = { .bytes = { 0xab } };
    must(send_text(f, &f->ann, MESSAGE_events, ""), f->engine.err);
    must(send_text(f, &f->admin, MESSAGE_events, ""), f->engine.err);
    test_caller_forget_replies(&f->ann);
    test_caller_forget_replies(&f->admin);

    event_report_key(f->engine.engine, "quarantined", &key, "ab00");

    assert_int_equal(f->ann.reply_count, 0);
    assert_int_equal(f->admin.reply_count, 1);
    KILN_AUTO(mem) char *text = bytes_to_text(f->admin.replies[0].body);
    assert_says(text, "ab00");
}

static void assert_hears_failure(struct test_caller *c, bool quotes)
{
    assert_int_equal(c->reply_count, 1);
    KILN_AUTO(mem) char *text = bytes_to_text(c->replies[0].body);
    assert_says(text, "\"event\":\"compile_failed\"");
    assert_int_equal(strstr(text, "secret_word") != NULL, quotes);
}

/* Others must not see the reason, because it quotes the source. */
TEST_F(users, the_reason_of_a_failed_compile_goes_to_its_user_and_administrators)
{
    struct test_caller asker, other, anonymous;
    struct test_caller *all[] = { &asker, &other, &anonymous };
    test_caller_connect(&asker, &f->engine, 1000, ROLE_USE);
    test_caller_connect(&other, &f->engine, 1001, ROLE_PUBLISH);
    test_caller_connect(&anonymous, &f->engine, 1000, ROLE_USE);
    anonymous.base.is_anonymous = true;
    for (size_t i = 0; i < 3; i++) {
        must(send_text(f, all[i], MESSAGE_events, ""), f->engine.err);
        test_caller_forget_replies(all[i]);
    }
    must(send_text(f, &f->admin, MESSAGE_events, ""), f->engine.err);
    test_caller_forget_replies(&f->admin);

    fetch_program(&f->ann, 1, "a.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "unknown name 'secret_word'", "");
    fake_executor_run_tasks(&f->engine.executor);

    assert_hears_failure(&asker, true);
    assert_hears_failure(&f->admin, true);
    assert_hears_failure(&other, false);
    assert_hears_failure(&anonymous, false);
    for (size_t i = 0; i < 3; i++)
        test_caller_leave(all[i]);
}

TEST_F(users, a_user_gets_events_on_a_bounded_number_of_connections)
{
    enum { CONNECTIONS = 65 };
    KILN_AUTO(mem) struct test_caller *callers = calloc(CONNECTIONS, sizeof(*callers));
    assert_non_null(callers);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        test_caller_connect(&callers[i], &f->engine, 1000, ROLE_USE);
        test_caller_forget_replies(&callers[i]);
        must(send_text(f, &callers[i], MESSAGE_events, ""), f->engine.err);
    }
    assert_int_equal(callers[CONNECTIONS - 2].replies[0].type, MESSAGE_json);
    assert_reply_refuses(&callers[CONNECTIONS - 1], 0, KILN_BUSY, "user 1000");
    must(send_text(f, &f->bob, MESSAGE_events, ""), f->engine.err);
    assert_int_equal(f->bob.replies[f->bob.reply_count - 1].type, MESSAGE_json);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        test_caller_leave(&callers[i]);
}

/* All anonymous clients have the same uid, and would therefore share data that is meant to be
 * private. */
TEST_F(users, an_anonymous_client_may_fetch_but_not_keep_private_data)
{
    static const enum message_type refused[] = {
        MESSAGE_kernel_import, MESSAGE_tuning_put,   MESSAGE_tuning_lease,  MESSAGE_tuning_report,
        MESSAGE_tuning_import, MESSAGE_tuning_merge, MESSAGE_tuning_remove,
    };
    f->ann.base.is_anonymous = true;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        must(send_text(f, &f->ann, refused[i], "{}"), f->engine.err);
        assert_reply_refuses(&f->ann, 0, KILN_DENIED, "uid 1000");
    }
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->ann, 1, "a.cl");
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_OK);
}

static void send_only(struct test_caller *c, uint64_t id, enum message_type type)
{
    test_caller_send(c, type, id, bytes_of_text("{}"));
}

TEST_F(users, a_quick_request_does_not_wait_for_a_scan_of_the_store)
{
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_forget_replies(&f->ann);
    send_only(&f->ann, 1, MESSAGE_kernel_list);
    send_only(&f->ann, 2, MESSAGE_kernel_list);
    send_only(&f->ann, 3, MESSAGE_stats);
    send_only(&f->ann, 4, MESSAGE_stats);
    assert_int_equal(count_tasks(f), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->ann.replies[0].request_id, 1);
    assert_int_equal(f->ann.replies[1].request_id, 3);
    assert_int_equal(f->ann.replies[2].request_id, 4);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 4);
}

TEST_F(users, a_queued_request_of_a_client_that_left_never_starts)
{
    fake_executor_run_tasks(&f->engine.executor);
    send_only(&f->bob, 1, MESSAGE_kernel_list);
    send_only(&f->bob, 2, MESSAGE_kernel_list);
    send_only(&f->bob, 3, MESSAGE_kernel_export);
    test_caller_forget_replies(&f->ann);
    send_only(&f->ann, 4, MESSAGE_kernel_list);
    test_caller_leave(&f->bob);
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 1);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].request_id, 4);
}

TEST_F(users, unanswered_administrative_requests_are_limited_per_user)
{
    struct test_caller again;
    fake_executor_run_tasks(&f->engine.executor);
    for (uint64_t i = 0; i < 4; i++)
        send_only(&f->ann, i, i % 2 ? MESSAGE_kernel_list : MESSAGE_stats);
    test_caller_connect(&again, &f->engine, 1000, ROLE_USE);
    test_caller_forget_replies(&again);
    send_only(&again, 9, MESSAGE_stats);
    assert_reply_refuses(&again, 0, KILN_BUSY, "user 1000");

    test_caller_forget_replies(&f->admin);
    for (uint64_t i = 0; i < 32; i++)
        send_only(&f->admin, i, MESSAGE_kernel_list);
    assert_int_equal(f->admin.reply_count, 0);
    send_only(&f->admin, 99, MESSAGE_kernel_list);
    assert_reply_refuses(&f->admin, 0, KILN_BUSY, "user 0");

    fake_executor_run_tasks(&f->engine.executor);
    test_caller_forget_replies(&again);
    send_only(&again, 10, MESSAGE_stats);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(again.replies[0].type, MESSAGE_json);
    test_caller_leave(&again);
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <string.h>

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    unsigned events;
};

static void answer(struct fake_request *rq)
{
    if (rq->header.type == MESSAGE_stats)
        fake_reply(rq, MESSAGE_json, 0, rq->body);
    else if (rq->header.type == MESSAGE_clear)
        fake_reply_error(rq, KILN_DENIED, "'clear' needs an administrator", NULL);
    else if (rq->header.type == MESSAGE_status)
        fake_reply(rq, MESSAGE_json, 0, bytes_of("a\0b", 3));
    else if (rq->header.type == MESSAGE_config)
        fake_reply(rq, MESSAGE_json, FRAME_MORE, bytes_of_text("{}"));
    else
        for (int i = 0; i < 3; i++)
            fake_reply(rq, MESSAGE_json, FRAME_MORE, bytes_of_text("{\"event\":\"x\"}"));
}

SET_UP(set_up) { fake_daemon_serve(&f->daemon, answer, f, &f->client); }

FIXTURE(admin, set_up, NULL);

static int ask(struct fixture *f, const char *request, const char *json, char **ret_json)
{
    const struct kiln_admin_call call = { .size = sizeof(call), .request = request, .json = json };
    return kiln_admin(f->client, &call, ret_json, &f->err);
}

TEST_F(admin, json_is_sent_and_returned_unchanged)
{
    char *json = NULL;
    must(ask(f, "stats", "{\"a\":1}", &json), f->err);
    assert_string_equal(json, "{\"a\":1}");
    kiln_free(json);
    must(ask(f, "stats", NULL, &json), f->err);
    assert_string_equal(json, "{}");
    kiln_free(json);
}

TEST_F(admin, refusals_and_damaged_answers_have_different_codes)
{
    char *json = NULL;
    assert_int_equal(ask(f, "clear", NULL, &json), KILN_E_DENIED);
    assert_says(f->err.text, "administrator");
    assert_int_equal(ask(f, "status", NULL, &json), KILN_E_CORRUPT);
    assert_int_equal(ask(f, "config", NULL, &json), KILN_E_CORRUPT);
    assert_null(json);
}

TEST_F(admin, only_json_requests_can_be_named)
{
    char *json = NULL;
    assert_int_equal(ask(f, "fetch", NULL, &json), KILN_E_INVALID);
    assert_says(f->err.text, "'fetch'");
    assert_int_equal(ask(f, "events", NULL, &json), KILN_E_INVALID);
    assert_int_equal(ask(f, NULL, NULL, &json), KILN_E_INVALID);
    assert_int_equal(kiln_admin(f->client, NULL, &json, &f->err), KILN_E_INVALID);
    const struct kiln_admin_call small = { .size = 8, .request = "stats" };
    assert_int_equal(kiln_admin(f->client, &small, &json, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "size");
    int place;
    const struct kiln_admin_call with_files = {
        .size = sizeof(with_files), .request = "stats", .ret_files = &place, .ret_files_max = 1
    };
    assert_int_equal(kiln_admin(f->client, &with_files, &json, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "files");
    assert_int_equal(f->daemon.connections, 0);
}

static int until_third(void *context, const char *json)
{
    struct fixture *f = context;
    assert_string_equal(json, "{\"event\":\"x\"}");
    return ++f->events == 3;
}

TEST_F(admin, events_come_until_the_callback_stops_them)
{
    must(kiln_events(f->client, -1, until_third, f, &f->err), f->err);
    assert_int_equal(f->events, 3);
}

static int for_ever(void *context, const char *json)
{
    (void)context;
    (void)json;
    return 0;
}

TEST_F(admin, events_end_with_the_time_out)
{
    assert_int_equal(kiln_events(f->client, 30, for_ever, f, &f->err), KILN_E_TIMED_OUT);
}

static int kill_the_daemon(void *context, const char *json)
{
    struct fixture *f = context;
    (void)json;
    fake_daemon_kill(&f->daemon);
    return 0;
}

TEST_F(admin, events_end_when_the_daemon_exits)
{
    int rc = kiln_events(f->client, -1, kill_the_daemon, f, &f->err);
    assert_int_equal(rc, KILN_E_UNAVAILABLE);
}

TEST_F(admin, watching_events_leaves_the_clients_own_connection_alone)
{
    char *json = NULL;
    must(kiln_events(f->client, -1, until_third, f, &f->err), f->err);
    must(ask(f, "stats", NULL, &json), f->err);
    kiln_free(json);
    assert_int_equal(f->daemon.connections, 2);
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <stdio.h>
#include <string.h>

#define ID "gfx90a68"

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_kernel *kernel;
    char asked[256]; /* the last request: id, name and arguments, separated by | */
};

static void note_question(struct fixture *f, const struct message_fetch_name *m)
{
    snprintf(f->asked, sizeof(f->asked), "%.*s|%.*s|%.*s", (int)m->database_id.size,
             (const char *)m->database_id.data, (int)m->name.size, (const char *)m->name.data,
             (int)m->args.size, (const char *)m->args.data);
}

/* Answers every request, except for the name "none.o", with an object whose content is f->asked. */
static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    struct reader r = reader_of(rq->body);
    struct message_fetch_name m = message_fetch_name_read(&r);
    struct fake_results o = { 0 };
    struct digest key = fake_key(5);
    if (rq->header.type != MESSAGE_fetch_name || r.failed || reader_left(&r)) {
        fake_reply_error(rq, KILN_INVALID, "not what the test asks", NULL);
        return;
    }
    note_question(f, &m);
    struct message_result result = fake_inline_result(0, &key, bytes_of_text(f->asked));
    if (bytes_equal_text(m.name, "none.o"))
        result = (struct message_result){ .code = KILN_NOT_FOUND, .descriptor = NO_DESCRIPTOR };
    if (m.inline_limit != LIMIT_INLINE_OBJECT)
        result.code = KILN_INVALID;
    fake_result_add(&o, &result);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

SET_UP(set_up) { fake_daemon_serve(&f->daemon, answer, f, &f->client); }

TEAR_DOWN(tear_down) { kiln_kernel_unref(f->kernel); }

FIXTURE(fetch_named, set_up, tear_down);

static int fetch(struct fixture *f, const char *id, const char *file, const char *args)
{
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = id, .name = file, .args = args
    };
    kiln_kernel_unref(f->kernel);
    f->kernel = NULL;
    return kiln_kernel_fetch_named(f->client, &name, &f->kernel, &f->err);
}

static bool is_object(const struct fixture *f, const char *content)
{
    return f->kernel && kiln_kernel_size(f->kernel) == strlen(content) &&
           memcmp(kiln_kernel_data(f->kernel), content, strlen(content)) == 0;
}

TEST_F(fetch_named, name_and_arguments_are_sent_with_every_blank)
{
    must(fetch(f, ID, "conv 3x3.s.o", "  -mcpu=gfx90a  "), f->err);
    assert_string_equal(f->asked, ID "|conv 3x3.s.o|  -mcpu=gfx90a  ");
    assert_true(is_object(f, f->asked));
    must(fetch(f, ID, "plain.o", NULL), f->err);
    assert_string_equal(f->asked, ID "|plain.o|");
}

TEST_F(fetch_named, a_second_fetch_by_name_is_answered_in_the_process)
{
    must(fetch(f, ID, "conv.o", "-a"), f->err);
    assert_int_equal(f->daemon.requests, 1);
    must(fetch(f, ID, "conv.o", "-a"), f->err);
    assert_int_equal(f->daemon.requests, 1);
    assert_true(is_object(f, ID "|conv.o|-a"));
}

TEST_F(fetch_named, every_part_of_a_kernels_name_counts)
{
    must(fetch(f, ID, "conv.o", "-a"), f->err);
    must(fetch(f, ID, "conv.o", " -a"), f->err);
    assert_true(is_object(f, ID "|conv.o| -a"));
    must(fetch(f, ID, "conv.o-", "a"), f->err);
    assert_true(is_object(f, ID "|conv.o-|a"));
    must(fetch(f, "gfx90a6e", "conv.o", "-a"), f->err);
    assert_true(is_object(f, "gfx90a6e|conv.o|-a"));
    assert_int_equal(f->daemon.requests, 4);
}

TEST_F(fetch_named, a_miss_by_name_names_the_kernel_and_is_not_cached)
{
    assert_int_equal(fetch(f, ID, "none.o", ""), KILN_E_NOT_FOUND);
    assert_null(f->kernel);
    assert_says(f->err.text, "'none.o'");
    assert_int_equal(fetch(f, ID, "none.o", ""), KILN_E_NOT_FOUND);
    assert_int_equal(f->daemon.requests, 2);
}

TEST_F(fetch_named, arguments_that_are_missing_are_refused_before_asking)
{
    assert_int_equal(fetch(f, NULL, "conv.o", ""), KILN_E_INVALID);
    assert_int_equal(fetch(f, ID, NULL, ""), KILN_E_INVALID);
    struct kiln_kernel_name name = { .size = sizeof(name), .database_id = ID, .name = "conv.o" };
    assert_int_equal(kiln_kernel_fetch_named(f->client, &name, NULL, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch_named(NULL, &name, &f->kernel, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch_named(f->client, NULL, &f->kernel, &f->err), KILN_E_INVALID);
    name.size = 0;
    assert_int_equal(kiln_kernel_fetch_named(f->client, &name, &f->kernel, &f->err),
                     KILN_E_INVALID);
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(fetch_named, a_fetch_by_name_without_a_daemon_is_unavailable)
{
    fake_daemon_kill(&f->daemon);
    assert_int_equal(fetch(f, ID, "conv.o", ""), KILN_E_UNAVAILABLE);
    assert_null(f->kernel);
}

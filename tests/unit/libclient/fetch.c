/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "tests/support/entries.h"
#include "tests/support/hostile_descriptors.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct digest key;
    char hex[DIGEST_HEX_SIZE];
    int prepared;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .key = fake_key(1) };
    digest_to_hex(&f->key, f->hex);
}

FIXTURE(fetch, set_up, NULL);

static void start(struct fixture *f, void (*handle)(struct fake_request *))
{
    fake_daemon_serve(&f->daemon, handle, f, &f->client);
}

static int fetch(struct fixture *f, struct kiln_kernel **ret_kernel)
{
    *ret_kernel = NULL;
    return kiln_kernel_fetch(f->client, f->hex, 0, ret_kernel, &f->err);
}

#define SMALL "a small code object"

static void give_inline(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    struct fake_results o = { 0 };
    struct message_result m = fake_inline_result(0, &f->key, bytes_of_text(SMALL));
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static uint8_t large[100000];

/* Answers with a result that names the |descriptor|-th descriptor and announces |size| bytes.
 * Sends |fds| descriptors. */
static void give_memfd(struct fake_request *rq, bool sealed, uint64_t size, uint16_t descriptor,
                       size_t fds)
{
    struct fixture *f = rq->daemon->context;
    struct fake_results o = { 0 };
    struct message_result m = {
        .tier = TIER_DISK, .descriptor = descriptor, .key = f->key, .size = size, .spent_ns = 77
    };
    fake_result_add(&o, &m);
    int passed[4];
    for (size_t i = 0; i < fds; i++)
        passed[i] = fake_memfd(bytes_of(large, sizeof(large)), sealed);
    fake_results_reply(&o, rq, 0, passed, fds);
    for (size_t i = 0; i < fds; i++)
        close(passed[i]);
}

static void give_sealed(struct fake_request *rq) { give_memfd(rq, true, sizeof(large), 0, 1); }
static void give_unsealed(struct fake_request *rq) { give_memfd(rq, false, sizeof(large), 0, 1); }
static void give_shorter(struct fake_request *rq) { give_memfd(rq, true, sizeof(large) + 1, 0, 1); }
static void give_second(struct fake_request *rq) { give_memfd(rq, true, sizeof(large), 1, 1); }
static void give_three(struct fake_request *rq) { give_memfd(rq, true, sizeof(large), 2, 3); }
static void give_giant(struct fake_request *rq) { give_memfd(rq, true, 1ull << 60, 0, 1); }
static void give_nothing(struct fake_request *rq) { give_memfd(rq, true, 0, 0, 1); }

static void give_pipe(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct fake_results o = { 0 };
    struct message_result m = { .tier = TIER_HOT, .key = f->key, .size = 10 };
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, ends, 1);
    close(ends[0]);
    close(ends[1]);
}

static void miss(struct fake_request *rq)
{
    struct fake_results o = { 0 };
    struct message_result m = { .code = KILN_NOT_FOUND, .descriptor = NO_DESCRIPTOR };
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static void fail_to_compile(struct fake_request *rq)
{
    struct fake_results o = { 0 };
    struct message_result m = { .code = KILN_COMPILE_FAILED,
                                .descriptor = NO_DESCRIPTOR,
                                .text = bytes_of_text("the worker \x1b[31mcrashed"),
                                .log = bytes_of_text("line one\nline two") };
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static void give_another_key(struct fake_request *rq)
{
    struct digest other = fake_key(2);
    struct fake_results o = { 0 };
    struct message_result m = fake_inline_result(0, &other, bytes_of_text(SMALL));
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static void give_too_large_inline(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    struct fake_results o = { 0 };
    struct message_result m = fake_inline_result(0, &f->key, bytes_of(large, sizeof(large)));
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

TEST_F(fetch, a_small_kernel_arrives_inside_the_frame)
{
    struct kiln_kernel *kernel;
    start(f, give_inline);

    must(fetch(f, &kernel), f->err);

    assert_int_equal(kiln_kernel_size(kernel), strlen(SMALL));
    assert_memory_equal(kiln_kernel_data(kernel), SMALL, strlen(SMALL));
    assert_string_equal(kiln_kernel_key(kernel), f->hex);
    assert_int_equal(kiln_kernel_tier(kernel), KILN_TIER_HOT);
    assert_int_equal(kiln_kernel_compile_ns(kernel), 5);
    kiln_kernel_unref(kernel);
}

TEST_F(fetch, a_large_kernel_is_mapped_from_its_descriptor)
{
    struct kiln_kernel *kernel;
    start(f, give_sealed);
    unsigned before = descriptor_count(getpid());

    must(fetch(f, &kernel), f->err);

    assert_int_equal(kiln_kernel_size(kernel), sizeof(large));
    assert_memory_equal(kiln_kernel_data(kernel), large, sizeof(large));
    assert_int_equal(kiln_kernel_tier(kernel), KILN_TIER_DISK);
    fake_daemon_kill(&f->daemon);
    assert_int_equal(descriptor_count(getpid()), before);
    kiln_kernel_unref(kernel);
}

TEST_F(fetch, a_kernel_outlives_its_client)
{
    struct kiln_kernel *kernel;
    start(f, give_sealed);
    must(fetch(f, &kernel), f->err);

    kiln_client_close(f->client);
    f->client = NULL;

    assert_memory_equal(kiln_kernel_data(kernel), large, sizeof(large));
    kiln_kernel_unref(kernel);
}

TEST_F(fetch, the_second_fetch_never_leaves_the_process)
{
    struct kiln_kernel *first, *second;
    start(f, give_inline);
    must(fetch(f, &first), f->err);
    fake_daemon_kill(&f->daemon);

    must(fetch(f, &second), f->err);

    assert_int_equal(f->daemon.requests, 1);
    assert_ptr_equal(kiln_kernel_data(first), kiln_kernel_data(second));
    assert_int_equal(kiln_kernel_tier(first), KILN_TIER_HOT);
    assert_int_equal(kiln_kernel_tier(second), KILN_TIER_PROCESS);
    struct kiln_status status = { .size = sizeof(status) };
    must(kiln_client_status(f->client, &status, &f->err), f->err);
    assert_int_equal(status.cache_hits, 1);
    assert_int_equal(status.cache_entries, 1);
    kiln_kernel_unref(first);
    kiln_kernel_unref(second);
}

TEST_F(fetch, a_client_without_a_table_asks_each_time)
{
    f->daemon.handle = give_inline;
    f->daemon.context = f;
    fake_daemon_start(&f->daemon);
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = f->daemon.path,
                                           .cache_entries = -1 };
    must(kiln_client_open(&options, &f->client, &f->err), f->err);

    for (int i = 0; i < 3; i++) {
        struct kiln_kernel *kernel;
        must(fetch(f, &kernel), f->err);
        kiln_kernel_unref(kernel);
    }

    assert_int_equal(f->daemon.requests, 3);
    kiln_client_close(KILN_TAKE(f->client));
}

static struct kiln_kernel_source some_source(void)
{
    static const struct kiln_header header = { .name = "h.h", .text = "#define H 1" };
    return (struct kiln_kernel_source){ .size = sizeof(struct kiln_kernel_source),
                                        .target = "gfx90a",
                                        .program = "a.cpp",
                                        .options = "-O3",
                                        .source = "kernel",
                                        .headers = &header,
                                        .header_count = 1 };
}

static void check_source_request(struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    struct message_fetch_source m = message_fetch_source_read(&r);
    struct kiln_err err = KILN_ERR_INIT;
    must(message_body_check(&r, MESSAGE_fetch_source, &err), err);
    assert_true(bytes_equal_text(m.target, "gfx90a"));
    assert_true(bytes_equal_text(m.program, "a.cpp"));
    assert_true(bytes_equal_text(m.options, "-O3"));
    assert_int_equal(m.header_count, 1);
    give_inline(rq);
}

TEST_F(fetch, a_source_is_asked_for_once_and_then_known_by_source_and_by_key)
{
    struct kiln_kernel *first, *second, *third;
    start(f, check_source_request);
    struct kiln_kernel_source source = some_source();
    must(kiln_kernel_fetch_source(f->client, &source, &first, &f->err), f->err);

    must(kiln_kernel_fetch_source(f->client, &source, &second, &f->err), f->err);
    must(fetch(f, &third), f->err);
    assert_int_equal(f->daemon.requests, 1);

    struct kiln_kernel *other;
    source.priority = KILN_PREFETCH; /* not part of the identity */
    source.source = "kernels";
    must(kiln_kernel_fetch_source(f->client, &source, &other, &f->err), f->err);
    assert_int_equal(f->daemon.requests, 2);
    kiln_kernel_unref(first);
    kiln_kernel_unref(second);
    kiln_kernel_unref(third);
    kiln_kernel_unref(other);
}

TEST_F(fetch, a_miss_reports_its_key)
{
    struct kiln_kernel *kernel;
    start(f, miss);
    assert_int_equal(fetch(f, &kernel), KILN_E_NOT_FOUND);
    assert_says(f->err.text, f->hex);
    assert_string_equal(f->err.log, "");
    assert_null(kernel);
}

TEST_F(fetch, a_failed_fetch_returns_the_daemons_message_and_the_compilers_log)
{
    struct kiln_kernel *kernel = NULL;
    start(f, fail_to_compile);
    struct kiln_kernel_source source = some_source();

    int rc = kiln_kernel_fetch_source(f->client, &source, &kernel, &f->err);

    assert_int_equal(rc, KILN_E_COMPILE_FAILED);
    assert_int_equal(f->err.code, KILN_E_COMPILE_FAILED);
    assert_string_equal(f->err.text, "the worker  [31mcrashed"); /* no escape codes */
    assert_string_equal(f->err.log, "line one\nline two");
}

static void refuse(struct fixture *f, void (*handle)(struct fake_request *), const char *part)
{
    struct kiln_kernel *kernel;
    start(f, handle);
    unsigned before = descriptor_count(getpid());

    assert_int_equal(fetch(f, &kernel), KILN_E_CORRUPT);

    assert_says(f->err.text, part);
    assert_null(kernel);
    assert_int_equal(fetch(f, &kernel), KILN_E_CORRUPT);
    assert_int_equal(f->daemon.connections, 2);
    kiln_client_close(f->client);
    f->client = NULL;
    fake_daemon_kill(&f->daemon);
    assert_int_equal(descriptor_count(getpid()), before - 2);
}

TEST(fetch, a_descriptor_that_is_not_sealed_is_refused)
{
    refuse(*state, give_unsealed, "sealed memfd");
}

TEST(fetch, a_descriptor_that_is_not_a_memfd_is_refused)
{
    refuse(*state, give_pipe, "sealed memfd");
}

TEST(fetch, a_memfd_of_another_size_than_announced_is_refused)
{
    refuse(*state, give_shorter, "100001 bytes");
}

TEST(fetch, a_descriptor_index_that_is_too_large_is_refused)
{
    refuse(*state, give_second, "descriptor 1");
}

TEST(fetch, objects_of_impossible_size_are_refused) { refuse(*state, give_giant, "code object"); }

TEST(fetch, empty_objects_are_refused) { refuse(*state, give_nothing, "0 bytes"); }

TEST(fetch, the_answer_to_another_request_is_refused) { refuse(*state, give_another_key, "key"); }

TEST(fetch, inline_content_beyond_the_limit_is_refused)
{
    refuse(*state, give_too_large_inline, "asked for");
}

TEST_F(fetch, inline_content_without_the_capability_is_refused)
{
    f->daemon.without_inline = true;
    refuse(f, give_inline, "asked for");
}

static void answer_with_what_is_prepared(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (rq->header.type == MESSAGE_ping) {
        fake_pong(rq);
        return;
    }
    struct fake_results o = { 0 };
    struct message_result m = { .tier = TIER_HOT, .key = f->key, .size = sizeof(large) };
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, &f->prepared, 1);
}

TEST_F(fetch, only_a_sealed_memfd_of_the_announced_size_is_mapped)
{
    struct kiln_kernel *kernel;
    start(f, answer_with_what_is_prepared);
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);
    for (size_t i = 0; i < hostile_descriptor_count; i++) {
        f->prepared = hostile_descriptors[i].open();
        if (f->prepared < 0)
            continue;
        if (fetch(f, &kernel) != KILN_E_CORRUPT)
            fail_msg("%s is mapped", hostile_descriptors[i].name);
        assert_null(kernel);
        close(f->prepared);
    }
    f->prepared = fake_memfd(bytes_of(large, sizeof(large)), true);
    must(fetch(f, &kernel), f->err);
    kiln_kernel_unref(kernel);
    close(f->prepared);
}

TEST_F(fetch, a_process_out_of_descriptors_gets_an_error_and_recovers)
{
    struct kiln_kernel *kernel;
    start(f, answer_with_what_is_prepared);
    f->prepared = fake_memfd(bytes_of(large, sizeof(large)), true);
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(f->prepared);
    close(next);
    none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);

    int rc = fetch(f, &kernel);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

    assert_int_equal(rc, KILN_E_FULL);
    assert_says(f->err.text, "open files");
    must(fetch(f, &kernel), f->err);
    kiln_kernel_unref(kernel);
    close(f->prepared);
}

TEST_F(fetch, descriptors_that_no_result_names_are_closed)
{
    struct kiln_kernel *kernel;
    start(f, give_three);
    unsigned before = descriptor_count(getpid());

    must(fetch(f, &kernel), f->err);

    assert_memory_equal(kiln_kernel_data(kernel), large, sizeof(large));
    fake_daemon_kill(&f->daemon);
    assert_int_equal(descriptor_count(getpid()), before);
    kiln_kernel_unref(kernel);
}

TEST_F(fetch, an_invalid_key_is_refused_without_asking_kilnd)
{
    struct kiln_kernel *kernel;
    start(f, give_inline);
    assert_int_equal(kiln_kernel_fetch(f->client, "abc", 0, &kernel, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "'abc'");
    assert_int_equal(kiln_kernel_fetch(f->client, NULL, 0, &kernel, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch(f->client, f->hex, -1, &kernel, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch(NULL, f->hex, 0, &kernel, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch(f->client, f->hex, 0, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(f->daemon.connections, 0);
}

TEST_F(fetch, an_incomplete_source_is_refused_by_the_missing_member)
{
    struct kiln_kernel *kernel;
    start(f, give_inline);
    struct kiln_kernel_source s = some_source();
    s.target = NULL;
    assert_int_equal(kiln_kernel_fetch_source(f->client, &s, &kernel, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_kernel_source.target");
    s = some_source();
    s.size = 0;
    assert_int_equal(kiln_kernel_fetch_source(f->client, &s, &kernel, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "size");
    s = some_source();
    s.source_size = LIMIT_FRAME_BODY;
    static char text[LIMIT_FRAME_BODY];
    s.source = text;
    assert_int_equal(kiln_kernel_fetch_source(f->client, &s, &kernel, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "limit");
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (uint8_t)(i * 7);
    return test_main(argc, argv);
}

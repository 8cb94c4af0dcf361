/* SPDX-License-Identifier: MIT */

#include "tests/bench/direct_team.h"
#include "tests/bench/floor.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <string.h>

#include <stdio.h>

#define CLIENTS 4u

struct fixture {
    struct kiln_err err;
    struct shared {
        struct bench_gate gate;
        unsigned ran[CLIENTS];
    } * shared;
    const char *directory;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .err = KILN_ERR_INIT, .directory = test_directory() };
    void *memory;
    assert_int_equal(bench_shared(sizeof(*f->shared), &memory, &f->err), KILN_OK);
    f->shared = memory;
    assert_int_equal(bench_gate_init(&f->shared->gate, CLIENTS, &f->err), KILN_OK);
}

TEAR_DOWN(tear_down)
{
    bench_shared_done(f->shared, sizeof(*f->shared));
    assert_int_equal(rmdir(f->directory), 0);
}

FIXTURE(bench, set_up, tear_down);

TEST(bench, the_median_of_an_odd_number_is_the_middle_one)
{
    uint64_t samples[] = { 9, 1, 5 };
    assert_int_equal(bench_percentile(samples, 3, 0.5), 5);
}

TEST(bench, a_percentile_is_a_sample_that_covers_the_fraction)
{
    uint64_t samples[100];
    for (unsigned i = 0; i < 100; i++)
        samples[i] = 100 - i;
    assert_int_equal(bench_percentile(samples, 100, 0.5), 50);
    assert_int_equal(bench_percentile(samples, 100, 0.99), 99);
    assert_int_equal(bench_percentile(samples, 100, 1.0), 100);
}

TEST(bench, one_sample_is_every_percentile)
{
    uint64_t sample = 7;
    assert_int_equal(bench_percentile(&sample, 1, 0.5), 7);
    assert_int_equal(bench_percentile(&sample, 1, 0.99), 7);
}

static enum kiln_code meet_and_mark(void *context, unsigned index, struct kiln_err *err)
{
    (void)err;
    struct shared *s = context;
    bench_gate_pass(&s->gate);
    s->ran[index]++;
    return KILN_OK;
}

TEST_F(bench, every_client_runs_once_and_meets_the_others)
{
    assert_int_equal(bench_fan_out(CLIENTS, meet_and_mark, f->shared, &f->err), KILN_OK);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(f->shared->ran[i], 1);
}

static enum kiln_code fail_before_the_gate(void *context, unsigned index, struct kiln_err *err)
{
    struct shared *s = context;
    if (index == 2)
        return kiln_fail(err, KILN_BUSY, "out of breath");
    /* client 2 never reaches the gate, so this call blocks until this process is killed */
    bench_gate_pass(&s->gate);
    return KILN_OK;
}

TEST_F(bench, a_client_that_fails_ends_those_that_wait_for_it)
{
    enum kiln_code rc = bench_fan_out(CLIENTS, fail_before_the_gate, f->shared, &f->err);
    assert_int_equal(rc, KILN_BUSY);
    assert_string_equal(f->err.text, "client 2: out of breath");
}

static enum kiln_code die_before_the_gate(void *context, unsigned index, struct kiln_err *err)
{
    (void)context;
    (void)index;
    (void)err;
    _exit(3);
}

TEST_F(bench, a_client_that_vanishes_is_an_error)
{
    assert_int_equal(bench_fan_out(1, die_before_the_gate, NULL, &f->err), KILN_IO);
    assert_says(f->err.text, "client 0");
}

TEST_F(bench, too_many_clients_are_refused)
{
    assert_int_equal(bench_fan_out(100000, die_before_the_gate, NULL, &f->err), KILN_INVALID);
}

TEST(bench, an_object_is_the_same_each_time_and_unlike_the_next)
{
    struct content content = { CONTENT_CODE, 1001, 2, 0 };
    uint8_t first[1001], again[1001], next[1001];
    content_make(&content, 0, first);
    content_make(&content, 0, again);
    content_make(&content, 1, next);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, next, sizeof(first));
}

TEST(bench, keys_differ_by_kind_size_and_index)
{
    struct content a = { CONTENT_CODE, 4096, 2, 0 }, b = { CONTENT_POOR, 4096, 2, 0 },
                   c = { CONTENT_CODE, 8192, 2, 0 };
    struct digest keys[] = { content_key(&a, 0), content_key(&a, 1), content_key(&b, 0),
                             content_key(&c, 0) };
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = i + 1; j < 4; j++)
            assert_false(digest_equal(&keys[i], &keys[j]));
    }
}

TEST_F(bench, the_bare_server_sends_as_many_descriptors_as_asked_for)
{
    struct content content = { CONTENT_RANDOM, 100, 3, 0 };
    char path[BENCH_PATH_MAX], epoll_path[BENCH_PATH_MAX];
    snprintf(path, sizeof(path), "%s/floor", f->directory);
    snprintf(epoll_path, sizeof(epoll_path), "%s/epoll", f->directory);
    SERVER_AUTO struct server server = { 0 };
    assert_int_equal(floor_start(&content, path, epoll_path, &server, &f->err), KILN_OK);
    KILN_AUTO(fd) int fd = -1;
    assert_int_equal(floor_connect(path, &fd, &f->err), KILN_OK);
    struct floor_request request = { .mode = FLOOR_DESCRIPTOR, .count = 255 };
    assert_int_equal(floor_ask(fd, &request, &f->err), KILN_OK);

    unsigned total = 0;
    while (total < 255) {
        uint8_t body[FLOOR_REPLY_SIZE];
        struct floor_reply reply = { .body = body, .size = sizeof(body) };
        assert_int_equal(floor_hear(fd, &reply, &f->err), KILN_OK);
        assert_true(reply.fd_count > 0);
        for (unsigned i = 0; i < reply.fd_count; i++)
            close(reply.fds[i]);
        total += reply.fd_count;
    }

    assert_int_equal(total, 255);
    unlink(path);
    unlink(epoll_path);
}

TEST_F(bench, a_compiler_that_is_no_library_makes_no_team)
{
    struct bench_options options = { .quick = true };
    const struct cold cold = { .toolchain = "clang", .target = "gfx90a" };
    const struct direct_team team = { &options, &cold, 2, 3 };
    double wall = -1;
    snprintf(options.work, sizeof(options.work), "%s", f->directory);
    assert_int_equal(direct_team_run(&team, 1, &wall, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, "'clang'");
    assert_true(wall < 0);
}

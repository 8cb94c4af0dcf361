/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <stdio.h>
#include <string.h>

#define ITEMS 500

struct seen {
    unsigned calls;
    unsigned enough; /* number of the callback at which the batch is stopped; 0 means never */
    size_t order[ITEMS];
    int codes[ITEMS];
    struct kiln_kernel *kept[ITEMS];
    struct kiln_error last;
    struct kiln_client *client;
    const char *ask;
};

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    char hex[ITEMS][DIGEST_HEX_SIZE];
    const char *keys[ITEMS];
    struct seen seen;
    unsigned dropped;
};

SET_UP(set_up)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct digest key = fake_key(i + 1);
        digest_to_hex(&key, f->hex[i]);
        f->keys[i] = f->hex[i];
    }
    f->daemon.context = f;
}

TEAR_DOWN(tear_down)
{
    for (size_t i = 0; i < ITEMS; i++)
        kiln_kernel_unref(f->seen.kept[i]);
}

FIXTURE(batch, set_up, tear_down);

static void start(struct fixture *f, void (*handle)(struct fake_request *))
{
    fake_daemon_serve(&f->daemon, handle, f, &f->client);
}

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    struct seen *s = context;
    s->order[s->calls++] = index;
    s->codes[index] = err ? err->code : 0;
    if (err)
        s->last = *err;
    if (kernel)
        s->kept[index] = kiln_kernel_ref(kernel);
    if (s->client && kernel) {
        struct kiln_kernel *again = NULL;
        struct kiln_error e;
        must(kiln_kernel_fetch(s->client, s->ask, 0, &again, &e), e);
        kiln_kernel_unref(again);
    }
    return s->calls == s->enough;
}

static int fetch_keys(struct fixture *f, size_t count, struct seen *seen)
{
    const struct kiln_kernel_batch batch = {
        .size = sizeof(batch), .keys = f->keys, .count = count, .ready = on_ready, .context = seen
    };
    return kiln_kernel_fetch_batch(f->client, &batch, &f->err);
}

static int fetch_sources(struct fixture *f, const struct kiln_kernel_source *sources, size_t count)
{
    const struct kiln_kernel_batch batch = { .size = sizeof(batch),
                                             .sources = sources,
                                             .count = count,
                                             .ready = on_ready,
                                             .context = &f->seen };
    return kiln_kernel_fetch_batch(f->client, &batch, &f->err);
}

static int batch(struct fixture *f, size_t count) { return fetch_keys(f, count, &f->seen); }

static uint32_t read_batch(const struct fake_request *rq, struct digest ret_keys[ITEMS])
{
    struct reader r = reader_of(rq->body);
    struct message_batch m = message_batch_read(&r);
    struct reader items = reader_of(m.items);
    for (uint32_t i = 0; i < m.count; i++) {
        struct message_batch_item item = message_batch_item_read(&items);
        struct reader body = reader_of(item.request);
        ret_keys[i] = message_fetch_read(&body).key;
        assert_false(body.failed);
    }
    assert_false(items.failed);
    assert_true(items.at == items.end);
    return m.count;
}

static void answer_single(struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    struct message_fetch m = message_fetch_read(&r);
    struct fake_results o = { 0 };
    struct message_result result = fake_inline_result(0, &m.key, bytes_of_text("single"));
    fake_result_add(&o, &result);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

/* Answers the odd items first, as memfds in one frame. A second frame then has the even items
 * inline. */
static void answer_out_of_order(struct fake_request *rq)
{
    static struct digest keys[ITEMS];
    if (rq->header.type == MESSAGE_fetch) {
        answer_single(rq);
        return;
    }
    uint32_t count = read_batch(rq, keys);
    struct fake_results o = { 0 };
    int fds[LIMIT_FRAME_DESCRIPTORS];
    size_t fd_count = 0;
    for (uint32_t i = 1; i < count; i += 2) {
        struct message_result m = { .index = i,
                                    .tier = TIER_DISK,
                                    .descriptor = (uint16_t)fd_count,
                                    .key = keys[i],
                                    .size = DIGEST_SIZE };
        fds[fd_count++] = fake_memfd(bytes_of(keys[i].bytes, DIGEST_SIZE), true);
        fake_result_add(&o, &m);
    }
    fake_results_reply(&o, rq, FRAME_MORE, fds, fd_count);
    while (fd_count)
        close(fds[--fd_count]);
    for (uint32_t i = 0; i < count; i += 2) {
        struct message_result m =
            fake_inline_result(i, &keys[i], bytes_of(keys[i].bytes, DIGEST_SIZE));
        fake_result_add(&o, &m);
    }
    fake_results_reply(&o, rq, 0, NULL, 0);
}

/* bytes of a kernel; a batch of such kernels needs more than one struct kernel_block */
#define LARGE 6000

static void fill_large(uint8_t content[LARGE], const struct digest *key)
{
    for (size_t i = 0; i < LARGE; i++)
        content[i] = key->bytes[i % DIGEST_SIZE] + (uint8_t)(i >> 8);
}

static void answer_large(struct fake_request *rq)
{
    static struct digest keys[ITEMS];
    static uint8_t content[LARGE];
    uint32_t count = read_batch(rq, keys);
    struct fake_results o = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        fill_large(content, &keys[i]);
        struct message_result m = fake_inline_result(i, &keys[i], bytes_of(content, LARGE));
        fake_result_add(&o, &m);
        bool last = i + 1 == count;
        if (o.count == 16 || last)
            fake_results_reply(&o, rq, last ? 0 : FRAME_MORE, NULL, 0);
    }
}

static void answer_failures(struct fake_request *rq)
{
    struct digest keys[ITEMS];
    uint32_t count = read_batch(rq, keys);
    struct fake_results o = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        struct message_result m = fake_inline_result(i, &keys[i], bytes_of_text("good"));
        if (i == 1)
            m = (struct message_result){ .index = i, .code = KILN_NOT_FOUND };
        if (i == 2)
            m = (struct message_result){ .index = i,
                                         .code = KILN_COMPILE_FAILED,
                                         .text = bytes_of_text("no"),
                                         .log = bytes_of_text("because") };
        fake_result_add(&o, &m);
    }
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static void die_half_way(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    static struct digest keys[ITEMS];
    uint32_t count = read_batch(rq, keys);
    bool whole = f->dropped++ > 0;
    struct fake_results o = { 0 };
    for (uint32_t i = 0; i < (whole ? count : count / 2); i++) {
        struct message_result m = fake_inline_result(i, &keys[i], bytes_of_text("x"));
        fake_result_add(&o, &m);
    }
    fake_results_reply(&o, rq, whole ? 0 : FRAME_MORE, NULL, 0);
    if (!whole)
        fake_hang_up(rq);
}

static void answer_too_few(struct fake_request *rq)
{
    struct digest keys[ITEMS];
    struct fake_results o = { 0 };
    read_batch(rq, keys);
    struct message_result m = fake_inline_result(0, &keys[0], bytes_of_text("x"));
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, 0, NULL, 0);
}

static void answer_one_twice(struct fake_request *rq)
{
    struct digest keys[ITEMS];
    struct fake_results o = { 0 };
    read_batch(rq, keys);
    struct message_result m = fake_inline_result(0, &keys[0], bytes_of_text("x"));
    fake_result_add(&o, &m);
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, FRAME_MORE, NULL, 0);
}

static void answer_a_stranger(struct fake_request *rq)
{
    struct digest key = fake_key(1);
    struct fake_results o = { 0 };
    struct message_result m = fake_inline_result(70, &key, bytes_of_text("x"));
    fake_result_add(&o, &m);
    fake_results_reply(&o, rq, FRAME_MORE, NULL, 0);
}

static void lie_about_the_count(struct fake_request *rq)
{
    struct message_kernels m = { .count = 4000 };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 100);
    message_kernels_write(&body, &m);
    fake_reply(rq, MESSAGE_kernels, FRAME_MORE, buffer_view(&body));
}

static void refuse_the_whole(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_BUSY, "too much at once", NULL);
}

TEST_F(batch, answers_come_in_the_order_they_are_ready)
{
    start(f, answer_out_of_order);

    must(batch(f, ITEMS), f->err);

    assert_int_equal(f->seen.calls, ITEMS);
    assert_int_equal(f->daemon.requests, 1);
    assert_int_equal(f->seen.order[0], 1);
    assert_int_equal(f->seen.order[ITEMS / 2], 0);
    for (size_t i = 0; i < ITEMS; i++) {
        struct digest key = fake_key((unsigned)i + 1);
        assert_int_equal(kiln_kernel_size(f->seen.kept[i]), DIGEST_SIZE);
        assert_memory_equal(kiln_kernel_data(f->seen.kept[i]), key.bytes, DIGEST_SIZE);
        assert_string_equal(kiln_kernel_key(f->seen.kept[i]), f->hex[i]);
    }
}

TEST_F(batch, many_large_kernels_outlive_their_batch_and_client_one_by_one)
{
    start(f, answer_large);
    must(batch(f, ITEMS), f->err);
    kiln_client_close(KILN_TAKE(f->client));

    assert_int_equal(f->seen.calls, ITEMS);
    for (size_t n = 0; n < ITEMS; n++) {
        size_t i = n * 7 % ITEMS;
        uint8_t expected[LARGE];
        struct digest key = fake_key((unsigned)i + 1);
        fill_large(expected, &key);
        assert_int_equal(kiln_kernel_size(f->seen.kept[i]), LARGE);
        assert_memory_equal(kiln_kernel_data(f->seen.kept[i]), expected, LARGE);
        assert_int_equal((uintptr_t)kiln_kernel_data(f->seen.kept[i]) % 16, 0);
        kiln_kernel_unref(KILN_TAKE(f->seen.kept[i]));
    }
}

TEST_F(batch, kernels_already_known_are_not_requested_again)
{
    start(f, answer_out_of_order);
    must(batch(f, 100), f->err);
    struct seen again = { 0 };

    must(fetch_keys(f, 100, &again), f->err);

    assert_int_equal(f->daemon.requests, 1);
    assert_int_equal(again.calls, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(kiln_kernel_tier(again.kept[i]), KILN_TIER_PROCESS);
        kiln_kernel_unref(again.kept[i]);
    }
}

TEST_F(batch, the_callback_may_ask_the_same_client)
{
    start(f, answer_out_of_order);
    f->seen.client = f->client;
    f->seen.ask = f->hex[ITEMS - 1];
    must(batch(f, 20), f->err);
    assert_int_equal(f->seen.calls, 20);
    assert_int_equal(f->daemon.requests, 2);
}

/* In the first iteration, the daemon answers. In the second, the in-process cache does. */
TEST_F(batch, the_callback_may_stop_the_batch)
{
    start(f, answer_out_of_order);
    for (unsigned turn = 0; turn < 2; turn++) {
        struct seen seen = { .enough = 3 };
        assert_int_equal(fetch_keys(f, 20, &seen), KILN_E_CANCELLED);
        assert_says(f->err.text, "20 kernels");
        assert_int_equal(seen.calls, 3);
        for (size_t i = 0; i < ITEMS; i++)
            kiln_kernel_unref(seen.kept[i]);
        must(batch(f, 20), f->err);
        assert_int_equal(f->seen.calls, 20 * (turn + 1));
        for (size_t i = 0; i < ITEMS; i++)
            kiln_kernel_unref(KILN_TAKE(f->seen.kept[i]));
    }
    f->keys[0] = "nonsense";
    f->seen = (struct seen){ .enough = 1 };
    assert_int_equal(batch(f, 20), KILN_E_CANCELLED);
    assert_int_equal(f->seen.codes[0], KILN_E_INVALID);
    assert_int_equal(f->seen.calls, 1);
}

TEST_F(batch, a_failed_item_does_not_fail_its_batch)
{
    start(f, answer_failures);

    must(batch(f, 4), f->err);

    assert_int_equal(f->seen.calls, 4);
    assert_non_null(f->seen.kept[0]);
    assert_int_equal(f->seen.codes[1], KILN_E_NOT_FOUND);
    assert_int_equal(f->seen.codes[2], KILN_E_COMPILE_FAILED);
    assert_string_equal(f->seen.last.text, "no");
    assert_string_equal(f->seen.last.log, "because");
    assert_non_null(f->seen.kept[3]);
}

TEST_F(batch, a_bad_key_fails_alone_and_is_never_sent)
{
    start(f, answer_out_of_order);
    f->keys[1] = "nonsense";
    must(batch(f, 3), f->err);
    assert_int_equal(f->seen.calls, 3);
    assert_int_equal(f->seen.codes[1], KILN_E_INVALID);
    assert_non_null(f->seen.kept[0]);
    assert_non_null(f->seen.kept[2]);
}

TEST_F(batch, each_item_is_reported_once_though_the_connection_dies_half_way)
{
    start(f, die_half_way);

    must(batch(f, ITEMS), f->err);

    assert_int_equal(f->seen.calls, ITEMS);
    assert_int_equal(f->daemon.requests, 2);
    for (size_t i = 0; i < ITEMS; i++)
        assert_non_null(f->seen.kept[i]);
}

TEST_F(batch, a_damaged_answer_ends_the_batch)
{
    void (*const handlers[])(struct fake_request *) = { answer_too_few, answer_one_twice,
                                                        answer_a_stranger, lie_about_the_count };
    start(f, answer_too_few);
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        struct seen seen = { 0 };
        fake_daemon_kill(&f->daemon);
        f->daemon.handle = handlers[i];
        fake_daemon_start(&f->daemon);
        kiln_client_close(f->client);
        f->client = fake_client(&f->daemon);

        assert_int_equal(fetch_keys(f, 3, &seen), KILN_E_CORRUPT);
        assert_true(seen.calls <= 1);
        kiln_kernel_unref(seen.kept[0]);
    }
}

TEST_F(batch, a_refusal_of_the_whole_batch_is_returned)
{
    start(f, refuse_the_whole);
    assert_int_equal(batch(f, 3), KILN_E_BUSY);
    assert_string_equal(f->err.text, "too much at once");
    assert_int_equal(f->seen.calls, 0);
}

static void keep_silent(struct fake_request *rq) { (void)rq; }

TEST_F(batch, a_batch_that_is_not_answered_times_out)
{
    start(f, keep_silent);
    const struct kiln_kernel_batch batch = { .size = sizeof(batch),
                                             .keys = f->keys,
                                             .count = 3,
                                             .ready = on_ready,
                                             .context = &f->seen,
                                             .timeout_ms = 40 };
    assert_int_equal(kiln_kernel_fetch_batch(f->client, &batch, &f->err), KILN_E_TIMED_OUT);
}

TEST_F(batch, an_empty_batch_asks_nothing)
{
    start(f, keep_silent);
    must(batch(f, 0), f->err);
    assert_int_equal(f->daemon.connections, 0);
}

/* Answers every item of a batch. With sources of a megabyte, one batch comes in several
 * messages. */
static void answer_any_source(struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    struct message_batch m = message_batch_read(&r);
    struct fake_results o = { 0 };
    struct reader items = reader_of(m.items);
    for (uint32_t i = 0; i < m.count; i++) {
        struct message_batch_item item = message_batch_item_read(&items);
        assert_int_equal(item.kind, 1);
        struct digest key = fake_key((unsigned)(rq->header.request_id * 1000 + i));
        struct message_result result = fake_inline_result(i, &key, bytes_of_text("x"));
        fake_result_add(&o, &result);
    }
    fake_results_reply(&o, rq, 0, NULL, 0);
}

TEST_F(batch, large_sources_are_spread_over_messages)
{
    enum { COUNT = 20 };
    static char text[9 << 20];
    memset(text, 'x', sizeof(text));
    struct kiln_kernel_source sources[COUNT];
    char names[COUNT][16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof(names[i]), "%d.cpp", i);
        sources[i] = (struct kiln_kernel_source){ .size = sizeof(sources[i]),
                                                  .target = "gfx90a",
                                                  .program = names[i],
                                                  .source = text,
                                                  .source_size = 1 << 20 };
    }
    sources[3].source_size = 9 << 20; /* larger than any message, so only this item fails */
    sources[4].target = NULL;
    start(f, answer_any_source);

    must(fetch_sources(f, sources, COUNT), f->err);

    assert_int_equal(f->seen.calls, COUNT);
    assert_int_equal(f->seen.codes[3], KILN_E_INVALID);
    assert_int_equal(f->seen.codes[4], KILN_E_INVALID);
    assert_true(f->daemon.requests > 4);
    for (int i = 5; i < COUNT; i++)
        assert_non_null(f->seen.kept[i]);
}

TEST_F(batch, sources_of_a_newer_program_may_have_more_members)
{
    struct {
        struct kiln_kernel_source known;
        char later[24];
    } sources[3];
    memset(sources, 'x', sizeof(sources));
    for (int i = 0; i < 3; i++)
        sources[i].known = (struct kiln_kernel_source){
            .size = sizeof(sources[i]), .target = "gfx90a", .program = "x.cpp", .source = "x"
        };
    start(f, answer_any_source);

    must(fetch_sources(f, &sources[0].known, 3), f->err);

    assert_int_equal(f->seen.calls, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(f->seen.codes[i], 0);
}

TEST_F(batch, a_call_with_missing_or_conflicting_members_is_refused)
{
    start(f, keep_silent);
    const struct kiln_kernel_batch good = {
        .size = sizeof(good), .keys = f->keys, .count = 1, .ready = on_ready, .context = &f->seen
    };
    const struct kiln_kernel_source source = { .size = sizeof(source) };
    struct kiln_kernel_batch bad[5] = { good, good, good, good, good };
    bad[0].size = 0;
    bad[1].ready = NULL;
    bad[2].keys = NULL;
    bad[3].sources = &source;
    bad[4].timeout_ms = -1;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(kiln_kernel_fetch_batch(f->client, &bad[i], &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_fetch_batch(f->client, NULL, &f->err), KILN_E_INVALID);
    assert_int_equal(f->daemon.requests, 0);
}

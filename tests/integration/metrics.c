/* SPDX-License-Identifier: MIT */
/* Clients count their requests and answers, and kilnd's metrics must agree exactly.
 *
 * Usage: test_integration_metrics [RATE [SECONDS [CLIENTS]]]   (default: 1000 a second, 2 s, 4)
 *
 * RATE is for all clients together. The test reads the metrics twice a second. In the middle of
 * each second, no metric may decrease, and each must be between the counts of sent and of
 * answered requests. At the end of each second the clients pause, and each metric must be exact. */
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"
#include "tests/support/wait.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 64
/* number of ticks per second; at each tick, a client sends its requests without pauses */
#define TICKS 100
#define TICK_NS (1000000000 / TICKS)
#define BATCH 3
#define TARGET "gfx90a"
#define SOURCE "extern \"C\" __attribute__((global)) void k(float *y) { *y = 1.0f; }\n"

static struct {
    unsigned rate, seconds, clients;
} plan = { .rate = 1000, .seconds = 2, .clients = 4 };

enum request_kind { FETCH_HOT, FETCH_UNKNOWN, PING, BATCH_HOT, SHOW_INVALID, REQUEST_KINDS };

struct expected_increment {
    const char *series;
    unsigned kernels;
};

static const struct expected_increment expected_increments[REQUEST_KINDS][3] = {
    [FETCH_HOT] = { { "kiln_requests_total{op=\"fetch\",result=\"ok\"}", 1 },
                    { "kiln_fetch_results_total{result=\"hot\"}", 1 },
                    { "kiln_lookup_duration_seconds_count{tier=\"hot\"}", 1 } },
    [FETCH_UNKNOWN] = { { "kiln_requests_total{op=\"fetch\",result=\"ok\"}", 1 },
                        { "kiln_misses_total{reason=\"unknown\"}", 1 },
                        { "kiln_lookup_duration_seconds_count{tier=\"none\"}", 1 } },
    [PING] = { { "kiln_requests_total{op=\"ping\",result=\"ok\"}", 1 } },
    [BATCH_HOT] = { { "kiln_requests_total{op=\"batch\",result=\"ok\"}", 1 },
                    { "kiln_fetch_results_total{result=\"hot\"}", BATCH },
                    { "kiln_lookup_duration_seconds_count{tier=\"hot\"}", BATCH } },
    [SHOW_INVALID] = { { "kiln_requests_total{op=\"kernel_show\",result=\"invalid\"}", 1 } },
};

struct client {
    pthread_t thread;
    int fd;
    uint64_t next_id;
    atomic_ullong sent[REQUEST_KINDS], answered[REQUEST_KINDS];
    const char *failure;
    uint8_t reply[1u << 16];
};

struct load {
    struct daemon_process daemon;
    struct client clients[CLIENTS_MAX];
    int scraper;
    pthread_barrier_t pause; /* all clients and the scraper wait for each other here */
    struct digest key;
    uint64_t saved_us; /* compile time that each hit saves */
    struct timespec start;
};

static bool read_all(int fd, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t got = read(fd, at, size); /* read(2) discards descriptors that come with the data */
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = write(fd, at, size);
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

static bool send_frame(struct client *c, enum message_type type, struct bytes body)
{
    struct frame_header h = { .version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .request_id = ++c->next_id,
                              .body_size = (uint32_t)body.size };
    uint8_t raw[FRAME_HEADER_SIZE + 1024];
    frame_header_write(raw, &h);
    if (body.size > sizeof(raw) - FRAME_HEADER_SIZE)
        return false;
    if (body.size)
        memcpy(raw + FRAME_HEADER_SIZE, body.data, body.size);
    return write_all(c->fd, raw, FRAME_HEADER_SIZE + body.size);
}

/* Returns the type of the answer's last frame, whose body is then in |c->reply|, or 0 without an
 * answer. */
static unsigned receive_reply(struct client *c, size_t *ret_size)
{
    struct frame_header h;
    struct kiln_err err = KILN_ERR_INIT;
    do {
        uint8_t raw[FRAME_HEADER_SIZE];
        if (!read_all(c->fd, raw, sizeof(raw)) || frame_header_read(raw, &h, &err) ||
            h.body_size > sizeof(c->reply) || !read_all(c->fd, c->reply, h.body_size))
            return 0;
    } while (h.flags & FRAME_MORE);
    *ret_size = h.body_size;
    return h.type;
}

static void write_request(const struct load *load, enum request_kind what, struct buffer *body)
{
    struct message_fetch fetch = { .key = load->key };
    if (what == FETCH_UNKNOWN)
        memset(&fetch.key, 0xee, sizeof(fetch.key));
    if (what == FETCH_HOT || what == FETCH_UNKNOWN)
        message_fetch_write(body, &fetch);
    if (what == PING)
        message_ping_write(body, &(struct message_ping){ .payload = bytes_of_text("?") });
    if (what == SHOW_INVALID)
        buffer_put(body, "{\"key\":\"no key\"}", strlen("{\"key\":\"no key\"}"));
    if (what != BATCH_HOT)
        return;
    BUFFER_AUTO struct buffer one, items;
    buffer_init(&one, 100);
    buffer_init(&items, 1000);
    message_fetch_write(&one, &fetch);
    for (unsigned i = 0; i < BATCH; i++)
        message_batch_item_write(&items,
                                 &(struct message_batch_item){ .request = buffer_view(&one) });
    message_batch_write(body,
                        &(struct message_batch){ .count = BATCH, .items = buffer_view(&items) });
}

static bool is_expected(enum request_kind what, unsigned type, const uint8_t *body, size_t size)
{
    struct reader r = reader_of(bytes_of(body, size));
    if (what == PING)
        return type == MESSAGE_pong;
    if (what == SHOW_INVALID)
        return type == MESSAGE_error && message_error_read(&r).code == KILN_INVALID;
    if (type != MESSAGE_kernels)
        return false;
    struct message_kernels m = message_kernels_read(&r);
    struct reader list = reader_of(m.results);
    for (uint32_t i = 0; i < m.count; i++) {
        struct message_result o = message_result_read(&list);
        bool found = o.code == KILN_OK && o.tier == TIER_HOT;
        if (what == FETCH_UNKNOWN ? o.code != KILN_NOT_FOUND : !found)
            return false;
    }
    return m.count == (what == BATCH_HOT ? BATCH : 1);
}

static void ask_one(const struct load *load, struct client *c, enum request_kind what)
{
    static const enum message_type types[REQUEST_KINDS] = { MESSAGE_fetch, MESSAGE_fetch,
                                                            MESSAGE_ping, MESSAGE_batch,
                                                            MESSAGE_kernel_show };
    static const char *const failures[REQUEST_KINDS] = { "was not given what is hot",
                                                         "was given what nobody has", "got no pong",
                                                         "was not given a batch of what is hot",
                                                         "was shown a kernel that has no key" };
    size_t size = 0;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1024);
    write_request(load, what, &body);
    atomic_fetch_add(&c->sent[what], 1);
    if (!send_frame(c, types[what], buffer_view(&body))) {
        c->failure = "cannot send";
        return;
    }
    unsigned type = receive_reply(c, &size);
    if (!is_expected(what, type, c->reply, size))
        c->failure = failures[what];
    else
        atomic_fetch_add(&c->answered[what], 1);
}

static enum request_kind what_next(uint64_t number)
{
    static const enum request_kind mix[] = { FETCH_HOT,     FETCH_HOT, PING,      FETCH_HOT,
                                             FETCH_UNKNOWN, FETCH_HOT, BATCH_HOT, FETCH_HOT,
                                             SHOW_INVALID,  FETCH_HOT };
    return mix[number % (sizeof(mix) / sizeof(mix[0]))];
}

static void sleep_until(const struct load *load, uint64_t tick)
{
    struct timespec at = load->start;
    uint64_t ns = (uint64_t)at.tv_nsec + tick * TICK_NS;
    at.tv_sec += (time_t)(ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

struct worker {
    struct load *load;
    struct client *client;
    unsigned index;
};

/* Returns how many requests client |index| must have sent by the end of |tick|. */
static uint64_t share_of(unsigned index, uint64_t tick)
{
    uint64_t all = tick * plan.rate / TICKS;
    return (all + plan.clients - 1 - index) / plan.clients;
}

static void *run_client(void *context)
{
    const struct worker *w = context;
    uint64_t done = 0;
    for (uint64_t tick = 0; tick < (uint64_t)plan.seconds * TICKS; tick++) {
        sleep_until(w->load, tick);
        for (; done < share_of(w->index, tick + 1) && !w->client->failure; done++)
            ask_one(w->load, w->client, what_next(done));
        if ((tick + 1) % TICKS == 0) {
            pthread_barrier_wait(&w->load->pause);
            pthread_barrier_wait(&w->load->pause);
        }
    }
    return NULL;
}

static bool only_grows(const char *name)
{
    return strstr(name, "_total") || strstr(name, "_bucket{") || strstr(name, "_count") ||
           strstr(name, "_sum");
}

static void assert_none_went_back(const struct metrics_page *before, const struct metrics_page *now)
{
    for (size_t i = 0; i < before->count; i++) {
        const char *name = before->names[i];
        if (only_grows(name) &&
            strtod(metrics_page_number(now, name), NULL) < strtod(before->numbers[i], NULL))
            fail_msg("'%s' went from %s to %s", name, before->numbers[i],
                     metrics_page_number(now, name));
    }
}

struct sums {
    uint64_t sent[REQUEST_KINDS], answered[REQUEST_KINDS];
};

static struct sums add_up(struct load *load)
{
    struct sums sums = { { 0 }, { 0 } };
    for (unsigned i = 0; i < plan.clients; i++) {
        for (unsigned what = 0; what < REQUEST_KINDS; what++) {
            sums.sent[what] += atomic_load(&load->clients[i].sent[what]);
            sums.answered[what] += atomic_load(&load->clients[i].answered[what]);
        }
    }
    return sums;
}

static uint64_t expected_of(const char *series, const uint64_t counts[REQUEST_KINDS])
{
    uint64_t sum = 0;
    for (unsigned what = 0; what < REQUEST_KINDS; what++) {
        for (size_t i = 0; i < 3 && expected_increments[what][i].series; i++) {
            if (strcmp(expected_increments[what][i].series, series) == 0)
                sum += counts[what] * expected_increments[what][i].kernels;
        }
    }
    return sum;
}

static void each_series(void (*use)(const char *series, void *context), void *context)
{
    for (unsigned what = 0; what < REQUEST_KINDS; what++) {
        for (size_t i = 0; i < 3 && expected_increments[what][i].series; i++)
            use(expected_increments[what][i].series, context);
    }
}

struct comparison {
    const struct metrics_page *first, *now;
    const uint64_t *least, *most;
};

static void compare_metrics(const char *series, void *context)
{
    const struct comparison *c = context;
    uint64_t grown = metrics_page_count(c->now, series) - metrics_page_count(c->first, series);
    uint64_t least = expected_of(series, c->least), most = expected_of(series, c->most);
    if (grown < least || grown > most)
        fail_msg("'%s' grew by %" PRIu64 ", the clients counted %" PRIu64 " to %" PRIu64, series,
                 grown, least, most);
}

static uint64_t micros_of(const char *seconds)
{
    char *end = NULL;
    uint64_t micros = strtoull(seconds, &end, 10) * 1000000;
    uint64_t scale = 100000;
    for (end += *end == '.'; *end; end++, scale /= 10)
        micros += (uint64_t)(*end - '0') * scale;
    return micros;
}

/* Each hit saves its kernel's compile time. A kernel that a batch names several times counts as
 * one hit. */
static void compare_saved(const struct load *load, const struct comparison *c)
{
    static const char saved[] = "kiln_saved_compile_seconds_total";
    uint64_t grown = micros_of(metrics_page_number(c->now, saved)) -
                     micros_of(metrics_page_number(c->first, saved));
    uint64_t hits = c->most[FETCH_HOT] + c->most[BATCH_HOT];
    assert_int_equal(grown, hits * load->saved_us);
}

static void make_hot(struct load *load)
{
    static struct raw_frame frame;
    raw_send_source(load->scraper, 1, TARGET, "", bytes_of_text(SOURCE));
    assert_true(raw_receive(load->scraper, &frame));
    raw_close_descriptors(&frame);
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    struct message_kernels m = message_kernels_read(&r);
    struct reader list = reader_of(m.results);
    struct message_result o = message_result_read(&list);
    assert_int_equal(o.code, KILN_OK);
    load->key = o.key;
    load->saved_us = o.spent_ns / 1000;
}

static void check_clients(const struct load *load)
{
    for (unsigned i = 0; i < plan.clients; i++) {
        if (load->clients[i].failure)
            fail_msg("client %u %s", i, load->clients[i].failure);
    }
}

static void one_second(struct load *load, unsigned second, const struct metrics_page *first,
                       struct metrics_page *before)
{
    static struct metrics_page now;
    sleep_until(load, (uint64_t)second * TICKS + TICKS / 2);
    struct sums least = add_up(load);
    metrics_page_read(load->scraper, &now);
    struct sums most = add_up(load);
    assert_none_went_back(before, &now);
    struct comparison c = { first, &now, least.answered, most.sent };
    each_series(compare_metrics, &c);
    *before = now;

    IN_TIME(pthread_barrier_wait(&load->pause));
    metrics_page_read(load->scraper, &now);
    struct sums exact = add_up(load);
    IN_TIME(pthread_barrier_wait(&load->pause));
    check_clients(load);
    assert_none_went_back(before, &now);
    c = (struct comparison){ first, &now, exact.answered, exact.answered };
    each_series(compare_metrics, &c);
    compare_saved(load, &c);
    *before = now;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void print_report(struct load *load)
{
    struct sums sums = add_up(load);
    uint64_t requests = 0;
    for (unsigned what = 0; what < REQUEST_KINDS; what++)
        requests += sums.answered[what];
    double took = seconds_since(&load->start);
    print_message("%" PRIu64 " requests of %u clients in %.2f s: %.0f a second; %u scrapes, "
                  "%u of them exact\n",
                  requests, plan.clients, took, (double)requests / took, 2 * plan.seconds,
                  plan.seconds);
}

SET_UP_OF(set_up, struct load) { raw_serve(&f->daemon, NULL, &f->scraper); }

FIXTURE_OF(metrics, struct load, set_up, NULL);

TEST_F(metrics, metrics_agree_with_the_counts_of_clients)
{
    static struct metrics_page first, before;
    static struct worker workers[CLIENTS_MAX];
    make_hot(f);
    for (unsigned i = 0; i < plan.clients; i++)
        f->clients[i].fd = raw_greeted(&f->daemon);
    metrics_page_read(f->scraper, &first);
    before = first;
    pthread_barrier_init(&f->pause, NULL, plan.clients + 1);
    clock_gettime(CLOCK_MONOTONIC, &f->start);
    for (unsigned i = 0; i < plan.clients; i++) {
        workers[i] = (struct worker){ f, &f->clients[i], i };
        pthread_create(&f->clients[i].thread, NULL, run_client, &workers[i]);
    }
    for (unsigned second = 0; second < plan.seconds; second++)
        one_second(f, second, &first, &before);
    for (unsigned i = 0; i < plan.clients; i++)
        await_thread(f->clients[i].thread, NULL);
    print_report(f);
    for (unsigned i = 0; i < plan.clients; i++)
        close(f->clients[i].fd);
    pthread_barrier_destroy(&f->pause);
}

static unsigned number_argument(int argc, char **argv, int index, unsigned otherwise)
{
    unsigned long value = index < argc ? strtoul(argv[index], NULL, 10) : otherwise;
    return value > 0 && value < 1000000 ? (unsigned)value : otherwise;
}

int main(int argc, char **argv)
{
    plan.rate = number_argument(argc, argv, 1, plan.rate);
    plan.seconds = number_argument(argc, argv, 2, plan.seconds);
    plan.clients = number_argument(argc, argv, 3, plan.clients);
    if (plan.clients > CLIENTS_MAX)
        plan.clients = CLIENTS_MAX;
    return test_run(NULL);
}

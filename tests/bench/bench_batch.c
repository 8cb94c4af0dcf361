/* SPDX-License-Identifier: MIT */

/* Measures how long a client takes to fetch a batch of 500 stored kernels, and to map and touch
 * each one. For comparison, measures a server that sends as many descriptors without any
 * look-up. */
#include "tests/bench/floor.h"

#include <kiln/kernel.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ITEMS 500u
#define ROUNDS 21 /* including the first, which only warms up */

struct batch {
    struct content content;
    char floor_socket[BENCH_PATH_MAX], epoll_socket[BENCH_PATH_MAX];
    struct server floor, kiln;
    char (*keys)[DIGEST_HEX_SIZE];
    bool one_cpu;
};

struct timing {
    uint64_t one, all;
};

struct mappings {
    const struct content *content;
    void *at[ITEMS];
    size_t count;
};

static void mappings_done(struct mappings *m)
{
    for (size_t i = 0; i < m->count; i++)
        munmap(m->at[i], m->content->size);
}

static enum kiln_code map_all(const struct floor_reply *reply, struct mappings *m,
                              struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < reply->fd_count; i++) {
        void *at = mmap(NULL, m->content->size, PROT_READ, MAP_SHARED, reply->fds[i], 0);
        close(reply->fds[i]);
        if (at == MAP_FAILED || m->count == ITEMS) {
            rc = kiln_fail_errno(err, errno, "cannot map an object");
            continue;
        }
        m->at[m->count++] = at;
        (void)content_touch(m->content, at);
    }
    return rc;
}

static enum kiln_code floor_get(int fd, const struct content *content, uint32_t count,
                                uint64_t *ret_ns, struct kiln_err *err)
{
    uint8_t body[FLOOR_REPLY_SIZE];
    struct floor_request request = { .mode = FLOOR_DESCRIPTOR, .count = count };
    __attribute__((cleanup(mappings_done))) struct mappings m = { .content = content };
    uint64_t from = clock_monotonic_ns();
    enum kiln_code rc = floor_ask(fd, &request, err);
    while (!rc && m.count < count) {
        struct floor_reply reply = { .body = body, .size = sizeof(body) };
        rc = floor_hear(fd, &reply, err);
        if (!rc)
            rc = map_all(&reply, &m, err);
    }
    *ret_ns = clock_monotonic_ns() - from;
    return rc;
}

static enum kiln_code time_floor(const struct batch *b, struct timing *timing, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = floor_connect(b->floor_socket, &fd, err);
    if (!rc)
        rc = floor_get(fd, &b->content, 1, &timing->one, err);
    return rc ? rc : floor_get(fd, &b->content, ITEMS, &timing->all, err);
}

struct answers {
    const struct content *content;
    size_t count, wrong;
};

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    (void)index;
    (void)err;
    struct answers *a = context;
    a->count++;
    if (!kernel || kiln_kernel_size(kernel) != a->content->size) {
        a->wrong++;
        return 0;
    }
    (void)content_touch(a->content, kiln_kernel_data(kernel));
    return 0;
}

static int fetch_batch(struct kiln_client *client, char (*hex)[DIGEST_HEX_SIZE], size_t count,
                       struct answers *a, struct kiln_error *error)
{
    const char *keys[ITEMS];
    for (size_t i = 0; i < count; i++)
        keys[i] = hex[i];
    const struct kiln_kernel_batch batch = { .size = sizeof(batch),
                                             .keys = keys,
                                             .count = count,
                                             .ready = on_ready,
                                             .context = a,
                                             .timeout_ms = 30000 };
    return kiln_kernel_fetch_batch(client, &batch, error);
}

static int fetch_both(struct kiln_client *client, const struct batch *b, struct timing *timing,
                      struct answers *a, struct kiln_error *error)
{
    int rc = kiln_client_ping(client, 30000, NULL, error);
    uint64_t start_servers = clock_monotonic_ns();
    if (!rc)
        /* fetches a single key, which is not in the batch */
        rc = fetch_batch(client, b->keys + ITEMS, 1, a, error);
    uint64_t middle = clock_monotonic_ns();
    if (!rc)
        rc = fetch_batch(client, b->keys, ITEMS, a, error);
    timing->one = middle - start_servers;
    timing->all = clock_monotonic_ns() - middle;
    return rc;
}

static enum kiln_code time_kiln(const struct batch *b, struct timing *timing, struct kiln_err *err)
{
    struct kiln_client_options options = { .size = sizeof(options), .socket_path = b->kiln.socket };
    struct kiln_error error = { 0 };
    struct kiln_client *client;
    if (kiln_client_open(&options, &client, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "kiln: %s", error.text);
    struct answers a = { .content = &b->content };
    int rc = fetch_both(client, b, timing, &a, &error);
    kiln_client_close(client);
    if (rc)
        return kiln_fail(err, (enum kiln_code)rc, "kiln: %s", error.text);
    if (a.count != ITEMS + 1 || a.wrong)
        return kiln_fail(err, KILN_CORRUPT, "a batch of %u brought %zu answers, %zu of them wrong",
                         ITEMS, a.count - 1, a.wrong);
    return KILN_OK;
}

static const struct way {
    const char *name;
    enum kiln_code (*timing)(const struct batch *b, struct timing *timing, struct kiln_err *err);
} ways[] = { { "descriptor", time_floor }, { "kiln", time_kiln } };

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static enum kiln_code report_way(const struct batch *b, size_t way, struct timing timings[][WAYS],
                                 struct kiln_err *err)
{
    struct json *each = json_array(), *one = json_array(), *all = json_array();
    for (size_t i = 1; i < ROUNDS; i++) {
        const struct timing *t = &timings[i][way];
        double rest = (double)t->all - (double)t->one;
        json_append(each, json_number(rest / 1e3 / (ITEMS - 1)));
        json_append(one, json_number((double)t->one / 1e3));
        json_append(all, json_number((double)t->all / 1e3));
    }
    struct json *result = bench_result("batch");
    json_set_text(result, "way", ways[way].name);
    json_set_u64(result, "size", b->content.size);
    json_set_u64(result, "items", ITEMS);
    json_set_bool(result, "one_cpu", b->one_cpu);
    json_set(result, "each_us", each);
    json_set(result, "one_us", one);
    json_set(result, "all_us", all);
    return bench_print(result, err);
}

static enum kiln_code run_rounds(const struct batch *b, struct kiln_err *err)
{
    struct timing timings[ROUNDS][WAYS];
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < ROUNDS * WAYS && !rc; i++)
        rc = ways[i % WAYS].timing(b, &timings[i / WAYS][i % WAYS], err);
    for (size_t way = 0; way < WAYS && !rc; way++)
        rc = report_way(b, way, timings, err);
    return rc;
}

static void batch_done(struct batch *b)
{
    server_stop(&b->floor);
    server_stop(&b->kiln);
    free(b->keys);
}

static enum kiln_code make_keys(struct batch *b, struct kiln_err *err)
{
    b->keys = calloc(b->content.count, sizeof(*b->keys));
    if (!b->keys)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot hold %zu keys", b->content.count);
    for (size_t i = 0; i < b->content.count; i++) {
        struct digest key = content_key(&b->content, i);
        digest_to_hex(&key, b->keys[i]);
    }
    return KILN_OK;
}

static enum kiln_code start_servers(const struct bench_options *o, struct batch *b,
                                    struct kiln_err *err)
{
    struct kilnd_options options = { .name = "batch" };
    char directory[BENCH_PATH_MAX];
    enum kiln_code rc = make_keys(b, err);
    if (!rc)
        rc = bench_path(o->work, "floor", b->floor_socket, err);
    if (!rc)
        rc = bench_path(o->work, "epoll", b->epoll_socket, err);
    if (!rc)
        rc = floor_start(&b->content, b->floor_socket, b->epoll_socket, &b->floor, err);
    if (!rc)
        rc = kilnd_cache_directory(o, options.name, directory, err);
    if (!rc)
        rc = content_store(&b->content, directory, err);
    return rc ? rc : kilnd_start(o, &options, &b->kiln, err);
}

/* Pins this process and the servers to one CPU. They cannot be unpinned, so all measurements
 * without pinning must come first. */
static enum kiln_code pin_all(const struct bench_options *o, struct batch *b, struct kiln_err *err)
{
    b->one_cpu = true;
    enum kiln_code rc = bench_pin(0, o->last_cpu, err);
    if (!rc)
        rc = server_pin(&b->floor, o->last_cpu, err);
    return rc ? rc : server_pin(&b->kiln, o->last_cpu, err);
}

static enum kiln_code run_size(const struct bench_options *o, enum content_kind kind, size_t size,
                               struct kiln_err *err)
{
    bench_say("batch: %u kernels of %zu bytes", ITEMS, size);
    __attribute__((cleanup(batch_done))) struct batch b = { .content = { kind, size, ITEMS + 1,
                                                                         0 } };
    enum kiln_code rc = start_servers(o, &b, err);
    if (!rc)
        rc = run_rounds(&b, err);
    if (!rc)
        rc = pin_all(o, &b, err);
    return rc ? rc : run_rounds(&b, err);
}

struct job {
    const struct bench_options *options;
    enum content_kind kind;
    size_t size;
};

static enum kiln_code in_child(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    const struct job *job = context;
    return run_size(job->options, job->kind, job->size, err);
}

/* Each size gets its own process, because a process cannot be unpinned. */
static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    struct job small = { o, CONTENT_RANDOM, 4096 }, mean = { o, CONTENT_CODE, 20480 };
    enum kiln_code rc = bench_fan_out(1, in_child, &small, err);
    return rc ? rc : bench_fan_out(1, in_child, &mean, err);
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_batch", run_bench); }

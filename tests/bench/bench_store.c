/* SPDX-License-Identifier: MIT */

/* Measures the kernel store without kilnd: look-ups with few and with many stored kernels, alone
 * and while another thread stores kernels, below the store's limit and at the limit. */
#include "tests/bench/bench.h"
#include "tests/bench/content.h"

#include "engine/store/kernel_store.h"

#include <stdatomic.h>
#include <string.h>

#define ROUNDS_MAX 8u
#define LOOKUPS 10000u
/* distance between the indices of successive look-ups; a prime that does not divide the number of
 * kernels, so that look-ups visit all kernels */
#define STRIDE 7919u
#define KEPT 500u /* number of kernels that are looked up while others are stored and evicted */
#define TIGHT (64ull << 20)
#define ROOMY (64ull << 30)

struct subject {
    const char *way;
    struct content kept;
    /* the kernels that another thread stores during the look-ups; may be empty */
    struct content added;
    uint64_t limit;
    struct kernel_store *store;
    size_t next;
    uint64_t stored, evicted;
    double p50_us[ROUNDS_MAX], p99_us[ROUNDS_MAX];
};

static enum kiln_code open_store(const struct bench_options *o, struct subject *s,
                                 struct kiln_err *err)
{
    char directory[BENCH_PATH_MAX], notice[512];
    enum kiln_code rc = bench_path(o->work, s->way, directory, err);
    if (!rc)
        rc = content_store(&s->kept, directory, err);
    struct kernel_store_options options = { .directory = directory,
                                            .limit_bytes = s->limit,
                                            .readers = 2 };
    return rc ? rc : kernel_store_open(&options, &s->store, notice, err);
}

static enum kiln_code add_one(struct subject *s, uint8_t *bytes, struct kiln_err *err)
{
    struct object *object = NULL;
    uint64_t evicted = 0;
    content_make(&s->added, s->next, bytes);
    enum kiln_code rc = object_from_bytes(bytes_of(bytes, s->added.size), 1000000, &object, err);
    if (rc)
        return rc;
    struct kernel_record record = { .key = content_key(&s->added, s->next),
                                    .target = "gfx90a",
                                    .toolchain = "bench",
                                    .program = "bench.cl",
                                    .options = "-DBENCH=1" };
    rc = kernel_store_put(s->store, &record, object, &evicted, err);
    object_unref(object);
    s->next++;
    s->stored++;
    s->evicted += evicted;
    return rc;
}

struct writer {
    struct subject *subject;
    atomic_bool stop;
    pthread_t thread;
    enum kiln_code rc;
    struct kiln_err err;
};

static void *write_on(void *context)
{
    struct writer *w = context;
    KILN_AUTO(mem) uint8_t *bytes = malloc(w->subject->added.size);
    w->rc = bytes ? KILN_OK : kiln_fail(&w->err, KILN_NO_MEMORY, "out of memory");
    while (!w->rc && !atomic_load(&w->stop))
        w->rc = add_one(w->subject, bytes, &w->err);
    return NULL;
}

static enum kiln_code writer_start(struct writer *w, struct subject *s, struct kiln_err *err)
{
    *w = (struct writer){ .subject = s, .err = KILN_ERR_INIT };
    if (s->added.size && pthread_create(&w->thread, NULL, write_on, w))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot start a thread");
    return KILN_OK;
}

static enum kiln_code writer_stop(struct writer *w, struct kiln_err *err)
{
    if (!w->subject->added.size)
        return KILN_OK;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    if (w->rc)
        *err = w->err;
    return w->rc;
}

static enum kiln_code look_up(struct subject *s, size_t index, struct kiln_err *err)
{
    struct digest key = content_key(&s->kept, index);
    struct object *object = NULL;
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(s->store, &key, &object, &damaged, err);
    object_unref(object);
    return rc == KILN_NOT_FOUND ? kiln_fail(err, rc, "kernel %zu is not there", index) : rc;
}

static enum kiln_code time_lookups(struct subject *s, unsigned round, struct kiln_err *err)
{
    static uint64_t samples[LOOKUPS];
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < LOOKUPS && !rc; i++) {
        size_t index = (round * LOOKUPS + i) * STRIDE % s->kept.count;
        uint64_t from = clock_monotonic_ns();
        rc = look_up(s, index, err);
        samples[i] = clock_monotonic_ns() - from;
    }
    s->p50_us[round] = (double)bench_percentile(samples, LOOKUPS, 0.5) / 1e3;
    s->p99_us[round] = (double)bench_percentile(samples, LOOKUPS, 0.99) / 1e3;
    return rc;
}

static enum kiln_code time_round(struct subject *s, unsigned round, struct kiln_err *err)
{
    struct writer w;
    enum kiln_code rc = writer_start(&w, s, err);
    if (rc)
        return rc;
    rc = time_lookups(s, round, err);
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code written = writer_stop(&w, &why);
    if (!rc && written)
        *err = why;
    return rc ? rc : written;
}

/* Stores kernels until the first eviction, so that every round evicts. */
static enum kiln_code fill_to_the_limit(struct subject *s, struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *bytes = malloc(s->added.size);
    enum kiln_code rc = bytes ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    while (!rc && s->evicted == 0)
        rc = add_one(s, bytes, err);
    s->stored = s->evicted = 0;
    return rc;
}

static enum kiln_code report_subject(const struct subject *s, unsigned rounds, struct kiln_err *err)
{
    struct json *result = bench_result("store"), *p50 = json_array(), *p99 = json_array();
    for (unsigned i = 1; i < rounds; i++) {
        json_append(p50, json_number(s->p50_us[i]));
        json_append(p99, json_number(s->p99_us[i]));
    }
    json_set_text(result, "way", s->way);
    json_set_u64(result, "kernels", s->kept.count);
    json_set_u64(result, "size", s->kept.size);
    json_set_u64(result, "stored", s->stored);
    json_set_u64(result, "evicted", s->evicted);
    json_set(result, "p50_us", p50);
    json_set(result, "p99_us", p99);
    return bench_print(result, err);
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    const struct content kept = { CONTENT_CODE, 20480, KEPT, 0 };
    const struct content added = { CONTENT_CODE, 20480 + 8, 0, 0 };
    struct subject all[] = {
        { .way = "few", .kept = { CONTENT_RANDOM, 2048, 1000, 0 }, .limit = ROOMY },
        { .way = "many",
          .kept = { CONTENT_RANDOM, 2048, o->quick ? 10000 : 100000, 0 },
          .limit = ROOMY },
        { .way = "quiet", .kept = kept, .limit = ROOMY },
        { .way = "filling", .kept = kept, .added = added, .limit = ROOMY },
        { .way = "evicting", .kept = kept, .added = added, .limit = TIGHT },
    };
    const size_t count = sizeof(all) / sizeof(all[0]);
    unsigned rounds = o->quick ? 4 : ROUNDS_MAX;
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < count && !rc; i++) {
        bench_say("store: filling '%s' with %zu kernels", all[i].way, all[i].kept.count);
        rc = open_store(o, &all[i], err);
    }
    if (!rc)
        rc = fill_to_the_limit(&all[count - 1], err);
    bench_say("store: %u rounds", rounds);
    for (unsigned i = 0; i < rounds * count && !rc; i++)
        rc = time_round(&all[i % count], i / (unsigned)count, err);
    for (size_t i = 0; i < count && !rc; i++)
        rc = report_subject(&all[i], rounds, err);
    for (size_t i = 0; i < count; i++)
        kernel_store_destroy(all[i].store);
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_store", run_bench); }

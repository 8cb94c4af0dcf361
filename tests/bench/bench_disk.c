/* SPDX-License-Identifier: MIT */

/*
 * Real code objects on disk: kiln's codec against MIOpen's bzip2, in bytes and in time to unpack.
 */
#include "engine/store/codec_zstd.h"
#include "engine/store/kernel_store.h"
#include "tests/bench/cold.h"
#include "tests/bench/server.h"

#include <kiln/plan.h>

#include <bzlib.h>
#include <string.h>
#include <sys/mman.h>

#define TARGET "gfx90a"
#define OBJECTS_MOST 128u
#define ROUNDS 16u /* of each way over all objects; the first warms up */
#define TIMEOUT_MS 300000

/* ResNet-50's shapes: each makes three kernels, one a direction. */
static const char *const lines[] = {
    "conv -n 1 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 0",
    "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 0",
    "conv -n 1 -c 64 -H 56 -W 56 -k 256 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -F 0",
    "convfp16 -n 1 -c 128 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 0",
    "convbfp16 -n 1 -c 512 -H 28 -W 28 -k 1024 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -F 0",
};

#define LINES (sizeof(lines) / sizeof(lines[0]))

struct packed { /* owned */
    uint8_t *raw, *kiln, *bzip2;
    size_t raw_size, kiln_size;
    unsigned bzip2_size;
    enum codec_id codec;
};

struct shelf {
    struct packed objects[OBJECTS_MOST];
    size_t count;
    struct kernel_store *store; /* borrowed while listing */
    struct codec *codec;        /* owned */
    struct kiln_err err;        /* the first failure of a callback */
};

static void shelf_done(struct shelf *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->objects[i].raw);
        free(s->objects[i].kiln);
        free(s->objects[i].bzip2);
    }
    codec_destroy(s->codec);
}

/* ---- making them ---- */

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *error)
{
    struct kiln_err *err = context;
    if (plan || err->code)
        return 0;
    (void)kiln_fail(err, (enum kiln_code)error->code, "kernel %zu: %s", index, error->text);
    return 0;
}

static enum kiln_code list_problems(struct kiln_problem problems[LINES * 3], size_t *ret_count,
                                    struct kiln_err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < LINES; i++) {
        unsigned more = 0;
        struct kiln_error error = { 0 };
        if (kiln_problem_from_driver(lines[i], &problems[count], &more, &error))
            return kiln_fail(err, (enum kiln_code)error.code, "'%s': %s", lines[i], error.text);
        count += more;
    }
    *ret_count = count;
    return KILN_OK;
}

static enum kiln_code make_kernels(struct kiln_client *client, struct kiln_err *err)
{
    struct kiln_problem problems[LINES * 3];
    size_t count = 0;
    enum kiln_code rc = list_problems(problems, &count, err);
    if (rc)
        return rc;
    struct kiln_plan_options options = {
        .size = sizeof(options), .target = TARGET, .priority = KILN_PREFETCH, .no_objects = 1
    };
    struct kiln_error error = { 0 };
    bench_say("disk: compiling %zu kernels for " TARGET, count);
    if (kiln_plan_batch(client, problems, count, &options, TIMEOUT_MS, on_plan, err, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "kiln: %s", error.text);
    return err->code;
}

/* The daemon ends when all is written. */
static enum kiln_code compile_all(const struct bench_options *o, struct kiln_err *err)
{
    struct kilnd_options options = { .name = "disk" };
    SERVER_AUTO struct server kilnd = { 0 };
    struct kiln_client *client;
    enum kiln_code rc = kilnd_start(o, &options, &kilnd, err);
    if (!rc)
        rc = cold_connect(kilnd.socket, &client, err);
    if (rc)
        return rc;
    rc = make_kernels(client, err);
    kiln_client_close(client);
    return rc;
}

/* ---- packing them both ways ---- */

static uint8_t *copy(const void *bytes, size_t size)
{
    uint8_t *to = malloc(size);
    return to ? memcpy(to, bytes, size) : NULL;
}

static enum kiln_code pack_bzip2(struct packed *p, struct kiln_err *err)
{
    unsigned room = (unsigned)(p->raw_size + p->raw_size / 100 + 600); /* bzip2's own bound */
    p->bzip2 = malloc(room);
    if (!p->bzip2)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot pack an object");
    p->bzip2_size = room;
    if (BZ2_bzBuffToBuffCompress((char *)p->bzip2, &p->bzip2_size, (char *)p->raw,
                                 (unsigned)p->raw_size, 9, 0, 30) != BZ_OK)
        return kiln_fail(err, KILN_IO, "bzip2 refused an object of %zu bytes", p->raw_size);
    return KILN_OK;
}

static enum kiln_code pack(struct shelf *s, struct packed *p, struct kiln_err *err)
{
    struct bytes stored;
    enum kiln_code rc =
        codec_pack(s->codec, bytes_of(p->raw, p->raw_size), &stored, &p->codec, err);
    if (rc)
        return rc;
    p->kiln = copy(stored.data, stored.size);
    p->kiln_size = stored.size;
    return p->kiln ? pack_bzip2(p, err) : kiln_fail(err, KILN_NO_MEMORY, "cannot pack an object");
}

static enum kiln_code take_object(struct shelf *s, const struct object *object,
                                  struct kiln_err *err)
{
    struct packed *p = &s->objects[s->count];
    void *at = mmap(NULL, object->size, PROT_READ, MAP_SHARED, object->fd, 0);
    if (at == MAP_FAILED)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot map an object");
    *p = (struct packed){ .raw = copy(at, object->size), .raw_size = object->size };
    munmap(at, object->size);
    s->count++;
    return p->raw ? pack(s, p, err) : kiln_fail(err, KILN_NO_MEMORY, "cannot copy an object");
}

static void on_record(void *context, const struct kernel_record *record)
{
    struct shelf *s = context;
    struct object *object = NULL;
    bool damaged = false;
    if (s->err.code || s->count == OBJECTS_MOST)
        return;
    s->err.code = kernel_store_get(s->store, &record->key, &object, &damaged, &s->err);
    if (!s->err.code)
        s->err.code = take_object(s, object, &s->err);
    object_unref(object);
}

static enum kiln_code read_all(const struct bench_options *o, struct shelf *s, struct kiln_err *err)
{
    char folder[BENCH_PATH_MOST], notice[512];
    KILN_AUTO(kernel_store) struct kernel_store *store = NULL;
    enum kiln_code rc = kilnd_cache_folder(o, "disk", folder, err);
    if (rc)
        return rc;
    struct kernel_store_options options = { .directory = folder,
                                            .limit_bytes = 64ull << 30,
                                            .readers = 2 };
    struct kernel_filter all = { .target = NULL };
    rc = kernel_store_open(&options, &store, notice, err);
    if (!rc)
        rc = codec_create(&s->codec, err);
    s->store = store;
    if (!rc)
        rc = kernel_store_list(store, &all, NULL, OBJECTS_MOST, on_record, s, err);
    if (!rc && s->err.code) {
        *err = s->err;
        rc = s->err.code;
    }
    if (!rc && s->count == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND, "the daemon stored no kernel");
    return rc;
}

/* ---- unpacking them ---- */

static enum kiln_code unpack_kiln(struct shelf *s, const struct packed *p, struct kiln_err *err)
{
    struct bytes raw;
    return codec_unpack(s->codec, p->codec, bytes_of(p->kiln, p->kiln_size), p->raw_size, &raw,
                        err);
}

static enum kiln_code unpack_bzip2(struct shelf *s, const struct packed *p, struct kiln_err *err)
{
    (void)s;
    unsigned size = (unsigned)p->raw_size;
    KILN_AUTO(mem) char *raw = malloc(p->raw_size);
    if (!raw || BZ2_bzBuffToBuffDecompress(raw, &size, (char *)p->bzip2, p->bzip2_size, 0, 0))
        return kiln_fail(err, KILN_CORRUPT, "bzip2 cannot unpack");
    return KILN_OK;
}

typedef enum kiln_code unpack(struct shelf *s, const struct packed *p, struct kiln_err *err);

static enum kiln_code time_all(struct shelf *s, unpack *way, struct json *each_us,
                               struct kiln_err *err)
{
    uint64_t from = clock_monotonic_ns();
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < s->count && !rc; i++)
        rc = way(s, &s->objects[i], err);
    double us = (double)(clock_monotonic_ns() - from) / 1e3;
    if (each_us)
        json_append(each_us, json_number(us / (double)s->count));
    return rc;
}

static enum kiln_code report(struct shelf *s, struct json *kiln_us, struct json *bzip2_us,
                             struct kiln_err *err)
{
    uint64_t raw = 0, kiln = 0, bzip2 = 0;
    for (size_t i = 0; i < s->count; i++) {
        raw += s->objects[i].raw_size;
        kiln += s->objects[i].kiln_size;
        bzip2 += s->objects[i].bzip2_size;
    }
    struct json *result = bench_result("disk");
    json_set_text(result, "target", TARGET);
    json_set_u64(result, "objects", s->count);
    json_set_u64(result, "raw_bytes", raw);
    json_set_u64(result, "kiln_bytes", kiln);
    json_set_u64(result, "bzip2_bytes", bzip2);
    json_set(result, "kiln_us", kiln_us);
    json_set(result, "bzip2_us", bzip2_us);
    return bench_print(result, err);
}

static enum kiln_code run(const struct bench_options *o, struct kiln_err *err)
{
    __attribute__((cleanup(shelf_done))) struct shelf s = { .err = KILN_ERR_INIT };
    enum kiln_code rc = compile_all(o, err);
    if (!rc)
        rc = read_all(o, &s, err);
    if (rc)
        return rc;
    struct json *kiln_us = json_array(), *bzip2_us = json_array();
    for (unsigned i = 0; i < ROUNDS && !rc; i++) {
        rc = time_all(&s, unpack_kiln, i ? kiln_us : NULL, err);
        if (!rc)
            rc = time_all(&s, unpack_bzip2, i ? bzip2_us : NULL, err);
    }
    if (!rc)
        return report(&s, kiln_us, bzip2_us, err);
    json_destroy(kiln_us);
    json_destroy(bzip2_us);
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_disk", run); }

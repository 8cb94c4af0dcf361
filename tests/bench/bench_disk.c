/* SPDX-License-Identifier: MIT */

/* Measures the size of real code objects on disk: all kernels of ResNet-50's problems, compressed
 * by kiln's codec, by zstd without a dictionary, and by bzip2 as in MIOpen. Also measures the time
 * to pack and unpack them. */
#include "engine/store/kernel_store.h"
#include "tests/bench/cold.h"
#include "tests/bench/packing.h"
#include "tests/bench/server.h"

#include <kiln/plan.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define OBJECTS_MAX 128u
#define LINE_MAX 1024
#define ROUNDS 16u /* including the first, which only warms up */
#define ROUNDS_QUICK 6u
#define TIMEOUT_MS 300000

static const struct compiler {
    const char *toolchain, *target;
} compilers[] = {
    { "hiprtc", "gfx906" },
    { "hiprtc", "gfx90a" },
    { "hiprtc", "gfx1030" },
    { "nvrtc", "sm_90" },
};

#define COMPILERS (sizeof(compilers) / sizeof(compilers[0]))

/* ---- compiling ---- */

struct network {
    struct kiln_problem problems[OBJECTS_MAX];
    size_t count;
};

static enum kiln_code add_problem(struct network *n, const char *line, struct kiln_err *err)
{
    unsigned more = 0;
    struct kiln_problem of_line[3];
    struct kiln_error error = { 0 };
    if (kiln_problem_from_driver(line, of_line, &more, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "'%s': %s", line, error.text);
    if (n->count + more > OBJECTS_MAX)
        return kiln_fail(err, KILN_FULL, "'" BENCH_NETWORK "' has more than %u problems",
                         OBJECTS_MAX);
    for (unsigned i = 0; i < more; i++)
        n->problems[n->count++] = of_line[i];
    return KILN_OK;
}

static enum kiln_code read_network(struct network *n, struct kiln_err *err)
{
    FILE *file = fopen(BENCH_NETWORK, "re");
    if (!file)
        return kiln_fail(err, KILN_NOT_FOUND, "cannot read '" BENCH_NETWORK "'");
    char line[LINE_MAX];
    enum kiln_code rc = KILN_OK;
    while (!rc && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && line[0] != '#')
            rc = add_problem(n, line, err);
    }
    fclose(file);
    return rc;
}

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *error)
{
    struct kiln_err *err = context;
    if (plan || err->code)
        return 0;
    (void)kiln_fail(err, (enum kiln_code)error->code, "kernel %zu: %s", index, error->text);
    return 0;
}

static enum kiln_code make_kernels(struct kiln_client *client, const struct network *n,
                                   const struct compiler *c, struct kiln_err *err)
{
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = c->target,
                                         .toolchain = c->toolchain,
                                         .priority = KILN_PREFETCH,
                                         .no_objects = 1,
                                         .timeout_ms = TIMEOUT_MS };
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = n->problems,
                                           .count = n->count,
                                           .options = &options,
                                           .ready = on_plan,
                                           .context = err };
    struct kiln_error error = { 0 };
    bench_say("disk: compiling %zu kernels for %s with %s", n->count, c->target, c->toolchain);
    if (kiln_plan_batch(client, &batch, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "kiln: %s", error.text);
    return err->code;
}

static struct json *result_of(const struct compiler *c)
{
    struct json *result = bench_result("disk");
    json_set_text(result, "target", c->target);
    json_set_text(result, "toolchain", c->toolchain);
    return result;
}

/* Returns whether |rc| means that this host lacks the compiler. If so, the benchmark prints
 * "absent" for this compiler. */
static bool is_absent(enum kiln_code rc)
{
    return rc == KILN_UNAVAILABLE || rc == KILN_UNSUPPORTED || rc == KILN_NOT_FOUND;
}

static enum kiln_code make_all(struct kiln_client *client, const struct network *n,
                               bool made[COMPILERS], struct kiln_err *err)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        struct kiln_err why = KILN_ERR_INIT;
        enum kiln_code rc = make_kernels(client, n, &compilers[i], &why);
        made[i] = rc == KILN_OK;
        if (is_absent(rc)) {
            struct json *result = result_of(&compilers[i]);
            json_set_text(result, "not_run", why.text);
            rc = bench_print(result, err);
        } else if (rc) {
            *err = why;
        }
        if (rc)
            return rc;
    }
    return KILN_OK;
}

/* Compiles all kernels. On return, kilnd has stored all objects and has exited. */
static enum kiln_code compile_all(const struct bench_options *o, bool made[COMPILERS],
                                  struct kiln_err *err)
{
    struct network network = { .count = 0 };
    struct kilnd_options options = { .name = "disk" };
    SERVER_AUTO struct server kilnd = { 0 };
    struct kiln_client *client;
    enum kiln_code rc = read_network(&network, err);
    if (!rc)
        rc = kilnd_start(o, &options, &kilnd, err);
    if (!rc)
        rc = cold_connect(kilnd.socket, &client, err);
    if (rc)
        return rc;
    rc = make_all(client, &network, made, err);
    kiln_client_close(client);
    return rc;
}

/* ---- reading the objects ---- */

struct item {
    struct bytes raw;
    struct packed packed[PACKING_COUNT];
};

struct timings {
    double pack_us[ROUNDS], unpack_us[ROUNDS];
};

struct collection {
    const struct compiler *compiler;
    struct item items[OBJECTS_MAX];
    size_t count;
    struct kernel_store *store;
    struct packer *packer;
    unsigned rounds;
    struct timings timings[PACKING_COUNT];
    struct kiln_err err;
};

static void collection_done(struct collection *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free((void *)s->items[i].raw.data);
        for (size_t way = 0; way < PACKING_COUNT; way++)
            free((void *)s->items[i].packed[way].bytes.data);
    }
    packer_destroy(s->packer);
}

static enum kiln_code copy_bytes(struct bytes from, struct bytes *ret_to, struct kiln_err *err)
{
    uint8_t *to = malloc(from.size);
    if (!to)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot copy an object");
    memcpy(to, from.data, from.size);
    *ret_to = bytes_of(to, from.size);
    return KILN_OK;
}

static enum kiln_code take_object(struct collection *s, const struct object *object,
                                  struct kiln_err *err)
{
    void *at = mmap(NULL, object->size, PROT_READ, MAP_SHARED, object->fd, 0);
    if (at == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map an object of %zu bytes", object->size);
    enum kiln_code rc = copy_bytes(bytes_of(at, object->size), &s->items[s->count].raw, err);
    munmap(at, object->size);
    s->count += rc == KILN_OK;
    return rc;
}

static void on_record(void *context, const struct kernel_record *record)
{
    struct collection *s = context;
    struct object *object = NULL;
    bool damaged = false;
    if (s->err.code || s->count == OBJECTS_MAX)
        return;
    s->err.code = kernel_store_get(s->store, &record->key, &object, &damaged, &s->err);
    if (!s->err.code)
        s->err.code = take_object(s, object, &s->err);
    object_unref(object);
}

static enum kiln_code read_all(struct collection *s, struct kiln_err *err)
{
    const struct kernel_page of_compiler = { .filter = { .target = s->compiler->target },
                                             .max = OBJECTS_MAX };
    enum kiln_code rc = kernel_store_list(s->store, &of_compiler, on_record, s, err);
    if (!rc && s->err.code) {
        *err = s->err;
        rc = s->err.code;
    }
    if (!rc && s->count == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND, "the daemon stored no kernel for %s",
                       s->compiler->target);
    return rc;
}

/* ---- packing and unpacking ---- */

static enum kiln_code pack_all(struct collection *s, enum packing way, struct kiln_err *err)
{
    for (size_t i = 0; i < s->count; i++) {
        struct item *item = &s->items[i];
        struct packed packed = { .codec = 0 };
        struct bytes raw;
        enum kiln_code rc = packer_pack(s->packer, way, item->raw, &packed, err);
        item->packed[way] = packed;
        item->packed[way].bytes = bytes_of(NULL, 0);
        if (!rc)
            rc = copy_bytes(packed.bytes, &item->packed[way].bytes, err);
        if (rc)
            return rc;
        rc = packer_unpack(s->packer, &item->packed[way], &raw, err);
        if (rc)
            return rc;
        if (!bytes_equal(raw, item->raw))
            return kiln_fail(err, KILN_CORRUPT, "%s unpacks an object to other bytes",
                             packing_name(way));
    }
    return KILN_OK;
}

static enum kiln_code time_packing(struct collection *s, enum packing way, double *ret_us,
                                   struct kiln_err *err)
{
    struct packed packed;
    uint64_t from = clock_monotonic_ns();
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < s->count && !rc; i++)
        rc = packer_pack(s->packer, way, s->items[i].raw, &packed, err);
    *ret_us = (double)(clock_monotonic_ns() - from) / 1e3 / (double)s->count;
    return rc;
}

static enum kiln_code time_unpacking(struct collection *s, enum packing way, double *ret_us,
                                     struct kiln_err *err)
{
    struct bytes raw;
    uint64_t from = clock_monotonic_ns();
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < s->count && !rc; i++)
        rc = packer_unpack(s->packer, &s->items[i].packed[way], &raw, err);
    *ret_us = (double)(clock_monotonic_ns() - from) / 1e3 / (double)s->count;
    return rc;
}

static enum kiln_code measure_all(struct collection *s, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (enum packing way = 0; way < PACKING_COUNT && !rc; way++)
        rc = pack_all(s, way, err);
    for (unsigned round = 0; round < s->rounds && !rc; round++) {
        for (enum packing way = 0; way < PACKING_COUNT && !rc; way++) {
            rc = time_packing(s, way, &s->timings[way].pack_us[round], err);
            if (!rc)
                rc = time_unpacking(s, way, &s->timings[way].unpack_us[round], err);
        }
    }
    return rc;
}

static struct json *numbers_of(const double *timings, unsigned rounds)
{
    struct json *list = json_array();
    for (unsigned round = 1; round < rounds; round++)
        json_append(list, json_number(timings[round]));
    return list;
}

static enum kiln_code report_way(const struct collection *s, enum packing way, struct kiln_err *err)
{
    const struct timings *timings = &s->timings[way];
    uint64_t raw = 0, bytes = 0;
    for (size_t i = 0; i < s->count; i++) {
        raw += s->items[i].raw.size;
        bytes += s->items[i].packed[way].bytes.size;
    }
    struct json *result = result_of(s->compiler);
    json_set_text(result, "way", packing_name(way));
    json_set_u64(result, "objects", s->count);
    json_set_u64(result, "raw_bytes", raw);
    json_set_u64(result, "bytes", bytes);
    json_set(result, "pack_us", numbers_of(timings->pack_us, s->rounds));
    json_set(result, "unpack_us", numbers_of(timings->unpack_us, s->rounds));
    return bench_print(result, err);
}

static enum kiln_code compare_packings(struct kernel_store *store, const struct compiler *c,
                                       unsigned rounds, struct kiln_err *err)
{
    __attribute__((cleanup(collection_done))) struct collection s = {
        .compiler = c, .store = store, .rounds = rounds, .err = KILN_ERR_INIT
    };
    enum kiln_code rc = packer_create(&s.packer, err);
    if (!rc)
        rc = read_all(&s, err);
    if (!rc)
        rc = measure_all(&s, err);
    for (enum packing way = 0; way < PACKING_COUNT && !rc; way++)
        rc = report_way(&s, way, err);
    return rc;
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    bool made[COMPILERS] = { false };
    char directory[BENCH_PATH_MAX], notice[512];
    KILN_AUTO(kernel_store) struct kernel_store *store = NULL;
    enum kiln_code rc = compile_all(o, made, err);
    if (!rc)
        rc = kilnd_cache_directory(o, "disk", directory, err);
    if (rc)
        return rc;
    struct kernel_store_options options = { .directory = directory,
                                            .limit_bytes = 64ull << 30,
                                            .readers = 2 };
    rc = kernel_store_open(&options, &store, notice, err);
    for (size_t i = 0; i < COMPILERS && !rc; i++) {
        if (made[i])
            rc = compare_packings(store, &compilers[i], o->quick ? ROUNDS_QUICK : ROUNDS, err);
    }
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_disk", run_bench); }

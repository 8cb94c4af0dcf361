/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include "tests/support/entries.h"
#include "tests/support/random_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sync_fails_with;
unsigned syncs;

/* Replaces libc's function, also for SQLite. Tests need not survive a power loss, and thousands
 * of syncs would take milliseconds each. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's name is reserved
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    syncs++;
    if (!sync_fails_with)
        return 0;
    errno = sync_fails_with;
    return -1;
}

void close_store(struct fixture *f)
{
    kernel_store_destroy(f->store);
    f->store = NULL;
}

enum kiln_code reopen(struct fixture *f, uint64_t limit)
{
    close_store(f);
    f->limit = limit;
    struct kernel_store_options options = { .directory = f->directory,
                                            .limit_bytes = limit,
                                            .quota_bytes_uid = f->quota,
                                            .readers = 3,
                                            .mode = f->mode,
                                            .allow_network_fs = true };
    return kernel_store_open(&options, &f->store, f->notice, &f->err);
}

static void end_store(void *f) { close_store(f); }

void open_store(struct fixture *f)
{
    f->directory = test_directory();
    snprintf(f->file, sizeof(f->file), "%s/kernels.db", f->directory);
    test_at_end(end_store, f);
    must(reopen(f, ROOMY), f->err);
}

struct digest key_of(unsigned number)
{
    struct digest key;
    random_bytes(key.bytes, DIGEST_SIZE, number);
    return key;
}

void fill(uint8_t *data, size_t size, uint64_t seed, bool compressible)
{
    uint64_t state = seed * 7919 + 1;
    for (size_t i = 0; i < size; i++) {
        if (i % 8 == 0)
            random_next(&state);
        uint8_t any = (uint8_t)(state >> (8 * (i % 8)));
        data[i] = compressible && i % 16 > 5 ? (uint8_t)(i % 16) : any;
    }
    if (!compressible) {
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)random_next(&state);
    }
}

struct object *object_of(size_t size, uint64_t seed, bool compressible)
{
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    uint8_t *data = malloc(size);
    assert_non_null(data);
    fill(data, size, seed, compressible);
    assert_int_equal(object_from_bytes(bytes_of(data, size), 5000000, &object, &err), KILN_OK);
    free(data);
    return object;
}

static enum kiln_code put_counting(struct fixture *f, struct kernel k, bool is_import,
                                   uint64_t *evicted)
{
    struct object *object = object_of(k.size, k.seed ? k.seed : k.number, k.compressible);
    struct kernel_record record = {
        .key = key_of(k.number),
        .toolchain_id = key_of(k.toolchain ? (unsigned)k.toolchain : 7),
        .target = k.target ? k.target : "gfx90a",
        .toolchain = "clang",
        .program = k.program ? k.program : "ConvDirectNaive.cl",
        .options = "-O3 -DTYPE=float",
        .package = k.package,
        .compile_ns = k.compile_ns ? k.compile_ns : 1000000000,
        .created = 1700000000,
        .last_used = k.last_used,
        .uid = k.uid ? k.uid : 1000,
        .pinned = k.pinned,
        .is_private = k.is_private,
    };
    enum kiln_code rc = is_import ? kernel_store_import(f->store, &record, object, evicted, &f->err)
                                  : kernel_store_put(f->store, &record, object, evicted, &f->err);
    object_unref(object);
    return rc;
}

enum kiln_code put(struct fixture *f, struct kernel kernel)
{
    uint64_t evicted = 0;
    return put_counting(f, kernel, false, &evicted);
}

enum kiln_code import(struct fixture *f, struct kernel kernel)
{
    uint64_t evicted = 0;
    return put_counting(f, kernel, true, &evicted);
}

uint64_t stored(struct fixture *f, struct kernel kernel)
{
    uint64_t evicted = 0;
    enum kiln_code rc = put_counting(f, kernel, false, &evicted);
    if (rc)
        fail_msg("%s", f->err.text);
    return evicted;
}

void store_one(struct fixture *f, unsigned number)
{
    stored(f, (struct kernel){ .number = number, .size = 5000 });
}

bool holds(struct fixture *f, unsigned number)
{
    struct digest key = key_of(number);
    struct object *object = NULL;
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(f->store, &key, &object, &damaged, &f->err);
    assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
    assert_int_equal(rc == KILN_OK, object != NULL);
    object_unref(object);
    return rc == KILN_OK;
}

bool is_damaged(struct fixture *f, unsigned number)
{
    struct digest key = key_of(number);
    struct object *object = NULL;
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(f->store, &key, &object, &damaged, &f->err);
    object_unref(object);
    assert_true(!damaged || rc == KILN_NOT_FOUND);
    return damaged;
}

struct kernel_usage usage(struct fixture *f)
{
    struct kernel_usage u;
    enum kiln_code rc = kernel_store_usage(f->store, &u, &f->err);
    if (rc)
        fail_msg("%s", f->err.text);
    return u;
}

static uint64_t blocks_of(const char *path, const char *suffix)
{
    char name[200];
    struct stat seen;
    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &seen) == 0 ? (uint64_t)seen.st_blocks * 512 : 0;
}

uint64_t pin_matching(struct fixture *f, const struct kernel_filter *filter, bool pinned)
{
    struct kernel_pinning pinning = { .filter = *filter, .pinned = pinned };
    while (!pinning.is_over)
        must(kernel_store_pin_some(f->store, &pinning, &f->err), f->err);
    return pinning.count;
}

uint64_t taken(struct fixture *f) { return blocks_of(f->file, "-wal") + blocks_of(f->file, ""); }

void keys_of(unsigned from, unsigned to, struct digest *keys)
{
    for (unsigned i = from; i <= to; i++)
        keys[i - from] = key_of(i);
}

static struct db *second_connection(struct fixture *f, const char *const *sql)
{
    struct db *db = NULL;
    struct db_options options = { .path = f->file,
                                  .statements = sql,
                                  .statement_count = 1,
                                  .value_max = 1u << 30,
                                  .cache_kib = 64 };
    if (db_open(&options, &db, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    return db;
}

void meddle(struct fixture *f, const char *sql, const struct digest *key)
{
    struct db *db = second_connection(f, &sql);
    struct query q = query_of(db, 0);
    if (key)
        query_bind_bytes(&q, 1, bytes_of(key->bytes, sizeof(key->bytes)));
    if (query_run(&q, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    query_done(&q);
    db_destroy(db);
}

void tidy_store(struct fixture *f)
{
    bool more = true;
    for (unsigned i = 0; more; i++) {
        assert_true(i < 1000);
        must(kernel_store_tidy(f->store, &more, &f->err), f->err);
    }
}

void undo_migrations_7_to_9(struct fixture *f)
{
    meddle(f, "alter table history drop column hits_fleet", NULL);
    meddle(f, "drop table piece", NULL);
    meddle(f, "drop trigger pieces_gone", NULL);
    meddle(f, "drop index object_of_pieces", NULL);
    meddle(f, "alter table object drop column piece_set", NULL);
    meddle(f, "drop index kernel_of_client", NULL);
    meddle(f, "alter table kernel drop column kind", NULL);
    meddle(f, "alter table kernel drop column client_key", NULL);
}

uint64_t ask(struct fixture *f, const char *sql)
{
    struct db *db = second_connection(f, &sql);
    struct query q = query_of(db, 0);
    bool row = false;
    if (query_step(&q, &row, &f->err) != KILN_OK || !row)
        fail_msg("no answer to '%s': %s", sql, f->err.text);
    uint64_t number = query_u64(&q, 0);
    query_done(&q);
    db_destroy(db);
    return number;
}

unsigned files(struct fixture *f, const char *prefix) { return entry_count(f->directory, prefix); }

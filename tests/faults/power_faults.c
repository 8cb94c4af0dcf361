/* SPDX-License-Identifier: MIT */
/* Simulates power failures at every write. Whichever unsynced writes survive, kernels.db and
 * tuning.db must open, be consistent, and contain the acknowledged changes that they promise to
 * keep. */
#include "tests/faults/invariants.h"
#include "tests/faults/lossy_vfs.h"
#include "tests/faults/trial.h"

#include "common/base/fs.h"
#include "engine/store/kernel_store.h"
#include "engine/tuning/tuning_db.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Number of cases for each log entry. Each case chooses at random which writes survive. */
#define CHOICES 4u
#define CHANGES 24u
#define KERNELS 6u /* number of kernels that are stored before the VFS starts its log */
#define SIZE 9000u

static void make_directory(char path[96])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, 96, "%.70s/kiln-fault-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
}

struct subject {
    void (*prepare)(const char *directory);
    /* Makes CHANGES changes, and calls lossy_acknowledge with 1, 2, ... after each one. */
    void (*change)(const char *directory);
    void (*check)(const char *directory, unsigned acknowledged);
};

static void try_moment(const struct fault_case *c, const struct subject *subject, unsigned place)
{
    char directory[96];
    size_t moment = (place - 1) / CHOICES + 1;
    make_directory(directory);
    snprintf(c->report->directory, sizeof(c->report->directory), "%s", directory);
    snprintf(c->report->where, sizeof(c->report->where), "after moment %zu", moment);
    c->report->at = place;
    unsigned acknowledged = lossy_write(moment, place, directory);
    subject->check(directory, acknowledged);
    fs_remove_tree(AT_FDCWD, directory);
    c->report->tried++;
}

static void run_power_case(const struct fault_case *c)
{
    const struct subject *subject = c->operation->context;
    char directory[96];
    make_directory(directory);
    lossy_install();
    subject->prepare(directory);
    lossy_begin(directory);
    subject->change(directory);
    fs_remove_tree(AT_FDCWD, directory);
    size_t places = lossy_moments() * CHOICES;
    unsigned at = c->first;
    for (; at <= places && c->report->tried < c->count; at += c->every)
        try_moment(c, subject, at);
    c->report->passed = at > places;
}

static struct digest key_of(unsigned number)
{
    return (struct digest){ .bytes = { (uint8_t)number, 9 } };
}

static struct object *object_of(unsigned number)
{
    static uint8_t data[SIZE];
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)((i * 2654435761u + number * 40503u) >> 7);
    must(object_from_bytes(bytes_of(data, sizeof(data)), 5000000, &object, &err), err);
    return object;
}

static struct kernel_store *open_store(const char *directory)
{
    struct kernel_store *store = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    char notice[512] = "";
    const struct kernel_store_options options = {
        .directory = directory, .limit_bytes = 1ull << 30, .readers = 1, .allow_network_fs = true
    };
    must(kernel_store_open(&options, &store, notice, &err), err);
    assert_string_equal(notice, "");
    return store;
}

static void put_kernels(const char *directory, unsigned first, unsigned count, bool says)
{
    struct kernel_store *store = open_store(directory);
    struct kiln_err err = KILN_ERR_INIT;
    uint64_t evicted = 0;
    for (unsigned i = first; i < first + count; i++) {
        struct object *object = object_of(i);
        const struct kernel_record record = { .key = key_of(i),
                                              .toolchain_id = key_of(1),
                                              .target = "gfx90a",
                                              .toolchain = "clang",
                                              .program = "ConvDirectNaive.cl",
                                              .options = "-O3",
                                              .compile_ns = 1000000000,
                                              .created = 1700000000,
                                              .last_used = 1700000000,
                                              .uid = 1000 };
        must(kernel_store_put(store, &record, object, &evicted, &err), err);
        object_unref(object);
        if (says)
            lossy_acknowledge(i - first + 1);
    }
    kernel_store_destroy(store);
}

static void prepare_store(const char *directory) { put_kernels(directory, 0, KERNELS, false); }
static void change_store(const char *directory) { put_kernels(directory, KERNELS, CHANGES, true); }

/* The kernel store is a cache, so the power failure may remove the latest kernels. If a kernel is
 * missing, all later ones must be missing, too. */
static void check_store(const char *directory, unsigned acknowledged)
{
    bool had = true;
    (void)acknowledged;
    expect_sound_kernels(directory);
    struct kernel_store *store = open_store(directory);
    for (unsigned i = 0; i < KERNELS + CHANGES; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct object *object = NULL, *expected = object_of(i);
        struct digest key = key_of(i);
        bool damaged = false;
        enum kiln_code rc = kernel_store_get(store, &key, &object, &damaged, &err);
        assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
        assert_false(damaged);
        if (rc == KILN_OK)
            assert_true(digest_equal(&object->digest, &expected->digest));
        assert_true(had || rc == KILN_NOT_FOUND);
        had = rc == KILN_OK;
        assert_true(had || i >= KERNELS);
        object_unref(object);
        object_unref(expected);
    }
    kernel_store_destroy(store);
}

static struct tuning_db *open_tuning(const char *directory)
{
    struct tuning_db *db = NULL;
    struct tuning_salvage salvage;
    struct kiln_err err = KILN_ERR_INIT;
    const struct tuning_db_options options = { .directory = directory, .allow_network_fs = true };
    must(tuning_db_open(&options, &db, &salvage, &err), err);
    assert_string_equal(salvage.notice, "");
    return db;
}

static void put_record(struct tuning_db *db, unsigned number)
{
    char key[80];
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    snprintf(key, sizeof(key), "64-56-56-3x3-64-56-56-%u-1x1-1x1-1x1-0-NCHW-FP32-F", number);
    const struct tuning_place place = { .tier = TUNING_TIER_USER,
                                        .uid = 1000,
                                        .kind = TUNING_FIND,
                                        .database_id = "gfx90a68",
                                        .backend = "HIP",
                                        .key = bytes_of_text(key) };
    const struct tuning_row row = {
        .place = place,
        .id = bytes_of_text("ConvA"),
        .values = bytes_of_text("1.5,0,miopenConvolutionFwdAlgoDirect"),
        .measured = { .origin = { "GPU-1", "gfx90a", "6.3", "clang", "libkiln", 1700 },
                      .samples = 5,
                      .median_ms = 1.5,
                      .measured_at = 1000 + number,
                      .uid = 1000 },
    };
    must(tuning_change_begin(db, &change, &err), err);
    must(tuning_change_record(change, &place, &row, 1, &err), err);
    must(tuning_change_commit(change, &err), err);
}

static void prepare_tuning(const char *directory)
{
    struct tuning_db *db = open_tuning(directory);
    put_record(db, 1000);
    tuning_db_destroy(db);
}

static void change_tuning(const char *directory)
{
    struct tuning_db *db = open_tuning(directory);
    for (unsigned i = 1; i <= CHANGES; i++) {
        put_record(db, i);
        lossy_acknowledge(i);
    }
    tuning_db_destroy(db);
}

static bool count_one(void *context, const struct tuning_place *place,
                      const struct tuning_row *rows, size_t count)
{
    unsigned *found = context;
    (void)place;
    assert_int_equal(count, 1);
    assert_true(bytes_equal_text(rows[0].id, "ConvA"));
    ++*found;
    return true;
}

/* All acknowledged records must exist. One more may exist: the record whose change was running when
 * the power failed. */
static void check_tuning(const char *directory, unsigned acknowledged)
{
    unsigned found = 0;
    struct kiln_err err = KILN_ERR_INIT;
    expect_sound_tuning(directory);
    struct tuning_db *db = open_tuning(directory);
    must(tuning_db_each(db, count_one, &found, &err), err);
    assert_true(found >= 1 + acknowledged);
    assert_true(found <= 2 + acknowledged);
    put_record(db, 2000);
    tuning_db_destroy(db);
}

static const struct subject store = { prepare_store, change_store, check_store };
static const struct subject tuning = { prepare_tuning, change_tuning, check_tuning };
static const struct operation operations[] = {
    { .name = "kernels.db",
      .kinds = BIT(KIND_POWER),
      .at_once = 100,
      .run = run_power_case,
      .context = &store },
    { .name = "tuning.db",
      .kinds = BIT(KIND_POWER),
      .at_once = 100,
      .run = run_power_case,
      .context = &tuning },
    { .name = NULL },
};

int main(int argc, char **argv) { return fault_cases_main(argc, argv, operations); }

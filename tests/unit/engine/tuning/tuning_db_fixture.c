/* SPDX-License-Identifier: MIT */
#include "tuning_db_fixture.h"

#include "common/base/fs.h"
#include "tests/support/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_MAX 5u

int write_fails_with;
int sync_fails_with;

/* These replace libc's functions, also for SQLite. Tests need not survive a power cut, and
 * thousands of syncs would take milliseconds each. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
static int sync_or_fail(void)
{
    if (!sync_fails_with)
        return 0;
    errno = sync_fails_with;
    return -1;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    return sync_or_fail();
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    return sync_or_fail();
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *from, size_t size,
                                                        off64_t at)
{
    if (!write_fails_with)
        return syscall(SYS_pwrite64, fd, from, size, at);
    errno = write_fails_with;
    return -1;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

void close_db(struct fixture *f)
{
    tuning_db_destroy(f->db);
    f->db = NULL;
}

enum kiln_code reopen(struct fixture *f)
{
    close_db(f);
    struct tuning_db_options options = { .directory = f->directory,
                                         .records_per_uid = f->records_per_uid,
                                         .bytes_per_uid = f->bytes_per_uid,
                                         .allow_network_fs = true };
    return tuning_db_open(&options, &f->db, &f->salvage, &f->err);
}

static void end_tuning_db(void *f)
{
    close_db(f);
    write_fails_with = sync_fails_with = 0;
}

void open_tuning_db(struct fixture *f)
{
    f->directory = test_directory();
    snprintf(f->file, sizeof(f->file), "%s/tuning.db", f->directory);
    test_at_end(end_tuning_db, f);
    must(reopen(f), f->err);
}

unsigned files(struct fixture *f, const char *prefix) { return entry_count(f->directory, prefix); }

struct tuning_place place_of(unsigned number, char key[64])
{
    bool host = number % 7 == 0, perf = number % 3 == 0;
    snprintf(key, 64, "%u-28-28-3x3-192-28-28-%u-NCHW-FP32-F", number % 512, number);
    return (struct tuning_place){ .tier = host ? TUNING_TIER_HOST : TUNING_TIER_USER,
                                  .uid = host ? TUNING_NOBODY : 1000 + number % 2,
                                  .kind = perf ? TUNING_PERF : TUNING_FIND,
                                  .database_id = "gfx90a68",
                                  .backend = perf ? "" : "HIP",
                                  .key = bytes_of_text(key) };
}

struct texts {
    char id[ENTRIES_MAX][32];
    char values[ENTRIES_MAX][6000];
};

static size_t rows_of(unsigned number, unsigned version, struct texts *texts,
                      struct tuning_row rows[ENTRIES_MAX])
{
    size_t count = 1 + (number + version) % ENTRIES_MAX;
    for (size_t i = 0; i < count; i++) {
        /* One record in 29 is so long that it needs overflow pages. */
        int filler = number % 29 == 0 ? 5000 : (int)(number % 50);
        snprintf(texts->id[i], sizeof(texts->id[i]), "ConvSolver%zu", i);
        snprintf(texts->values[i], sizeof(texts->values[i]), "%u.%u,%0*d,algorithm", number,
                 version, filler + 1, 7);
        rows[i] = (struct tuning_row){ .id = bytes_of_text(texts->id[i]),
                                       .values = bytes_of_text(texts->values[i]),
                                       .measured = { .origin = { .device_uuid = i < 3 ? "GPU-1234"
                                                                                      : "GPU-5678",
                                                                 .device = "gfx90a:sramecc+:xnack-",
                                                                 .driver = "6.3",
                                                                 .toolchain = "clang 18",
                                                                 .library = NULL,
                                                                 .clock_mhz = 1700 },
                                                     .samples = number,
                                                     .median_ms = 0.25 * number,
                                                     .spread_ms = 0.125 * (double)i,
                                                     .measured_at = 1700000000 + version,
                                                     .uid = 1000 } };
    }
    return count;
}

enum kiln_code change_one(struct tuning_change *change, unsigned number, unsigned version,
                          struct kiln_err *err)
{
    char key[64];
    struct texts texts;
    struct tuning_row rows[ENTRIES_MAX];
    struct tuning_place place = place_of(number, key);
    size_t count = version ? rows_of(number, version, &texts, rows) : 0;
    return tuning_change_record(change, &place, rows, count, err);
}

enum kiln_code put(struct fixture *f, unsigned number, unsigned version)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    enum kiln_code rc = tuning_change_begin(f->db, &change, &f->err);
    if (!rc)
        rc = change_one(change, number, version, &f->err);
    return rc ? rc : tuning_change_commit(change, &f->err);
}

struct reading {
    void (*each)(void *context, unsigned number, unsigned version);
    void *context;
    unsigned number, version;
    char key[64];
    struct tuning_place place;
    struct texts texts;
    struct tuning_row rows[ENTRIES_MAX];
    size_t count;
    bool good;
    unsigned found;
};

static bool same(const char *a, const char *b) { return strcmp(a, b ? b : "") == 0; }

static bool same_row(const struct tuning_row *a, const struct tuning_row *b)
{
    const struct tuning_measurement *x = &a->measured, *y = &b->measured;
    return bytes_equal(a->id, b->id) && bytes_equal(a->values, b->values) &&
           same(x->origin.device_uuid, y->origin.device_uuid) &&
           same(x->origin.device, y->origin.device) && same(x->origin.driver, y->origin.driver) &&
           same(x->origin.toolchain, y->origin.toolchain) &&
           same(x->origin.library, y->origin.library) &&
           x->origin.clock_mhz == y->origin.clock_mhz && x->samples == y->samples &&
           x->median_ms == y->median_ms && x->spread_ms == y->spread_ms &&
           x->measured_at == y->measured_at && x->uid == y->uid;
}

static bool same_place(const struct tuning_place *a, const struct tuning_place *b)
{
    return a->tier == b->tier && a->uid == b->uid && a->kind == b->kind &&
           same(a->database_id, b->database_id) && same(a->backend, b->backend) &&
           bytes_equal(a->key, b->key);
}

static void expect_record(struct reading *r, const struct tuning_row *first)
{
    KILN_AUTO(mem) char *text = bytes_to_text(first->values);
    r->good = sscanf(text, "%u.%u,", &r->number, &r->version) == 2;
    r->place = place_of(r->number, r->key);
    r->count = rows_of(r->number, r->version, &r->texts, r->rows);
}

static bool on_record(void *context, const struct tuning_place *place,
                      const struct tuning_row *rows, size_t count)
{
    struct reading *r = context;
    expect_record(r, rows);
    r->good = r->good && r->count == count && same_place(&r->place, place);
    for (size_t i = 0; i < count && r->good; i++)
        r->good = same_place(&r->place, &rows[i].place) && same_row(&rows[i], &r->rows[i]);
    r->found++;
    r->each(r->context, r->number, r->good ? r->version : 0);
    return r->good;
}

unsigned each_found(struct fixture *f,
                    void (*each)(void *context, unsigned number, unsigned version), void *context)
{
    struct reading r = { .each = each, .context = context };
    must(tuning_db_each(f->db, on_record, &r, &f->err), f->err);
    return r.found;
}

struct search {
    unsigned number, version;
};

static void on_found(void *context, unsigned number, unsigned version)
{
    struct search *s = context;
    assert_int_not_equal(version, 0);
    if (number == s->number)
        s->version = version;
}

unsigned count_found(struct fixture *f)
{
    struct search s = { 0 };
    return each_found(f, on_found, &s);
}

unsigned version_of(struct fixture *f, unsigned number)
{
    struct search s = { .number = number };
    each_found(f, on_found, &s);
    return s.version;
}

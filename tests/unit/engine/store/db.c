/* SPDX-License-Identifier: MIT */
#include "engine/db/backup.h"
#include "engine/db/query.h"

#include "common/base/cleanup.h"
#include "store_fixture.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const unsigned char first[] = "create table item (name text not null) strict;";
static const unsigned char second[] =
    "alter table item add column size integer not null default 7;";
static const unsigned char broken[] = "create table other (name text); create nonsense;";
static const unsigned long first_size = sizeof(first) - 1, second_size = sizeof(second) - 1,
                           broken_size = sizeof(broken) - 1;

static const struct db_migration good[] = { { first, &first_size }, { second, &second_size } };
static const struct db_migration bad[] = { { first, &first_size }, { broken, &broken_size } };

static struct db_schema schema_of(const struct db_migration *migrations, unsigned count)
{
    return (struct db_schema){
        .name = "test", .application_id = 5, .migrations = migrations, .count = count
    };
}

enum statement { ADD, COUNT, SUM_OF_SIZES };
static const char *const statements[] = {
    [ADD] = "insert into item (name) values (?1)",
    [COUNT] = "select count(*) from item",
    [SUM_OF_SIZES] = "select sum(size) from item",
};

static enum kiln_code open_db(struct fixture *f, const struct db_schema *schema, size_t count,
                              struct db **db)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/test.db", f->directory);
    struct db_options options = { .path = path,
                                  .schema = schema,
                                  .statements = statements,
                                  .statement_count = count,
                                  .value_max = 1 << 20,
                                  .cache_kib = 64 };
    return db_open(&options, db, &f->err);
}

/* Opens a database that syncs each commit. */
static enum kiln_code open_durable(struct fixture *f, const struct db_schema *schema,
                                   struct db **db)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/durable.db", f->directory);
    struct db_options options = { .path = path,
                                  .schema = schema,
                                  .statements = statements,
                                  .statement_count = 3,
                                  .value_max = 1 << 20,
                                  .cache_kib = 64,
                                  .full_sync = true };
    return db_open(&options, db, &f->err);
}

static void add(struct db *db, const char *name)
{
    QUERY_AUTO struct query q = query_of(db, ADD);
    struct kiln_err err = KILN_ERR_INIT;
    query_bind_text(&q, 1, name);
    must(query_run(&q, &err), err);
}

static void change(struct db *db)
{
    struct kiln_err err = KILN_ERR_INIT;
    TRANSACTION_AUTO struct transaction t = { 0 };
    must(transaction_begin(&t, db, &err), err);
    add(db, "row");
    must(transaction_commit(&t, &err), err);
}

static uint64_t number(struct db *db, enum statement statement)
{
    QUERY_AUTO struct query q = query_of(db, statement);
    struct kiln_err err = KILN_ERR_INIT;
    bool row = false;
    assert_int_equal(query_step(&q, &row, &err), KILN_OK);
    assert_true(row);
    return query_u64(&q, 0);
}

TEST_F(store, only_missing_migrations_are_applied)
{
    struct db *db = NULL;
    struct db_schema old = schema_of(good, 1), new = schema_of(good, 2);
    assert_int_equal(open_db(f, &old, 2, &db), KILN_OK);
    add(db, "before");
    db_destroy(db);

    assert_int_equal(open_db(f, &new, 3, &db), KILN_OK);
    add(db, "after");

    assert_int_equal(number(db, COUNT), 2);
    assert_int_equal(number(db, SUM_OF_SIZES), 14);
    db_destroy(db);
    assert_int_equal(open_db(f, &new, 3, &db), KILN_OK);
    db_destroy(db);
}

TEST_F(store, a_statement_is_prepared_at_its_first_use)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 1); /* without the column "size" */
    bool row = false;
    assert_int_equal(open_db(f, &schema, 3, &db), KILN_OK);
    assert_int_equal(number(db, COUNT), 0);

    QUERY_AUTO struct query q = query_of(db, SUM_OF_SIZES);

    assert_int_equal(query_step(&q, &row, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "size");
    query_done(&q);
    db_destroy(db);
}

TEST_F(store, a_new_file_is_not_synced_while_it_gets_its_schema)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    syncs = 0;
    assert_int_equal(open_db(f, &schema, 3, &db), KILN_OK);
    assert_int_equal(syncs, 0);
    assert_int_equal(db_checkpoint(db, &f->err), KILN_OK);
    assert_true(syncs > 0);
    db_destroy(db);
}

static int open_log(struct fixture *f)
{
    char log[180];
    snprintf(log, sizeof(log), "%s/durable.db-wal", f->directory);
    int fd = open(log, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static off_t size_of_log(struct fixture *f)
{
    KILN_AUTO(fd) int fd = open_log(f);
    return lseek(fd, 0, SEEK_END);
}

TEST_F(store, commits_of_a_durable_file_do_not_lengthen_its_log)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    assert_int_equal(open_durable(f, &schema, &db), KILN_OK);
    change(db);
    const off_t size = size_of_log(f);
    for (unsigned i = 0; i < 1500; i++) /* the log starts over at least once */
        change(db);
    assert_int_equal(size_of_log(f), size);
    db_destroy(db);
}

TEST_F(store, the_first_change_after_a_vacuum_lengthens_the_log_of_a_durable_file)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    assert_int_equal(open_durable(f, &schema, &db), KILN_OK);
    change(db);
    const off_t size = size_of_log(f);
    must(db_vacuum(db, &f->err), f->err);
    must(db_checkpoint(db, &f->err), f->err);
    assert_int_equal(size_of_log(f), 0);
    change(db);
    assert_int_equal(size_of_log(f), size);
    db_destroy(db);
}

TEST_F(store, a_new_durable_file_is_synced_once_its_schema_is_complete)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    syncs = 0;
    assert_int_equal(open_durable(f, &schema, &db), KILN_OK);
    assert_in_range(syncs, 2, 4);        /* syncs of the log, its directory and the file */
    assert_int_equal(size_of_log(f), 0); /* the schema is in the file, not in the log */
    syncs = 0;
    add(db, "kept");
    assert_true(syncs > 0);
    db_destroy(db);
}

TEST_F(store, a_new_durable_file_that_cannot_be_synced_is_refused)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    sync_fails_with = EIO;
    enum kiln_code rc = open_durable(f, &schema, &db);
    sync_fails_with = 0;
    assert_int_equal(rc, KILN_IO);
    assert_null(db);
}

TEST_F(store, a_failed_migration_leaves_nothing_behind)
{
    struct db *db = NULL;
    struct db_schema wrong = schema_of(bad, 2), old = schema_of(good, 1);
    assert_int_not_equal(open_db(f, &wrong, 2, &db), KILN_OK);
    assert_says(f->err.text, "migration 2");

    assert_int_equal(open_db(f, &old, 2, &db), KILN_OK);

    assert_int_equal(number(db, COUNT), 0);
    db_destroy(db);
}

TEST_F(store, a_newer_schema_than_known_is_refused)
{
    struct db *db = NULL;
    struct db_schema old = schema_of(good, 1), new = schema_of(good, 2);
    assert_int_equal(open_db(f, &new, 3, &db), KILN_OK);
    db_destroy(db);

    assert_int_equal(open_db(f, &old, 2, &db), KILN_UNSUPPORTED);

    assert_says(f->err.text, "schema 2");
}

TEST_F(store, an_uncommitted_transaction_is_rolled_back)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    assert_int_equal(open_db(f, &schema, 3, &db), KILN_OK);
    {
        TRANSACTION_AUTO struct transaction t = { 0 };
        assert_int_equal(transaction_begin(&t, db, &f->err), KILN_OK);
        add(db, "undone");
    }
    assert_int_equal(number(db, COUNT), 0);

    struct transaction t = { 0 };
    assert_int_equal(transaction_begin(&t, db, &f->err), KILN_OK);
    add(db, "kept");
    assert_int_equal(transaction_commit(&t, &f->err), KILN_OK);
    transaction_done(&t);

    assert_int_equal(number(db, COUNT), 1);
    db_destroy(db);
}

TEST_F(store, the_message_names_a_missing_directory)
{
    struct db *db = NULL;
    struct db_options options = { .path = "/nowhere/at/all.db", .value_max = 100, .cache_kib = 64 };

    assert_int_not_equal(db_open(&options, &db, &f->err), KILN_OK);

    assert_says(f->err.text, "'/nowhere/at/all.db'");
}

TEST_F(store, a_value_longer_than_the_limit_is_refused)
{
    struct db *db = NULL;
    struct db_schema schema = schema_of(good, 2);
    static char text[(1 << 20) + 10];
    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(open_db(f, &schema, 3, &db), KILN_OK);
    {
        QUERY_AUTO struct query q = query_of(db, ADD);
        query_bind_text(&q, 1, text);
        assert_int_equal(query_run(&q, &f->err), KILN_CORRUPT);
    }
    db_destroy(db);
}

/* If not NULL, the test ends this query when SQLite waits. */
static struct query *released_by_waiting;
static unsigned waits;

static void note_wait(void)
{
    waits++;
    if (released_by_waiting)
        query_done(released_by_waiting);
    released_by_waiting = NULL;
}

/* SQLite waits with one of these two functions, depending on how SQLite was built. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int usleep(useconds_t for_us)
{
    (void)for_us;
    note_wait();
    return 0;
}

__attribute__((visibility("default"))) int nanosleep(const struct timespec *how_long,
                                                     struct timespec *ret_left)
{
    (void)how_long, (void)ret_left;
    note_wait();
    return 0;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static off_t log_size(const struct fixture *f)
{
    char path[160];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/test.db-wal", f->directory);
    return stat(path, &seen) == 0 ? seen.st_size : 0;
}

struct reading { /* a reader in the middle of a query, and a writer that adds a row meanwhile */
    struct db *writer, *reader;
    struct query query;
};

static void begin_reading(struct fixture *f, struct reading *r)
{
    static struct db_schema schema;
    bool row = false;
    schema = schema_of(good, 2);
    assert_int_equal(open_db(f, &schema, 3, &r->writer), KILN_OK);
    add(r->writer, "before");
    assert_int_equal(open_db(f, &schema, 3, &r->reader), KILN_OK);
    r->query = query_of(r->reader, COUNT);
    assert_int_equal(query_step(&r->query, &row, &f->err), KILN_OK);
    add(r->writer, "meanwhile");
    assert_true(log_size(f) > 0);
    released_by_waiting = NULL;
    waits = 0;
}

static void end_reading(struct reading *r)
{
    query_done(&r->query);
    db_destroy(r->reader);
    db_destroy(r->writer);
}

TEST_F(store, a_checkpoint_waits_for_readers)
{
    struct reading r;
    begin_reading(f, &r);
    released_by_waiting = &r.query;

    must(db_checkpoint(r.writer, &f->err), f->err);

    assert_true(waits > 0);
    assert_int_equal(log_size(f), 0);
    end_reading(&r);
}

TEST_F(store, a_checkpoint_without_waiting_leaves_the_log_to_readers)
{
    struct reading r;
    begin_reading(f, &r);

    must(db_checkpoint_now(r.writer, &f->err), f->err);
    assert_int_equal(waits, 0);
    assert_true(log_size(f) > 0);

    query_done(&r.query);
    must(db_checkpoint_now(r.writer, &f->err), f->err);
    assert_int_equal(log_size(f), 0);
    assert_int_equal(number(r.writer, COUNT), 2);
    end_reading(&r);
}

/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/child.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kiln_code reopen_as(struct fixture *f, enum kernel_store_mode mode)
{
    f->mode = mode;
    return reopen(f, ROOMY);
}

/* Writes names, sizes and times of all files in the directory. */
static void describe(struct fixture *f, char text[1024])
{
    size_t used = 0;
    struct stat seen;
    DIR *dir = opendir(f->directory);
    assert_non_null(dir);
    text[0] = '\0';
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        assert_int_equal(fstatat(dirfd(dir), e->d_name, &seen, 0), 0);
        if (S_ISREG(seen.st_mode))
            used += (size_t)snprintf(text + used, 1024 - used, "%s %lld %lld.%09ld\n", e->d_name,
                                     (long long)seen.st_size, (long long)seen.st_mtim.tv_sec,
                                     seen.st_mtim.tv_nsec);
    }
    closedir(dir);
}

static void use_everything(struct fixture *f, enum kiln_code asked)
{
    struct digest key = key_of(1);
    struct kernel_filter all = { 0 };
    const struct kernel_probe probe = { .toolchain_id = key, .target = "gfx942", .works = true };
    struct kernel_gc gc = { .shrink = true };
    struct kernel_gc_result result;
    uint64_t count = 0, bytes = 0;
    bool more = false;
    assert_int_equal(put(f, (struct kernel){ .number = 9, .size = 5000 }), KILN_OK);
    assert_int_equal(kernel_store_touch(f->store, &key, 1, 1800000000, &f->err), KILN_OK);
    assert_int_equal(kernel_store_quarantine(f->store, &key, &f->err), KILN_OK);
    assert_int_equal(kernel_store_probe_put(f->store, &probe, &f->err), KILN_OK);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), asked);
    assert_int_equal(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), asked);
    assert_int_equal(kernel_store_pin(f->store, &key, true, &more, &f->err), asked);
    assert_int_equal(kernel_store_gc(f->store, &gc, &result, &f->err), asked);
    assert_int_equal(import(f, (struct kernel){ .number = 9, .size = 5000 }), asked);
    assert_says(f->err.text, "cache =");
    assert_false(holds(f, 9));
}

TEST_F(store, a_read_only_cache_serves_and_changes_nothing)
{
    char before[1024], after[1024];
    struct kernel_gc gc = { .shrink = true, .dry_run = true };
    struct kernel_gc_result result;
    store_one(f, 1);
    close_store(f);
    describe(f, before);

    assert_int_equal(reopen_as(f, KERNEL_STORE_READ_ONLY), KILN_OK);
    assert_string_equal(f->notice, "");
    assert_true(holds(f, 1));
    use_everything(f, KILN_DENIED);
    assert_int_equal(kernel_store_gc(f->store, &gc, &result, &f->err), KILN_OK);
    assert_int_equal(result.evicted_kernels, 1);
    assert_int_equal(usage(f).kernels, 1);
    close_store(f);

    describe(f, after);
    assert_string_equal(after, before);
}

static bool put_first(void *context)
{
    struct fixture *f = context;
    return reopen(f, ROOMY) == KILN_OK &&
           put(f, (struct kernel){ .number = 1, .size = 5000 }) == KILN_OK;
}

TEST_F(store, a_read_only_cache_reads_a_log_and_leaves_it)
{
    char before[1024], after[1024];
    close_store(f);
    assert_true(run_in_child(put_first, f));
    assert_int_equal(files(f, "kernels.db"), 3);
    describe(f, before);

    assert_int_equal(reopen_as(f, KERNEL_STORE_READ_ONLY), KILN_OK);
    assert_true(holds(f, 1));
    close_store(f);

    describe(f, after);
    assert_string_equal(after, before);
}

TEST_F(store, a_missing_read_only_cache_serves_nothing)
{
    char missing[128];
    close_store(f);
    snprintf(missing, sizeof(missing), "%.100s/not/there", f->directory);
    struct kernel_store_options options = { .directory = missing,
                                            .limit_bytes = ROOMY,
                                            .readers = 1,
                                            .mode = KERNEL_STORE_READ_ONLY,
                                            .allow_network_fs = true };

    assert_int_equal(kernel_store_open(&options, &f->store, f->notice, &f->err), KILN_OK);

    assert_says(f->notice, "nothing");
    assert_false(holds(f, 1));
    assert_int_not_equal(access(missing, F_OK), 0);
}

TEST_F(store, a_read_only_cache_that_is_damaged_is_left_alone)
{
    store_one(f, 1);
    meddle(f, "pragma application_id = 77", NULL);

    assert_int_equal(reopen_as(f, KERNEL_STORE_READ_ONLY), KILN_OK);

    assert_says(f->notice, "read-only");
    assert_false(holds(f, 1));
    assert_int_equal(ask(f, "pragma application_id"), 77);
}

TEST_F(store, a_read_only_cache_is_not_shared_with_a_daemon_that_writes)
{
    struct kernel_store *second = NULL;
    struct kernel_store_options options = { .directory = f->directory,
                                            .limit_bytes = ROOMY,
                                            .readers = 1,
                                            .mode = KERNEL_STORE_READ_ONLY,
                                            .allow_network_fs = true };
    assert_int_equal(kernel_store_open(&options, &second, f->notice, &f->err), KILN_BUSY);
}

static void count_one(void *context, const struct kernel_record *record)
{
    (void)record;
    ++*(unsigned *)context;
}

static bool take_one(void *context, const struct kernel_record *record, struct bytes raw)
{
    (void)raw;
    count_one(context, record);
    return true;
}

static void count_uid(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    (void)uid;
    (void)kernels;
    (void)bytes;
    ++*(unsigned *)context;
}

TEST_F(store, a_cache_that_is_off_opens_no_file_and_lists_nothing)
{
    char before[1024], after[1024];
    struct digest key = key_of(1);
    const struct kernel_page page = { .max = 9 };
    struct kernel_record wanted = { .program = "ConvDirectNaive.cl" };
    struct kernel_position position = { 0 };
    unsigned reported = 0;
    const struct kernel_export kernels = {
        .database_id = "gfx906_60", .max = 9, .each = take_one, .context = &reported
    };
    struct kernel_keys keys = { .keys = &key, .max = 1, .count = 9 };
    bool end = false;
    store_one(f, 1);
    close_store(f);
    describe(f, before);

    assert_int_equal(reopen_as(f, KERNEL_STORE_OFF), KILN_OK);
    assert_false(holds(f, 1));
    use_everything(f, KILN_UNAVAILABLE);
    assert_int_equal(kernel_store_list(f->store, &page, count_one, &reported, &f->err), KILN_OK);
    assert_int_equal(kernel_store_show(f->store, &key, count_one, &reported, &f->err),
                     KILN_NOT_FOUND);
    assert_int_equal(kernel_store_match(f->store, "0", NULL, &keys, &f->err), KILN_OK);
    assert_int_equal(kernel_store_nearest(f->store, &wanted, count_one, &reported, &f->err),
                     KILN_NOT_FOUND);
    assert_int_equal(kernel_store_each_named(f->store, &kernels, &position, &end, &f->err),
                     KILN_OK);
    assert_int_equal(kernel_store_usage_by_uid(f->store, count_uid, &reported, &f->err), KILN_OK);
    assert_true(end);
    assert_int_equal(reported + keys.count, 0);
    assert_int_equal(usage(f).kernels + usage(f).taken_bytes, 0);
    assert_int_equal(usage(f).limit_bytes, ROOMY);
    close_store(f);

    describe(f, after);
    assert_string_equal(after, before);
    assert_int_equal(reopen_as(f, KERNEL_STORE_ON), KILN_OK);
    assert_true(holds(f, 1));
}

extern const unsigned char schema_kernels_0001[];
extern const unsigned long schema_kernels_0001_size;

static void add_old(struct fixture *f, struct db *db, unsigned number)
{
    struct object *object = object_of(3000, number, false);
    struct digest key = key_of(number), both[2] = { key, object->digest };
    struct digest claim = sha256_of(bytes_of(both, sizeof(both)));
    for (size_t i = 0; i < 3; i++) {
        QUERY_AUTO struct query q = query_of(db, i);
        query_bind_bytes(&q, 1, bytes_of(key.bytes, sizeof(key.bytes)));
        query_bind_bytes(&q, 2, bytes_of(object->digest.bytes, DIGEST_SIZE));
        query_bind_bytes(&q, 3, bytes_of(claim.bytes, 16));
        query_bind_bytes(&q, 4, bytes_of(object->data, object->size));
        if (query_run(&q, &f->err) != KILN_OK)
            fail_msg("%s", f->err.text);
    }
    object_unref(object);
}

static void make_old(struct fixture *f)
{
    static const struct db_migration first = { schema_kernels_0001, &schema_kernels_0001_size };
    static const struct db_schema schema = {
        .name = "kernels", .application_id = 0x4b4c4e31, .migrations = &first, .count = 1
    };
    static const char *const add[] = {
        "insert into object select null, ?2, 0, 3000, 3000, ?4 where ?1 <> ?3",
        "insert into kernel select null, ?1, (select id from object where sha256 = ?2), ?3,"
        " 'gfx90a', 'clang', zeroblob(32), 'old.cl', '-O3', 5000000, 1700000000, 1000, 600"
        " where ?4 <> ''",
        "insert into recency select id, 1700000000, 2, 1700000000 from kernel"
        " where key = ?1 and ?2 <> ?3 and ?4 <> ''",
    };
    struct db *db = NULL;
    struct db_options options = { .path = f->file,
                                  .schema = &schema,
                                  .statements = add,
                                  .statement_count = 3,
                                  .value_max = 1 << 20,
                                  .cache_kib = 64 };
    close_store(f);
    fs_empty_directory(f->directory);
    close(open(f->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (db_open(&options, &db, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    for (unsigned i = 1; i <= 3; i++)
        add_old(f, db, i);
    db_destroy(db);
}

static void see_bytes(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    if (uid == 1000 && kernels == 3)
        *(uint64_t *)context = bytes;
}

TEST_F(store, a_store_of_an_older_kiln_is_migrated_with_all_its_kernels)
{
    struct kernel_filter all = { 0 };
    uint64_t bytes = 0, count = 0, freed = 0;
    make_old(f);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    for (unsigned i = 1; i <= 3; i++)
        assert_true(holds(f, i));
    assert_int_equal(ask(f, "pragma user_version"), 9);
    assert_int_equal(kernel_store_usage_by_uid(f->store, see_bytes, &bytes, &f->err), KILN_OK);
    assert_int_equal(bytes, 3 * 3600);
    assert_int_equal(ask(f, "select count(*) from recency where uid = 1000 and uses = 2"), 3);
    assert_int_equal(ask(f, "select count(*) from kernel where scope = -1"), 3);
    store_one(f, 4);
    assert_int_equal(kernel_store_clear(f->store, &all, &count, &freed, &f->err), KILN_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ask(f, "select count(*) from usage_uid"), 0);
}

TEST_F(store, a_store_of_an_older_kiln_that_is_read_only_serves_nothing_and_says_why)
{
    make_old(f);

    assert_int_equal(reopen_as(f, KERNEL_STORE_READ_ONLY), KILN_OK);

    assert_says(f->notice, "schema 1");
    assert_false(holds(f, 1));
}

TEST_F(store, a_network_filesystem_is_refused_in_every_mode_with_what_to_set)
{
    static const struct {
        const char *type, *name;
    } known[] = { { "0x6969", "(nfs)" },
                  { "0x0bd00bd0", "(lustre)" },
                  { "0x19830326", "(beegfs)" } };
    close_store(f);
    struct kernel_store_options options = { .directory = f->directory,
                                            .limit_bytes = ROOMY,
                                            .readers = 1 };
    for (unsigned i = 0; i < 3; i++) {
        setenv("KILN_TEST_F_TYPE", known[i].type, 1);
        options.mode = i % 2 ? KERNEL_STORE_READ_ONLY : KERNEL_STORE_ON;
        enum kiln_code rc = kernel_store_open(&options, &f->store, f->notice, &f->err);
        unsetenv("KILN_TEST_F_TYPE");
        assert_int_equal(rc, KILN_UNSUPPORTED);
        assert_says(f->err.text, known[i].name);
        assert_says(f->err.text, "--cache-dir");
    }
    assert_int_equal(kernel_store_open(&options, &f->store, f->notice, &f->err), KILN_OK);
}

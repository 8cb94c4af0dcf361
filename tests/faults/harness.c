/* SPDX-License-Identifier: MIT */
/* Tests the fault tests: if an operation is wrong on purpose, its cases must fail (be lost). If an
 * operation is correct, its cases must pass. */
#include "tests/faults/invariants.h"
#include "tests/faults/trial.h"

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char content[] = "all of it";

static void prepare_nothing(const char *directory) { (void)directory; }

static void path_in(const struct trial *t, char path[128])
{
    snprintf(path, 128, "%s/file", t->directory);
}

static bool write_all(int fd)
{
    size_t done = 0;
    while (done < sizeof(content)) {
        ssize_t wrote = write(fd, content + done, sizeof(content) - done);
        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

struct flaws {
    bool leaks, takes_part, is_silent, says_done;
};

static void write_file(struct trial *t, struct flaws flaws)
{
    char path[128];
    struct kiln_err err = KILN_ERR_INIT;
    path_in(t, path);
    trial_mark(t);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool wrote = fd >= 0 &&
                 (flaws.takes_part ? write(fd, content, sizeof(content)) == (ssize_t)sizeof(content)
                                   : write_all(fd));
    if (fd >= 0 && (wrote || !flaws.leaks))
        close(fd);
    enum kiln_code rc = wrote || flaws.says_done ? KILN_OK : KILN_IO;
    if (rc && !flaws.is_silent)
        kiln_fail(&err, rc, "it cannot be written");
    trial_step(t, rc, &err);
    trial_over(t);
}

static void act_soundly(struct trial *t) { write_file(t, (struct flaws){ 0 }); }
static void act_leaking(struct trial *t) { write_file(t, (struct flaws){ .leaks = true }); }
static void act_hastily(struct trial *t) { write_file(t, (struct flaws){ .takes_part = true }); }
static void act_silently(struct trial *t) { write_file(t, (struct flaws){ .is_silent = true }); }
static void act_lying(struct trial *t) { write_file(t, (struct flaws){ .says_done = true }); }

static void check_file(const struct trial *t)
{
    char path[128], found[64] = "";
    path_in(t, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, found, sizeof(found)) : 0;
    if (fd >= 0)
        close(fd);
    if (t->end->done > 0) {
        assert_int_equal(got, sizeof(content));
        assert_memory_equal(found, content, sizeof(content));
    }
}

struct broken {
    const char *name, *sql;
    void (*expect)(const char *directory);
};

/* The schemas of kernels.db and tuning.db, as far as invariants.c reads them. */
static const char kernels[] =
    "create table object (id integer primary key, stored_size, raw_size, bytes,"
    " piece_set default 0);"
    "create table piece (id integer primary key, piece_set, bytes);"
    "create table kernel (id integer primary key, uid, object references object (id), scope,"
    " row_bytes);"
    "create table recency (kernel integer primary key, uid, scope);"
    "create table quarantine (id integer primary key);"
    "create table usage (kernels, objects, stored_bytes, raw_bytes, row_bytes);"
    "create table usage_uid (uid, kernels, bytes);"
    "insert into object values (1, 3, 9, x'010203', 0), (2, 2, 5, x'', 4);"
    "insert into piece values (1, 4, x'04'), (2, 4, x'05');"
    "insert into kernel values (1, 7, 1, -1, 10), (2, 8, 2, 8, 20);"
    "insert into recency values (1, 7, -1), (2, 8, 8);"
    "insert into usage values (2, 2, 5, 14, 30);"
    "insert into usage_uid values (7, 1, 13), (8, 1, 22);"
    "pragma user_version = 9;";
static const char tuning[] = "create table record (id integer primary key, key, content);"
                             "create table system_file (id integer primary key, content);"
                             "create table tally (id, number, inverse);"
                             "insert into record values (1, x'01', x'02');"
                             "insert into system_file values (1, cast('..a.kti..' as blob));"
                             "insert into tally values (1, 1, -2), (2, 1, -2);"
                             "pragma user_version = 4;";

static const struct broken stores[] = {
    { "sound-kernels", "", expect_sound_kernels },
    { "sound-tuning", "", expect_tidy_tuning },
    { "kernels-usage", "update usage set kernels = 3", expect_sound_kernels },
    { "kernels-raw", "update usage set raw_bytes = 13", expect_sound_kernels },
    { "kernels-uid-bytes", "update usage_uid set bytes = 14 where uid = 7", expect_sound_kernels },
    { "kernels-uid-gone", "delete from usage_uid where uid = 8", expect_sound_kernels },
    { "kernels-uid-more", "insert into usage_uid values (9, 1, 5)", expect_sound_kernels },
    { "kernels-no-order", "delete from recency where kernel = 2", expect_sound_kernels },
    { "kernels-order", "update recency set uid = 9 where kernel = 2", expect_sound_kernels },
    { "kernels-torn", "update object set bytes = x'01' where id = 1", expect_sound_kernels },
    { "kernels-orphan",
      "insert into object values (3, 1, 1, x'01', 0); update usage set objects = 3,"
      " stored_bytes = 6, raw_bytes = 15",
      expect_sound_kernels },
    { "kernels-foreign",
      "update kernel set object = 5 where id = 2; delete from object where id ="
      " 2; update usage set objects = 1, stored_bytes = 3, raw_bytes = 9",
      expect_sound_kernels },
    { "kernels-piece", "delete from piece where id = 2", expect_sound_kernels },
    { "kernels-damaged", "insert into quarantine values (1)", expect_sound_kernels },
    { "kernels-version", "pragma user_version = 5", expect_sound_kernels },
    { "kernels-half", "pragma user_version = 0", expect_sound_kernels },
    { "tuning-tally", "update tally set number = 2, inverse = -3 where id = 1",
      expect_sound_tuning },
    { "tuning-inverse", "update tally set inverse = 1 where id = 2", expect_sound_tuning },
    { "tuning-lost", "delete from record", expect_sound_tuning },
    { "tuning-empty", "update record set content = x''", expect_sound_tuning },
    { "tuning-no-index", "update system_file set content = cast('..b.kti..' as blob)",
      expect_sound_tuning },
    { "tuning-one-index",
      "insert into system_file values (2, cast('..a.kti..' as blob)); update"
      " tally set number = 2, inverse = -3 where id = 2",
      expect_sound_tuning },
    { "tuning-orphan",
      "delete from system_file; update tally set number = 0, inverse = -1 where id"
      " = 2",
      expect_tidy_tuning },
    { "tuning-version", "pragma user_version = 2", expect_sound_tuning },
};
#define STORES (sizeof(stores) / sizeof(stores[0]))

static void look_at_store(const struct fault_case *c)
{
    const struct broken *store = c->operation->context;
    char directory[] = "/tmp/kiln-test-XXXXXX", path[64];
    bool is_kernels = store->expect == expect_sound_kernels;
    sqlite3 *db = NULL;
    assert_non_null(mkdtemp(directory));
    snprintf(c->report->directory, sizeof(c->report->directory), "%s", directory);
    snprintf(path, sizeof(path), "%s/a.kti", directory);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    snprintf(path, sizeof(path), "%s/%s", directory, is_kernels ? "kernels.db" : "tuning.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, is_kernels ? kernels : tuning, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, store->sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    store->expect(directory);
    c->report->passed = true;
    fs_remove_tree(AT_FDCWD, directory);
}

static bool is_lost_without(const char *library, struct operation operation, unsigned kind)
{
    const struct operation operations[] = { operation, { .name = NULL } };
    char program[] = "harness", without[64], only[64];
    snprintf(only, sizeof(only), "--only=:%s", fault_kinds[kind].name);
    snprintf(without, sizeof(without), "--without=%s", library ? library : "");
    char *words[] = { program, only, library ? without : NULL, NULL };
    optind = 1;
    return fault_cases_main(library ? 3 : 2, words, operations) != 0;
}

static bool is_lost(struct operation operation, unsigned kind)
{
    return is_lost_without(NULL, operation, kind);
}

static bool is_lost_in(void (*act)(struct trial *t), unsigned kind)
{
    const struct trial_steps steps = { prepare_nothing, act, check_file };
    return is_lost((struct operation){ .name = "made-up",
                                       .kinds = BIT(kind),
                                       .at_once = 8,
                                       .run = trial_run,
                                       .context = &steps },
                   kind);
}

TEST(plain, a_sound_operation_loses_nothing)
{
    static const unsigned kinds[] = { KIND_FULL,       KIND_WRITE, KIND_WRITE_SHORT,
                                      KIND_DESCRIPTOR, KIND_NAME,  KIND_INTERRUPTED,
                                      KIND_KILL,       KIND_TEAR,  KIND_STEP };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        assert_false(is_lost_in(act_soundly, kinds[i]));
}

TEST(plain, a_descriptor_that_is_left_open_is_noticed)
{
    assert_true(is_lost_in(act_leaking, KIND_FULL));
    assert_false(is_lost_in(act_leaking, KIND_NAME));
}

TEST(plain, no_fault_is_injected_into_an_omitted_library)
{
    const struct trial_steps steps = { prepare_nothing, act_leaking, check_file };
    const struct operation leaking = {
        .name = "made-up", .kinds = BIT(KIND_FULL), .run = trial_run, .context = &steps
    };
    assert_true(is_lost_without("libsqlite3", leaking, KIND_FULL));
    assert_false(is_lost_without(program_invocation_short_name, leaking, KIND_FULL));
}

TEST(plain, a_program_that_mishandles_short_or_interrupted_writes_is_noticed)
{
    assert_true(is_lost_in(act_hastily, KIND_WRITE_SHORT));
    assert_true(is_lost_in(act_hastily, KIND_INTERRUPTED));
    assert_false(is_lost_in(act_hastily, KIND_FULL));
}

TEST(plain, a_failure_without_a_message_is_noticed)
{
    assert_true(is_lost_in(act_silently, KIND_WRITE));
}

TEST(plain, acknowledged_data_that_is_missing_is_noticed)
{
    assert_true(is_lost_in(act_lying, KIND_WRITE));
    assert_true(is_lost_in(act_lying, KIND_DESCRIPTOR));
}

TEST(plain, stores_that_do_not_add_up_are_noticed)
{
    for (size_t i = 0; i < STORES; i++) {
        const struct broken *store = &stores[i];
        const struct operation look = {
            .name = store->name, .kinds = BIT(KIND_KILL), .run = look_at_store, .context = store
        };
        if (is_lost(look, KIND_KILL) != (*store->sql != '\0'))
            fail_msg("'%s' is taken for the opposite", store->name);
    }
}

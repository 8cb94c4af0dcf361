/* SPDX-License-Identifier: MIT */

/* Kills a change with SIGKILL at any moment. The change is an import, a put, a merge, a promotion
 * of all records, or a promotion by problem. If it was acknowledged, it must be stored completely,
 * and otherwise completely or not at all. Only a merge may be stored in part: it stores its records
 * in steps, from the first one on. No temporary file may stay. */
#include "facade_fixture.h"

#include "common/base/clock.h"
#include "tests/support/child.h"
#include "tests/support/repeats.h"
#include "tests/support/tuning_work.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLS 10u
#define MANY 1500u /* records of an import, a merge, a promotion */
#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"
#define KEY_ROOM 80
/* A merge keeps the faster time, so version n of a record has the time SLOWEST - n. */
#define SLOWEST 1000000u

/* Number of keys in a promotion by problem. Each problem (command line) has two keys. */
#define NAMED 6u

enum change { IMPORT, PUT, MERGE, PROMOTE, PROMOTE_NAMED, CHANGES };
static const char *const names[CHANGES] = { "import", "put", "merge", "promote",
                                            "promote by problem" };

/* All records of a change must have the same version. Version 0 means that there is no record. */
struct seen {
    unsigned versions[CHANGES];
    /* whether the last records of a merge have an older version than the first ones */
    bool is_partial;
};

static void key_of(enum change what, unsigned number, char key[KEY_ROOM])
{
    static const unsigned channels[CHANGES] = { 8, 16, 32, 32, 48 };
    if (what == PROMOTE_NAMED && number % 2)
        snprintf(key, KEY_ROOM, "2x48x56x56x1x3x3x1x64x%ux1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF",
                 number / 2 + 1);
    else
        snprintf(key, KEY_ROOM, "%u-56-56-3x3-64-56-56-%u-1x1-1x1-1x1-0-NCHW-FP32-F",
                 channels[what], what == PROMOTE_NAMED ? number / 2 + 1 : number + 1);
}

static enum tuning_kind kind_of(enum change what, unsigned number)
{
    return what == PROMOTE_NAMED && number % 2 ? TUNING_PERF : TUNING_FIND;
}

static unsigned version_of(struct fixture *f, enum change what, unsigned number)
{
    char key[KEY_ROOM];
    unsigned time = 0;
    uint32_t uid = what == PUT || what == MERGE ? ALICE : BOB;
    key_of(what, number, key);
    const char *value =
        kind_of(what, number) == TUNING_PERF ? perf_value(f, uid, key) : find_value(f, uid, key);
    if (*value)
        assert_int_equal(sscanf(value, "Conv%*c:%u,", &time), 1);
    return time ? SLOWEST - time : 0;
}

static unsigned count_of(enum change what)
{
    return what == PUT ? 1 : what == PROMOTE_NAMED ? NAMED : MANY;
}

static struct seen look(struct fixture *f)
{
    struct seen seen = { .is_partial = false };
    must(reopen(f), f->err);
    assert_string_equal(f->notice, "");
    assert_true(files(f, "find-", ".kti", NULL) <= 1);
    for (enum change what = IMPORT; what < CHANGES; what++) {
        seen.versions[what] = version_of(f, what, 0);
        for (unsigned i = 1, last = seen.versions[what]; i < count_of(what); i++) {
            unsigned version = version_of(f, what, i);
            seen.is_partial |= what == MERGE && version < last;
            assert_true(what == MERGE ? version <= last : version == last);
            last = version;
        }
    }
    close_tuning(f);
    return seen;
}

static void write_records(struct fixture *f, const char *name, enum change what, unsigned version)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1u << 20);
    for (unsigned i = 0; i < MANY; i++) {
        char key[KEY_ROOM], line[200];
        key_of(what, i, key);
        int size = snprintf(line, sizeof(line), "%s=ConvA:%u,0,miopenConvolutionFwdAlgoDirect\n",
                            key, SLOWEST - version);
        buffer_put(&text, line, (size_t)size);
    }
    buffer_put_u8(&text, '\0');
    write_source(f, name, (const char *)text.data);
}

/* Each version of Alice's records is faster than the previous one. */
static void put_named(struct fixture *f, unsigned version)
{
    must(reopen(f), f->err);
    for (unsigned i = 0; i < NAMED; i++) {
        char key[KEY_ROOM], values[64];
        enum tuning_kind kind = kind_of(PROMOTE_NAMED, i);
        key_of(PROMOTE_NAMED, i, key);
        snprintf(values, sizeof(values),
                 kind == TUNING_PERF ? "%u,1"
                                     : "%u,0,miopenConvolutionFwd"
                                       "AlgoDirect",
                 SLOWEST - version);
        const struct measured m = { TUNING_TIER_USER,  ALICE,  kind,          key,
                                    "ConvK",           values, NULL,          1,
                                    SLOWEST - version, 0,      1000 + version };
        must(put(f, &m), f->err);
    }
    close_tuning(f);
}

static enum kiln_code promote_named(struct fixture *f, struct tuning_job **ret_job)
{
    char keys[NAMED][KEY_ROOM];
    struct tuning_key named[NAMED];
    for (unsigned i = 0; i < NAMED; i++) {
        key_of(PROMOTE_NAMED, i, keys[i]);
        named[i] = (struct tuning_key){ kind_of(PROMOTE_NAMED, i), bytes_of_text(keys[i]) };
    }
    const struct tuning_selection selection = {
        .by_uid = true, .uid = ALICE, .keys = named, .key_count = NAMED
    };
    return tuning_job_promote(f->t, &selection, &f->promotion, ret_job, &f->err);
}

static enum kiln_code make_job(struct fixture *f, enum change what, unsigned version,
                               struct tuning_job **ret_job)
{
    char key[KEY_ROOM], values[64];
    key_of(PUT, 0, key);
    snprintf(values, sizeof(values), "%u,0,miopenConvolutionFwdAlgoDirect", SLOWEST - version);
    struct measured m = {
        TUNING_TIER_USER, ALICE, TUNING_FIND, key, "ConvA", values, 0, 0, 0, 0, 0
    };
    struct tuning_row row = row_of(&m);
    struct tuning_selection selection = { .by_uid = true, .uid = ALICE, .solver = "ConvA" };
    struct tuning_import import =
        import_of(f, what == IMPORT ? SYSTEM : USER_FILE,
                  what == IMPORT ? TUNING_TIER_SYSTEM : TUNING_TIER_USER, ALICE);
    switch (what) {
    case IMPORT: return tuning_job_import(f->t, &import, ret_job, &f->err);
    case PUT: return tuning_job_put(f->t, &row, 1, ret_job, &f->err);
    case MERGE: return tuning_job_merge(f->t, &import, ret_job, &f->err);
    case PROMOTE_NAMED: return promote_named(f, ret_job);
    default: return tuning_job_promote(f->t, &selection, &f->promotion, ret_job, &f->err);
    }
}

/* Writes "b" before the change and "d" after it, then waits to be killed. */
static void run_child(struct fixture *f, enum change what, unsigned version, int progress)
{
    struct tuning_job *job = NULL;
    if (reopen(f) != KILN_OK || make_job(f, what, version, &job) != KILN_OK ||
        write(progress, "b", 1) != 1)
        _exit(1);
    if (work_all_steps(f->t, job, NULL, &f->err) != KILN_OK || write(progress, "d", 1) != 1)
        _exit(1);
    pause();
    _exit(1);
}

/* Kills the change |after_ns| after its begin, and returns whether it was acknowledged. If
 * |after_ns| is 0, waits until the change ends and stores its duration in |ret_span_ns|. */
static bool kill_child(struct fixture *f, enum change what, unsigned version, uint64_t after_ns,
                       uint64_t *ret_span_ns)
{
    int ends[2];
    char letter = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_child(f, what, version, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &letter, 1), 1);
    uint64_t start = clock_monotonic_ns();
    struct pollfd p = { .fd = ends[0], .events = POLLIN };
    struct timespec wait = { .tv_sec = (time_t)(after_ns / 1000000000u),
                             .tv_nsec = (long)(after_ns % 1000000000u) };
    IN_TIME(ppoll(&p, 1, after_ns ? &wait : NULL, NULL));
    if (ret_span_ns)
        *ret_span_ns = clock_monotonic_ns() - start;
    kill(child, SIGKILL);
    int status = await_child(child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    bool done = read(ends[0], &letter, 1) == 1;
    assert_true(!done || letter == 'd');
    close(ends[0]);
    return done;
}

static void write_source_of(struct fixture *f, enum change what, unsigned version)
{
    if (what == IMPORT)
        write_records(f, SYSTEM, IMPORT, version);
    else if (what == PROMOTE_NAMED)
        put_named(f, version);
    else
        write_records(f, USER_FILE, MERGE, version);
}

static unsigned wanted_version(enum change what, const struct seen *before, unsigned version)
{
    return what == PROMOTE ? before->versions[MERGE] : version;
}

static void check(enum change what, const struct seen *before, const struct seen *now,
                  unsigned version, bool done)
{
    for (enum change i = IMPORT; i < CHANGES; i++) {
        bool is_before = now->versions[i] == before->versions[i];
        bool is_after = i == what && now->versions[i] == wanted_version(what, before, version);
        assert_true(is_before || is_after);
        assert_true(!done || i != what || (is_after && !now->is_partial));
    }
}

static struct seen merge_all(struct fixture *f, unsigned version)
{
    uint64_t span_ns;
    write_source_of(f, MERGE, version);
    assert_true(kill_child(f, MERGE, version, 0, &span_ns));
    struct seen seen = look(f);
    assert_false(seen.is_partial);
    assert_int_equal(seen.versions[MERGE], version);
    return seen;
}

TEST_F(facade, a_killed_change_happened_or_did_not)
{
    unsigned kills = test_repeats(KILLS), seed = 1, version = 0;
    unsigned acknowledged[CHANGES] = { 0 }, befores[CHANGES] = { 0 }, parts = 0;
    uint64_t spans_ns[CHANGES];
    struct seen before = { .is_partial = false };
    close_tuning(f);
    for (enum change what = IMPORT; what < CHANGES; what++) {
        write_source_of(f, what, ++version);
        assert_true(kill_child(f, what, version, 0, &spans_ns[what]));
        struct seen now = look(f);
        check(what, &before, &now, version, true);
        before = now;
    }

    for (unsigned i = 0; i < kills * CHANGES; i++) {
        enum change what = (enum change)(i % CHANGES);
        write_source_of(f, what, ++version);
        uint64_t after_ns = 1 + (uint64_t)rand_r(&seed) % 1500 * spans_ns[what] / 1000;
        bool done = kill_child(f, what, version, after_ns, NULL);
        struct seen now = look(f);
        check(what, &before, &now, version, done);
        acknowledged[what] += done;
        befores[what] += now.versions[what] == before.versions[what] &&
                         wanted_version(what, &before, version) != before.versions[what];
        parts += now.is_partial;
        before = now.is_partial ? merge_all(f, ++version) : now;
    }

    for (enum change what = IMPORT; what < CHANGES; what++)
        print_message("%s: %u kills, %u changes not there, %u acknowledged\n", names[what], kills,
                      befores[what], acknowledged[what]);
    print_message("%u merges were stored in part\n", parts);
    assert_true(befores[IMPORT] + befores[MERGE] + befores[PROMOTE] > 0);
}

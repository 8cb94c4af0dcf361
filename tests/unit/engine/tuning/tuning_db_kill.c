/* SPDX-License-Identifier: MIT */

/* Kills a change with SIGKILL at any moment. The change must be stored completely or not at all,
 * and completely if it was acknowledged. */
#include "tests/support/child.h"
#include "tests/support/repeats.h"
#include "tuning_db_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLS 50u  /* of each kind of change */
#define MANY 5000u /* records of a big change */
#define ONE 2u     /* the record of a small change */
/* Records with these numbers have short texts. Multiples of 29 have long texts. */
#define NUMBER(i) (29 * (i) + 1)

enum change { PUT_ONE, PUT_MANY, REMOVE_MANY, CHANGES };

struct seen {
    unsigned one;     /* version */
    unsigned many;    /* number of records of a big change */
    unsigned least;   /* least version of these records */
    unsigned largest; /* largest version of these records */
};

static void on_seen(void *context, unsigned number, unsigned version)
{
    struct seen *s = context;
    assert_int_not_equal(version, 0);
    if (number == ONE) {
        s->one = version;
        return;
    }
    s->least = s->many == 0 || version < s->least ? version : s->least;
    s->largest = version > s->largest ? version : s->largest;
    s->many++;
}

static struct seen look(struct fixture *f)
{
    struct seen s = { 0 };
    must(reopen(f), f->err);
    each_found(f, on_seen, &s);
    close_db(f);
    return s;
}

static enum kiln_code change_many(struct fixture *f, unsigned version)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    enum kiln_code rc = tuning_change_begin(f->db, &change, &f->err);
    for (unsigned i = 1; !rc && i <= MANY; i++)
        rc = change_one(change, NUMBER(i), version, &f->err);
    return rc ? rc : tuning_change_commit(change, &f->err);
}

/* Writes "b" before the change and "d" after it, then waits to be killed. */
static void run_child(struct fixture *f, enum change what, unsigned version, int progress)
{
    if (reopen(f) != KILN_OK || write(progress, "b", 1) != 1)
        _exit(1);
    enum kiln_code rc =
        what == PUT_ONE ? put(f, ONE, version) : change_many(f, what == REMOVE_MANY ? 0 : version);
    if (rc || write(progress, "d", 1) != 1)
        _exit(1);
    pause();
    _exit(1);
}

/* Returns whether the change was acknowledged. */
static bool kill_child(struct fixture *f, enum change what, unsigned version, unsigned after_us)
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
    struct pollfd p = { .fd = ends[0], .events = POLLIN };
    struct timespec wait = { .tv_nsec = (long)after_us * 1000 };
    ppoll(&p, 1, &wait, NULL);
    kill(child, SIGKILL);
    int status = await_child(child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    bool done = read(ends[0], &letter, 1) == 1;
    assert_true(!done || letter == 'd');
    close(ends[0]);
    return done;
}

static bool is_before(enum change what, const struct seen *before, const struct seen *now)
{
    return what == PUT_ONE ? now->one == before->one
                           : now->many == before->many && now->largest == before->largest;
}

static bool is_after(enum change what, unsigned version, const struct seen *now)
{
    switch (what) {
    case PUT_ONE: return now->one == version;
    case PUT_MANY: return now->many == MANY && now->least == version;
    default: return now->many == 0;
    }
}

TEST_F(tuning_db, a_killed_change_is_there_whole_or_not_at_all)
{
    unsigned kills = test_repeats(KILLS), seed = 1, befores = 0, acknowledged = 0;
    static const unsigned spans_us[CHANGES] = { 300, 40000, 25000 };
    struct seen before = look(f);

    for (unsigned i = 0; i < kills * CHANGES; i++) {
        enum change what = (enum change)(i % CHANGES);
        unsigned version = i + 1;
        bool done = kill_child(f, what, version, (unsigned)rand_r(&seed) % spans_us[what]);
        struct seen now = look(f);
        bool after = is_after(what, version, &now);
        assert_true(after || is_before(what, &before, &now));
        assert_true(after || !done);
        assert_int_equal(now.least, now.largest);
        befores += !after;
        acknowledged += done;
        before = now;
    }

    print_message("%u kills, %u changes not there, %u acknowledged\n", kills * CHANGES, befores,
                  acknowledged);
    assert_true(befores > 0);
}

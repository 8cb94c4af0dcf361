/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "common/base/fs.h"
#include "common/log/log.h"

#include <errno.h>
#include <linux/fs.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    sem_t begun, go;
    atomic_uint pieces;
} copying;

WRAP(ssize_t, copy_file_range, int from, off_t *from_at, int to, off_t *to_at, size_t size,
     unsigned flags)
{
    assert_true(size > 0);
    copying.pieces++;
    sem_post(&copying.begun);
    WAIT_FOR(sem_trywait(&copying.go) == 0);
    return __real_copy_file_range(from, from_at, to, to_at, 1, flags);
}

static atomic_uint syncs;

WRAP(int, fdatasync, int fd)
{
    syncs++;
    return __real_fdatasync(fd);
}

WRAP(int, fsync, int fd)
{
    syncs++;
    return __real_fsync(fd);
}

static atomic_uint replaced;

WRAP(int, rename, const char *from, const char *to)
{
    replaced += access(to, F_OK) == 0;
    return __real_rename(from, to);
}

/* Fails the test if kilnd uses FICLONE, which makes a copy share the blocks of its source. The
 * filesystem would first write the whole source to the disk, so this one call could take long. */
WRAP(int, ioctl, int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    assert_int_not_equal(request, FICLONE);
    return __real_ioctl(fd, request, argument);
}

static void copy_pieces(unsigned pieces)
{
    for (unsigned i = 0; i < pieces; i++)
        sem_post(&copying.go);
}

static void count_pieces(void)
{
    sem_init(&copying.begun, 0, 0);
    sem_init(&copying.go, 0, 0);
    copying.pieces = 0;
}

static void begin_copy(struct fixture *f, struct transfer *t)
{
    count_pieces();
    start_unit(f);
    open_transfers(f);
    transfers_start(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, sem_trywait(&copying.begun) == 0);
}

static void assert_dropped(struct fixture *f, const struct transfer *t, enum kiln_code code,
                           const char *says)
{
    const struct transfer_result *o = &t->task.result;
    assert_int_equal(o->err.code, code);
    assert_says(o->err.text, says);
    assert_string_equal(o->path, "");
    assert_int_equal(copying.pieces, 1);
    assert_int_equal(files_in_staging(f), 0);
}

TEST_F(transfers, a_file_is_copied_piece_by_piece)
{
    struct transfer t = transfer_of(f, "good");
    begin_copy(f, &t);

    copy_pieces(7);
    wait_for_end(f, &t);

    assert_int_equal(copying.pieces, 7);
    take_result(&t.task.result, "package");
}

TEST_F(transfers, a_package_is_synced_piece_by_piece)
{
    struct transfer t = transfer_of(f, "good");
    syncs = 0;
    begin_copy(f, &t);

    copy_pieces(7);
    wait_for_end(f, &t);

    assert_int_equal(syncs, 7 + 1);
    take_result(&t.task.result, "package");
}

TEST_F(transfers, a_file_that_a_user_imports_is_not_synced)
{
    struct transfer t = transfer_of(f, "good");
    t.task.job.of_user = true;
    syncs = 0;
    begin_copy(f, &t);

    copy_pieces(7);
    wait_for_end(f, &t);

    assert_int_equal(syncs, 0);
    /* renaming over a file would make ext4 write the new file to the disk */
    assert_int_equal(replaced, 0);
    take_result(&t.task.result, "package");
}

static atomic_uint others_begun;
static unsigned others_ended;

static void begin_other(struct task *task)
{
    (void)task;
    atomic_fetch_add(&others_begun, 1);
}

static void end_other(struct task *task)
{
    (void)task;
    others_ended++;
}

/* As many copies run as there are reader threads, so all reader threads are busy. */
TEST_F(transfers, tasks_of_other_users_run_between_the_steps_of_copies)
{
    struct transfer copies[READERS];
    struct task other = { .work = begin_other, .done = end_other, .uid = 4000 };
    others_ended = 0;
    for (unsigned i = 0; i < READERS; i++)
        copies[i] = transfer_of(f, "good");
    begin_copy(f, &copies[0]);
    for (unsigned i = 1; i < READERS; i++) {
        transfers_start(f->transfers, &copies[i].task);
        LOOP_UNTIL(f->loop, sem_trywait(&copying.begun) == 0);
    }

    work_queues_run(f->work_queues, WORK_QUEUE_READ, &other);
    copy_pieces(1);
    LOOP_UNTIL(f->loop, others_ended == 1);

    assert_true(copying.pieces < 7 * READERS);
    copy_pieces(7 * READERS);
    for (unsigned i = 0; i < READERS; i++) {
        wait_for_end(f, &copies[i]);
        take_result(&copies[i].task.result, "package");
    }
}

TEST_F(transfers, a_cancelled_transfer_is_not_copied_to_its_end)
{
    struct transfer t = transfer_of(f, "good");
    begin_copy(f, &t);

    transfers_cancel(f->transfers, &t.task);
    copy_pieces(7);
    wait_for_end(f, &t);

    assert_dropped(f, &t, KILN_CANCELLED, "cancelled");
}

TEST_F(transfers, a_stop_does_not_wait_for_a_whole_copy)
{
    struct transfer t = transfer_of(f, "good");
    begin_copy(f, &t);

    transfers_stop(f->transfers);
    copy_pieces(7);
    wait_for_end(f, &t);

    assert_dropped(f, &t, KILN_UNAVAILABLE, "shutting");
}

static bool litter_stays;
static char logged[512];

WRAP(int, unlinkat, int parent, const char *name, int flags)
{
    if (!litter_stays || strcmp(name, "litter") != 0)
        return __real_unlinkat(parent, name, flags);
    errno = EACCES;
    return -1;
}

KILN_PRINTF(3, 4)
WRAP(void, log_event, enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    (void)fields;
    va_list args;
    va_start(args, fmt);
    if (event == LOG_EVENT_directory_left)
        vsnprintf(logged, sizeof(logged), fmt, args);
    va_end(args);
}

TEST_F(transfers, a_leftover_that_cannot_be_removed_is_reported_and_the_transfer_counts)
{
    struct transfer t = transfer_of(f, "good");
    logged[0] = '\0';
    litter_stays = true;
    count_pieces();
    copy_pieces(7);

    const struct transfer_result *o = run_transfer(f, &t);
    litter_stays = false;

    take_result(o, "package");
    assert_says(logged, "'litter'");
    assert_says(logged, f->staging);
    assert_int_equal(files_in_staging(f), 1);
    must(fs_empty(f->staging, &f->err), f->err);
}

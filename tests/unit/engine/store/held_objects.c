/* SPDX-License-Identifier: MIT */
#include "engine/store/held_objects.h"

#include "engine/store/hot_set.h"
#include "store_fixture.h"
#include "tests/support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>

#define ANN 1000
#define BOB 1001
#define CAROL 1002
#define SIZE (64u << 10)
#define NS_A_SECOND 1000000000u

static int watch_error; /* errno of inotify_add_watch; 0: the call works */
static bool loses_events, has_no_proc;
static uint64_t later_ns; /* time since the clock's start; only the test advances it */

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    errno = watch_error;
    return watch_error ? -1 : __real_inotify_add_watch(fd, path, mask);
}

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!loses_events)
        return __real_read(fd, to, size);
    while (__real_read(fd, to, size) > 0)
        ;
    const struct inotify_event overflow = { .wd = -1, .mask = IN_Q_OVERFLOW };
    memcpy(to, &overflow, sizeof(overflow));
    loses_events = false;
    return sizeof(overflow);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    return has_no_proc ? NULL : __real_fopen(path, mode);
}

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return 1 + later_ns; }

struct fixture_held {
    struct held_objects *held;
    struct kiln_err err;
};

SET_UP_OF(set_up, struct fixture_held)
{
    const struct held_limits limits = { .bytes_uid = 4 * SIZE, .bytes = 16 * SIZE };
    watch_error = 0;
    has_no_proc = false;
    later_ns = 0;
    must(held_objects_create(&limits, &f->held, &f->err), f->err);
}

TEAR_DOWN_OF(tear_down, struct fixture_held) { held_objects_destroy(f->held); }

FIXTURE_OF(held, struct fixture_held, set_up, tear_down);

static enum kiln_code try_send(struct fixture_held *f, struct object *object, uid_t uid)
{
    assert_true(object_reserve(object, uid));
    return held_objects_count(f->held, object, &f->err);
}

/* Sends a new object to user |uid|. Returns the descriptor that the user's process gets. */
static int send_one(struct fixture_held *f, uid_t uid, struct object **ret_object)
{
    *ret_object = object_of(SIZE, 1, false);
    assert_int_equal(try_send(f, *ret_object, uid), KILN_OK);
    int fd = dup((*ret_object)->fd);
    assert_true(fd >= 0);
    return fd;
}

static int send_and_close(struct fixture_held *f, uid_t uid)
{
    struct object *object;
    int fd = send_one(f, uid, &object);
    object_unref(object);
    return fd;
}

static uint64_t swept_bytes(struct fixture_held *f)
{
    held_objects_sweep(f->held);
    return held_objects_bytes(f->held);
}

TEST_F(held, an_object_counts_from_its_first_sending_until_kilnd_and_its_receiver_closed_it)
{
    struct object *object;
    int fd = send_one(f, ANN, &object);
    assert_int_equal(try_send(f, object, ANN), KILN_OK);
    assert_int_equal(swept_bytes(f), SIZE);
    object_unref(object);
    assert_int_equal(swept_bytes(f), SIZE);
    assert_int_equal(held_objects_closed(f->held), 1);
    close(fd);
    assert_int_equal(swept_bytes(f), 0);
    assert_int_equal(held_objects_closed(f->held), 0);
}

TEST_F(held, an_object_that_nobody_has_open_is_free_when_kilnd_closes_it)
{
    close(send_and_close(f, ANN));
    struct object *object;
    close(send_one(f, ANN, &object));
    object_unref(object);
    assert_int_equal(held_objects_bytes(f->held), 0);
}

TEST_F(held, an_object_that_is_only_mapped_counts)
{
    int fd = send_and_close(f, ANN);
    void *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    assert_int_equal(swept_bytes(f), SIZE);
    munmap(map, SIZE);
    assert_int_equal(swept_bytes(f), 0);
}

/* fcntl(2) grants a write lease only if nobody else has the object open, but ignores O_PATH
 * descriptors. A process can open such a descriptor again, so the object must count. */
TEST_F(held, an_object_that_is_only_opened_as_a_path_counts)
{
    char path[64];
    int fd = send_and_close(f, ANN);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int as_path = open(path, O_PATH | O_CLOEXEC);
    assert_true(as_path >= 0);
    close(fd);
    assert_int_equal(swept_bytes(f), SIZE);
    close(as_path);
    assert_int_equal(swept_bytes(f), 0);
}

TEST_F(held, the_death_of_the_receiver_gives_everything_back)
{
    struct object *object;
    int fd = send_one(f, ANN, &object);
    pid_t client = fork();
    assert_true(client >= 0);
    if (client == 0) {
        for (;;)
            pause();
    }
    close(fd);
    object_unref(object);
    assert_int_equal(swept_bytes(f), SIZE);
    kill(client, SIGKILL);
    (void)await_child(client);
    assert_int_equal(swept_bytes(f), 0);
}

TEST_F(held, a_user_beyond_the_share_is_refused_and_others_are_not)
{
    int fds[4];
    for (unsigned i = 0; i < 4; i++)
        fds[i] = send_and_close(f, ANN);
    struct object *more = object_of(SIZE, 1, false), *other = object_of(SIZE, 1, false);
    assert_int_equal(try_send(f, more, ANN), KILN_BUSY);
    assert_says(f->err.text, "256 KiB");
    assert_int_equal(try_send(f, other, BOB), KILN_OK);
    close(fds[0]);
    assert_int_equal(try_send(f, more, ANN), KILN_OK);
    object_unref(more);
    object_unref(other);
    for (unsigned i = 1; i < 4; i++)
        close(fds[i]);
    assert_int_equal(swept_bytes(f), 0);
}

TEST_F(held, a_user_gets_at_most_half_of_what_others_leave)
{
    const struct held_limits limits = { .bytes_uid = 4 * SIZE, .bytes = 8 * SIZE };
    held_objects_set_limits(f->held, &limits);
    struct object *objects[7];
    for (unsigned i = 0; i < 7; i++)
        objects[i] = object_of(SIZE, 1, false);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(try_send(f, objects[i], ANN), KILN_OK);
    assert_int_equal(try_send(f, objects[4], BOB), KILN_OK);
    assert_int_equal(try_send(f, objects[5], BOB), KILN_OK);
    assert_int_equal(try_send(f, objects[6], BOB), KILN_BUSY);
    assert_false(held_objects_exceed(f->held, objects[0]));
    for (unsigned i = 0; i < 7; i++)
        object_unref(objects[i]);
}

TEST_F(held, a_small_object_counts_as_64_kib)
{
    struct object *small = object_of(100, 1, false), *large = object_of(SIZE + 1, 1, false);
    assert_int_equal(try_send(f, small, ANN), KILN_OK);
    assert_int_equal(held_objects_bytes(f->held), HELD_OBJECT_MIN);
    assert_int_equal(try_send(f, large, ANN), KILN_OK);
    assert_int_equal(held_objects_bytes(f->held), HELD_OBJECT_MIN + SIZE + 4096);
    object_unref(small);
    object_unref(large);
}

TEST(plain, an_object_is_reserved_for_its_first_receiver)
{
    struct object *object = object_of(100, 1, false);
    assert_true(object_reserve(object, ANN));
    assert_true(object_reserve(object, ANN));
    assert_false(object_reserve(object, BOB));
    object_unref(object);
}

TEST_F(held, without_a_limit_nothing_counts)
{
    const struct held_limits none = { 0 };
    held_objects_set_limits(f->held, &none);
    struct object *object = object_of(SIZE, 1, false);
    assert_int_equal(try_send(f, object, ANN), KILN_OK);
    assert_int_equal(held_objects_bytes(f->held), 0);
    object_unref(object);
}

TEST_F(held, objects_that_kilnd_still_has_are_returned_in_turn)
{
    struct object *first, *second;
    assert_null(held_objects_next(f->held, ANN));
    close(send_one(f, ANN, &first));
    close(send_one(f, ANN, &second));
    assert_ptr_equal(held_objects_next(f->held, ANN), first);
    assert_ptr_equal(held_objects_next(f->held, ANN), second);
    assert_ptr_equal(held_objects_next(f->held, ANN), first);
    assert_null(held_objects_next(f->held, BOB));
    object_unref(first);
    assert_ptr_equal(held_objects_next(f->held, ANN), second);
    object_unref(second);
}

static void assert_counts_for_ten_minutes(struct fixture_held *f)
{
    assert_int_equal(held_objects_unwatched(f->held), 1);
    assert_int_equal(held_objects_closed(f->held), 1);
    later_ns = (HELD_UNKNOWN_S - 2ull) * NS_A_SECOND;
    assert_int_equal(swept_bytes(f), SIZE);
    later_ns = (HELD_UNKNOWN_S + 2ull) * NS_A_SECOND;
    assert_int_equal(swept_bytes(f), 0);
}

TEST_F(held, an_object_that_cannot_be_watched_counts_for_ten_minutes)
{
    watch_error = ENOSPC;
    close(send_and_close(f, ANN));
    assert_counts_for_ten_minutes(f);
}

TEST_F(held, an_object_counts_for_ten_minutes_if_there_is_no_proc)
{
    watch_error = ENOENT;
    close(send_and_close(f, ANN));
    assert_counts_for_ten_minutes(f);
}

TEST_F(held, closed_objects_are_noticed_even_if_events_were_lost)
{
    int fds[5];
    for (unsigned i = 0; i < 5; i++)
        fds[i] = send_and_close(f, i < 4 ? ANN : BOB);
    close(fds[1]);
    close(fds[2]);
    loses_events = true;
    assert_int_equal(swept_bytes(f), 3 * SIZE);
    assert_int_equal(held_objects_unwatched(f->held), 0);
    later_ns = (HELD_UNKNOWN_S + 2ull) * NS_A_SECOND;
    assert_int_equal(swept_bytes(f), 3 * SIZE);
    close(fds[0]);
    close(fds[3]);
    close(fds[4]);
    assert_int_equal(swept_bytes(f), 0);
}

TEST_F(held, an_object_counts_for_ten_minutes_if_its_event_was_lost_and_there_is_no_proc)
{
    int fd = send_and_close(f, ANN);
    loses_events = has_no_proc = true;
    held_objects_sweep(f->held);
    close(fd);
    assert_counts_for_ten_minutes(f);
}

TEST_F(held, objects_that_are_held_at_the_end_are_forgotten)
{
    int watched = send_and_close(f, ANN);
    watch_error = EPERM;
    int unwatched = send_and_close(f, CAROL);
    held_objects_destroy(f->held);
    f->held = NULL;
    close(watched);
    close(unwatched);
}

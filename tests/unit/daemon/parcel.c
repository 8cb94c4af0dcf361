/* SPDX-License-Identifier: MIT */
#include "daemon/manager/parcel.h"
#include "common/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MANY 1000u /* several messages' worth */

struct fixture {
    struct parcel parcel;
    struct kiln_err err;
    int files[MANY];
    unsigned count;
    int ends[2];
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.err = KILN_ERR_INIT;
    f.ends[0] = f.ends[1] = -1;
    *state = &f;
    return 0;
}

static void close_ends(struct fixture *f)
{
    for (int i = 0; i < 2; i++) {
        if (f->ends[i] >= 0)
            close(f->ends[i]);
        f->ends[i] = -1;
    }
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    parcel_done(&f->parcel);
    for (unsigned i = 0; i < f->count; i++)
        close(f->files[i]);
    close_ends(f);
    return 0;
}

FIXTURE(parcel, setup, teardown);

/* Each of another size, to tell them apart. */
static void make_files(struct fixture *f, unsigned count)
{
    for (; f->count < count; f->count++) {
        must(fs_memfd("some", &f->files[f->count], &f->err), f->err);
        assert_int_equal(ftruncate(f->files[f->count], f->count + 1), 0);
    }
}

static enum kiln_code pack(struct fixture *f, const char *index)
{
    return parcel_pack(bytes_of_text(index), f->files, f->count, f->ends, &f->err);
}

static enum kiln_code unpack(struct fixture *f)
{
    return parcel_unpack(f->ends[0], &f->parcel, &f->err);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(parcel, many_descriptors_come_out_in_order_with_their_index)
{
    struct fixture *f = *state;
    make_files(f, MANY);
    must(pack(f, "what they are"), f->err);
    close(f->ends[1]); /* nobody has to hold the other end to read it */
    f->ends[1] = -1;
    must(unpack(f), f->err);
    assert_int_equal(f->parcel.count, MANY);
    assert_true(bytes_equal_text(buffer_view(&f->parcel.index), "what they are"));
    for (unsigned i = 0; i < MANY; i++) {
        struct stat seen;
        assert_int_equal(fstat(f->parcel.fds[i], &seen), 0);
        assert_int_equal(seen.st_size, i + 1);
        assert_int_equal(fcntl(f->parcel.fds[i], F_GETFD), FD_CLOEXEC);
    }
}

TEST(parcel, descriptors_outlive_whoever_packed_them)
{
    struct fixture *f = *state;
    make_files(f, 3);
    must(pack(f, "index"), f->err);
    while (f->count > 0)
        close(f->files[--f->count]);
    must(unpack(f), f->err);
    struct stat seen;
    assert_int_equal(fstat(f->parcel.fds[2], &seen), 0);
    assert_int_equal(seen.st_size, 3);
}

TEST(parcel, an_index_alone_is_a_parcel_of_nothing)
{
    struct fixture *f = *state;
    must(pack(f, "index"), f->err);
    must(unpack(f), f->err);
    assert_int_equal(f->parcel.count, 0);
}

TEST(parcel, the_other_end_and_an_empty_one_are_no_parcel)
{
    struct fixture *f = *state;
    make_files(f, 1);
    must(pack(f, "index"), f->err);
    assert_int_equal(parcel_unpack(f->ends[1], &f->parcel, &f->err), KILN_NOT_FOUND);
    must(unpack(f), f->err);
    parcel_done(&f->parcel);
    assert_int_equal(unpack(f), KILN_NOT_FOUND);
}

TEST(parcel, what_is_not_taken_is_closed)
{
    struct fixture *f = *state;
    make_files(f, 300);
    must(pack(f, "index"), f->err);
    unsigned before = open_descriptors();
    must(unpack(f), f->err);
    assert_int_equal(open_descriptors(), before + 300);
    parcel_done(&f->parcel);
    assert_int_equal(open_descriptors(), before);
}

TEST(parcel, a_file_and_another_kind_of_socket_are_refused)
{
    struct fixture *f = *state;
    make_files(f, 1);
    assert_int_equal(parcel_unpack(f->files[0], &f->parcel, &f->err), KILN_INVALID);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, f->ends), 0);
    assert_int_equal(unpack(f), KILN_INVALID);
}

/* A message of |sort| with one descriptor, or none. */
static void put(int end, char sort, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec byte = { .iov_base = &sort, .iov_len = 1 };
    struct msghdr m = { .msg_iov = &byte, .msg_iovlen = 1 };
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof(control.room);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    assert_int_equal(sendmsg(end, &m, 0), 1);
}

static void open_pair(struct fixture *f)
{
    close_ends(f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, f->ends), 0);
}

TEST(parcel, a_queue_that_kilnd_did_not_fill_is_refused_and_leaks_nothing)
{
    struct fixture *f = *state;
    make_files(f, 1);
    open_pair(f);
    unsigned before = open_descriptors();
    put(f->ends[1], 'f', f->files[0]); /* no index in front */
    assert_int_equal(unpack(f), KILN_CORRUPT);

    put(f->ends[1], 'i', -1); /* an index without a file */
    assert_int_equal(unpack(f), KILN_CORRUPT);

    put(f->ends[1], 'i', f->files[0]); /* one that could change under our eyes */
    assert_int_equal(unpack(f), KILN_CORRUPT);

    must(fs_seal(f->files[0], &f->err), f->err);
    put(f->ends[1], 'i', f->files[0]);
    put(f->ends[1], 'i', f->files[0]); /* two of them */
    assert_int_equal(unpack(f), KILN_CORRUPT);
    assert_int_equal(open_descriptors(), before);
}

/* Descriptors for which there is no room are closed by the kernel; the rest must not be used. */
TEST(parcel, a_parcel_that_does_not_fit_the_limit_of_open_files_is_refused)
{
    struct fixture *f = *state;
    int status;
    make_files(f, 100);
    must(pack(f, "index"), f->err);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit few = { open_descriptors() + 10, open_descriptors() + 10 };
        if (setrlimit(RLIMIT_NOFILE, &few) < 0)
            _exit(90);
        unsigned before = open_descriptors();
        enum kiln_code rc = unpack(f);
        _exit(rc == KILN_FULL && open_descriptors() == before ? 0 : 91);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(parcel, a_parcel_of_another_user_is_refused)
{
    struct fixture *f = *state;
    int status;
    if (geteuid() != 0)
        skip();
    must(pack(f, "index"), f->err);
    pid_t child = fork();
    if (child == 0)
        _exit(setresuid(65534, 65534, 65534) < 0 || unpack(f) != KILN_DENIED);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(parcel, more_than_fits_is_refused_before_anything_is_sent)
{
    struct fixture *f = *state;
    assert_int_equal(
        parcel_pack(bytes_of_text("i"), f->files, PARCEL_FILES_MOST + 1, f->ends, &f->err),
        KILN_FULL);
    assert_int_equal(f->ends[0], -1);
}

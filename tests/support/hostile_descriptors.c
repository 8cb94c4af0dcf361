/* SPDX-License-Identifier: MIT */
#include "tests/support/hostile_descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define PARAMETERS_BYTES 120 /* size of the parameters of io_uring_setup(2) */

static int memory_file(int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (write(fd, "nothing of use", 14) != 14 || fcntl(fd, F_ADD_SEALS, seals) != 0))
        abort();
    return fd;
}

static int open_unsealed(void) { return memory_file(0); }
static int open_sealed_in_part(void) { return memory_file(F_SEAL_SHRINK | F_SEAL_WRITE); }
static int open_sealed(void) { return memory_file(ALL_SEALS); }
static int open_unsealable(void) { return memfd_create("hostile", MFD_CLOEXEC); }

static int open_made(int (*make)(const char *path), int flags)
{
    char directory[] = "/tmp/kiln-test-hostile-XXXXXX", path[64];
    if (!mkdtemp(directory))
        abort();
    snprintf(path, sizeof(path), "%s/it", directory);
    int fd = make(path) == 0 ? open(path, flags | O_CLOEXEC) : -1;
    unlink(path);
    rmdir(directory);
    return fd;
}

static int make_fifo(const char *path) { return mkfifo(path, 0600); }

static int make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 ? close(fd) : -1;
}

/* Opens a FIFO for reading and writing. No process writes to it, so a read blocks forever. */
static int open_fifo(void) { return open_made(make_fifo, O_RDWR); }
static int open_write_only(void) { return open_made(make_file, O_WRONLY); }
static int open_path(void) { return open_made(make_file, O_PATH); }
static int open_empty(void) { return open_made(make_file, O_RDONLY); }
static int open_zero(void) { return open("/dev/zero", O_RDONLY | O_CLOEXEC); }
static int open_directory(void) { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }
static int open_own_memory(void) { return open("/proc/self/mem", O_RDWR | O_CLOEXEC); }
static int open_own_maps(void) { return open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }
static int open_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }
static int open_eventfd(void) { return eventfd(0, EFD_CLOEXEC); }
static int open_timerfd(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); }
static int open_inotify(void) { return inotify_init1(IN_CLOEXEC); }
static int open_pidfd(void) { return (int)syscall(SYS_pidfd_open, getpid(), 0); }

/* Linux 6.7 and later refuse to send io_uring descriptors. */
static bool can_be_sent(int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    char byte = 'x';
    struct iovec part = { &byte, 1 };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control) };
    int ends[2];
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    bool sent = sendmsg(ends[0], &m, MSG_NOSIGNAL) == 1;
    close(ends[0]);
    close(ends[1]);
    return sent;
}

static int open_io_uring(void)
{
    unsigned char parameters[PARAMETERS_BYTES] = { 0 };
    int fd = (int)syscall(SYS_io_uring_setup, 4, parameters);
    if (fd < 0 || can_be_sent(fd))
        return fd;
    close(fd);
    return -1;
}

static int open_socket(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    close(ends[1]);
    return ends[0];
}

const struct hostile_descriptor hostile_descriptors[] = {
    { "a memfd without seals", open_unsealed, .is_regular = true },
    { "a memfd with some seals", open_sealed_in_part, .is_regular = true },
    { "a memfd that cannot be sealed", open_unsealable, .is_regular = true },
    { "a sealed memfd of nonsense", open_sealed, .is_regular = true },
    { "an empty file", open_empty, .is_regular = true },
    { "a FIFO", open_fifo, .is_regular = false },
    { "/dev/zero", open_zero, .is_regular = false },
    { "a directory", open_directory, .is_regular = false },
    { "a socket", open_socket, .is_regular = false },
    { "an epoll descriptor", open_epoll, .is_regular = false },
    { "an eventfd", open_eventfd, .is_regular = false },
    { "a timerfd", open_timerfd, .is_regular = false },
    { "an inotify descriptor", open_inotify, .is_regular = false },
    { "a pidfd", open_pidfd, .is_regular = false },
    { "an io_uring", open_io_uring, .is_regular = false },
    { "/proc/self/mem", open_own_memory, .is_regular = true },
    { "/proc/self/maps", open_own_maps, .is_regular = true },
    { "a file opened for writing alone", open_write_only, .is_regular = true },
    { "a file opened by O_PATH", open_path, .is_regular = true },
};
const size_t hostile_descriptor_count =
    sizeof(hostile_descriptors) / sizeof(hostile_descriptors[0]);

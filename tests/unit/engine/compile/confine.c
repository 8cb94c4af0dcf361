/* SPDX-License-Identifier: MIT */
/* Each test runs a process in the complete sandbox of a compiler, and attempts what must fail. If
 * the host lacks a sandbox layer, as in a container, the tests of that layer are skipped. */
#include "engine/compile/confine.h"

#include "common/base/fs.h"
#include "engine/sandbox/capabilities.h"
#include "engine/sandbox/change_user.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/support/wait.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
/* time limit for the end of the processes, enough even on a loaded machine */
#define ENDING_MS 60000
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* With a sanitizer, a fork takes milliseconds. Only the values of the limits are then checked. */
#define FORKS_MAX 0
#else
#define FORKS_MAX 20000
#endif

struct seen {
    struct sandbox_report report;
    struct kiln_err err;
    long numbers[4];
    char text[200];
};

struct fixture {
    const char *directory;
    struct seen *seen;   /* shared with the confined process */
    pid_t outside;       /* a process that the confined process must not reach: the test itself */
    uint64_t free_space; /* bytes for files in the process's directory; 0: only the disk limits */
};

SET_UP(set_up)
{
    f->directory = test_empty_directory();
    if (geteuid() == 0)
        assert_int_equal(chown(f->directory, NOBODY, NOBODY), 0);
    f->outside = getpid();
    f->seen = test_shared_memory(sizeof(*f->seen));
}

TEAR_DOWN(tear_down) { unlink(test_path(f->directory, "inside")); }

FIXTURE(box, set_up, tear_down);

static bool become_nobody(void *context)
{
    struct kiln_err err = KILN_ERR_INIT;
    (void)context;
    if (geteuid() == 0 && change_user(NOBODY, NOBODY, "test", &err))
        return false;
    return give_up_capabilities();
}

static void enter_sandbox(struct fixture *f)
{
    static struct confinement c;
    bool privileged = has_capability(CAP_SYS_ADMIN);
    if (!privileged && geteuid() == 0 && !become_nobody(NULL))
        _exit(90);
    setpgid(0, 0);
    const struct confine_options options = { .directory = f->directory,
                                             .free_space = f->free_space,
                                             .is_workers_user = geteuid() == 0,
                                             .give_up = become_nobody };
    if (confine_begin(&c, &options, &f->seen->err))
        _exit(91);
    if (!become_nobody(NULL) || chdir(f->directory) != 0)
        _exit(92);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (confine_finish(&c, &f->seen->err))
        _exit(93);
    f->seen->report = c.report;
}

/* Runs |attempt| in the sandbox and returns the wait status. Skips the test if the host lacks
 * |layer|. */
static int run_within(struct fixture *f, enum sandbox_layer layer,
                      void (*attempt)(struct fixture *))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        enter_sandbox(f);
        attempt(f);
        _exit(0);
    }
    int status = await_child(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) >= 90)
        fail_msg("the sandbox cannot be entered (%d): %s", WEXITSTATUS(status), f->seen->err.text);
    SKIP_IF(!report_has(&f->seen->report, layer), "%s", f->seen->report.why);
    return status;
}

static void say(struct fixture *f, const char *what) { strncat(f->seen->text, what, 150); }

static int can_make(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static void write_about(struct fixture *f)
{
    static const char *const places[] = { "/tmp/kiln-test-outside", "/dev/shm/kiln-test-outside",
                                          "/var/tmp/kiln-test-outside", "../outside" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (can_make(places[i]) == 0)
            say(f, places[i]);
    }
    f->seen->numbers[0] = can_make("inside");
    f->seen->numbers[1] = symlink("/etc", "way") == 0 && can_make("way/kiln-test-outside") == 0;
    f->seen->numbers[2] = chmod("/tmp", 0777) == 0 || rename("inside", "/tmp/kiln-test-out") == 0;
    unlink("way");
}

TEST_F(box, only_the_private_directory_is_writable)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_landlock, write_about), 0);
    assert_string_equal(f->seen->text, "");
    assert_int_equal(f->seen->numbers[0], 0);
    assert_int_equal(f->seen->numbers[1], 0);
    assert_int_equal(f->seen->numbers[2], 0);
}

static void read_about(struct fixture *f)
{
    static const char *const places[] = { "/etc/shadow",
                                          "/etc/passwd",
                                          "/",
                                          "/etc",
                                          "/root",
                                          "/home",
                                          "/var/log",
                                          "/run",
                                          "/sys",
                                          "/sys/devices/system/cpu/online",
                                          "/sys/class/net/lo/address" };
    char environment[64];
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (open(places[i], O_RDONLY | O_CLOEXEC) >= 0)
            say(f, places[i]);
    }
    snprintf(environment, sizeof(environment), "/proc/%d/environ", (int)f->outside);
    f->seen->numbers[0] = open(environment, O_RDONLY | O_CLOEXEC) >= 0;
    f->seen->numbers[1] = open("/usr/include", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 ||
                          open("/usr/lib", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0;
}

TEST_F(box, files_of_the_host_cannot_be_read)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_landlock, read_about), 0);
    assert_string_equal(f->seen->text, "");
    assert_int_equal(f->seen->numbers[0], 0);
    assert_int_equal(f->seen->numbers[1], 1);
}

/* Reads the flags of the mounts, because writes can also fail for other reasons than a read-only
 * mount. */
static void look_at_mounts(struct fixture *f)
{
    struct statvfs root, own;
    f->seen->numbers[0] = statvfs("/", &root) == 0 && (root.f_flag & ST_RDONLY);
    f->seen->numbers[1] = statvfs(".", &own) == 0 && !(own.f_flag & ST_RDONLY);
}

TEST_F(box, mounts_are_read_only_within_and_as_they_were_outside)
{
    struct statvfs before, after;
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(statvfs("/", &before), 0);
    assert_int_equal(run_within(f, LAYER_mounts, look_at_mounts), 0);
    assert_int_equal(f->seen->numbers[0], 1);
    assert_int_equal(f->seen->numbers[1], 1);
    assert_int_equal(statvfs("/", &after), 0);
    assert_int_equal(before.f_flag, after.f_flag);
}

#define ROOM (1u << 20)

static void fill_the_directory(struct fixture *f)
{
    static const char some[65536];
    struct statvfs seen;
    int fd = open("inside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    long written = 0;
    for (ssize_t done; (done = write(fd, some, sizeof(some))) > 0 && written <= 4 * ROOM;)
        written += done;
    f->seen->numbers[0] = errno;
    f->seen->numbers[1] = written;
    f->seen->numbers[2] = statvfs(".", &seen) == 0 ? (long)seen.f_files : -1;
    close(fd);
}

TEST_F(box, the_files_of_a_confined_compiler_are_bounded_and_not_on_disk)
{
    struct stat seen;
    char path[128];
    memset(f->seen, 0, sizeof(*f->seen));
    f->free_space = ROOM;
    assert_int_equal(run_within(f, LAYER_mounts, fill_the_directory), 0);
    assert_int_equal(f->seen->numbers[0], ENOSPC);
    assert_true(f->seen->numbers[1] <= ROOM);
    assert_true(f->seen->numbers[2] > 0 && f->seen->numbers[2] < 100000);
    snprintf(path, sizeof(path), "%s/inside", f->directory);
    assert_int_not_equal(stat(path, &seen), 0);
}

static void open_sockets(struct fixture *f)
{
    static const struct {
        int family, type;
    } kinds[] = { { AF_INET, SOCK_STREAM }, { AF_INET, SOCK_DGRAM }, { AF_INET6, SOCK_STREAM },
                  { AF_UNIX, SOCK_STREAM }, { AF_UNIX, SOCK_DGRAM }, { AF_UNIX, SOCK_SEQPACKET },
                  { AF_NETLINK, SOCK_RAW }, { AF_PACKET, SOCK_RAW }, { AF_VSOCK, SOCK_STREAM } };
    int pair[2];
    char name[32];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        errno = 0;
        if (socket(kinds[i].family, kinds[i].type | SOCK_CLOEXEC, 0) >= 0 || errno != EPERM) {
            snprintf(name, sizeof(name), "family %d; ", kinds[i].family);
            say(f, name);
        }
    }
    f->seen->numbers[0] = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
}

/* Even a process without access to files could connect to an abstract Unix address. It must
 * therefore get no socket. */
TEST_F(box, no_socket_of_any_family_can_be_opened)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_seccomp, open_sockets), 0);
    assert_string_equal(f->seen->text, "");
    assert_int_equal(f->seen->numbers[0], 0);
}

struct call {
    const char *name;
    long number, arguments[3];
    int expected;
};

#define CALL(name, ...)                           \
    {                                             \
#name, SYS_##name, { __VA_ARGS__ }, EPERM \
    }

static void make_calls(struct fixture *f)
{
    static const struct call calls[] = {
        CALL(ptrace, PTRACE_TRACEME),
        CALL(mount, 0),
        CALL(umount2, 0),
        CALL(pivot_root, 0),
        CALL(chroot, 0),
        CALL(bpf, 0),
        CALL(keyctl, 0),
        CALL(add_key, 0),
        CALL(request_key, 0),
        CALL(userfaultfd, 0),
        CALL(perf_event_open, 0),
        CALL(process_vm_readv, 0),
        CALL(process_vm_writev, 0),
        CALL(unshare, CLONE_NEWUSER),
        CALL(setns, -1),
        CALL(setuid, 0),
        CALL(setsid, 0),
        CALL(personality, ADDR_NO_RANDOMIZE),
        CALL(name_to_handle_at, 0),
        CALL(open_by_handle_at, 0),
        CALL(fanotify_init, 0),
        CALL(syslog, 0),
        CALL(socket, AF_UNIX, SOCK_STREAM),
        CALL(bind, -1),
        CALL(connect, -1),
        CALL(prctl, PR_SET_DUMPABLE, 1),
        CALL(prctl, PR_SET_SECCOMP, 1),
        CALL(ioctl, 0, TIOCSTI),
        CALL(clone, CLONE_NEWUSER | SIGCHLD),
        CALL(clone, CLONE_NEWNET | SIGCHLD),
        { "io_uring_setup", 425, { 1 }, EPERM },
        { "io_uring_enter", 426, { -1 }, EPERM },
        { "memfd_secret", 447, { 0 }, EPERM },
        { "a call that is not there yet", 900, { 0 }, EPERM },
        { "clone3", 435, { 0 }, ENOSYS },
        { "memfd_create", SYS_memfd_create, { (long)"any" }, ENOSYS },
        { "openat2", 437, { AT_FDCWD, (long)"inside" }, ENOSYS },
        /* The filter forbids truncating everywhere, because Landlock before version 3 does not
         * restrict it. */
        CALL(truncate, (long)"inside", 0),
        CALL(openat, AT_FDCWD, (long)"inside", O_RDONLY | O_TRUNC | O_CLOEXEC),
    };
    if (can_make("inside"))
        say(f, "no file can be made; ");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct call *c = &calls[i];
        errno = 0;
        if (syscall(c->number, c->arguments[0], c->arguments[1], c->arguments[2]) >= 0 ||
            errno != c->expected)
            say(f, c->name);
    }
}

TEST_F(box, calls_that_no_compiler_needs_are_refused_at_once)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_seccomp, make_calls), 0);
    assert_string_equal(f->seen->text, "");
}

static void load_a_kernel(struct fixture *f)
{
    (void)f;
    syscall(SYS_kexec_load, 0, 0, 0, 0);
}

TEST_F(box, an_absurd_call_ends_the_process)
{
    memset(f->seen, 0, sizeof(*f->seen));
    int status = run_within(f, LAYER_seccomp, load_a_kernel);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static void *do_nothing(void *context) { return context; }

static void start_programs(struct fixture *f)
{
    static char *const argv[] = { (char *)(uintptr_t) "true", NULL };
    static char *const no_environment[] = { NULL };
    pid_t pid;
    pthread_t thread;
    int status = -1;
    f->seen->numbers[0] = posix_spawn(&pid, "/bin/true", NULL, NULL, argv, no_environment);
    if (f->seen->numbers[0] == 0)
        status = await_child(pid);
    f->seen->numbers[1] = status;
    f->seen->numbers[2] = pthread_create(&thread, NULL, do_nothing, NULL);
    if (f->seen->numbers[2] == 0)
        await_thread(thread, NULL);
    pid = fork();
    if (pid == 0)
        execv("/bin/true", argv);
    f->seen->numbers[3] = pid < 0 ? -1 : await_child(pid);
}

TEST_F(box, programs_and_threads_can_be_started)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_seccomp, start_programs), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(f->seen->numbers[i], 0);
}

static long number_in(const char *path)
{
    char line[32] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    bool got = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    return got ? strtol(line, NULL, 10) : -1;
}

static void fork_on(struct fixture *f)
{
    struct rlimit limit;
    long most = number_in("/proc/sys/kernel/pid_max");
    getrlimit(RLIMIT_NPROC, &limit);
    if (limit.rlim_cur < (rlim_t)most)
        most = (long)limit.rlim_cur;
    f->seen->numbers[0] = most;
    while (most < FORKS_MAX && f->seen->numbers[1] < FORKS_MAX) {
        pid_t child = fork();
        if (child == 0)
            pause();
        if (child < 0)
            break;
        f->seen->numbers[1]++;
    }
    f->seen->numbers[2] = errno;
}

/* Every confined process holds the other end of the pipe while it lives. */
static bool are_all_gone(int end)
{
    struct pollfd ending = { .fd = end, .events = POLLIN };
    char none;
    return poll(&ending, 1, ENDING_MS) == 1 && read(end, &none, 1) == 0;
}

TEST_F(box, a_fork_bomb_is_bounded_and_goes_with_its_sandbox)
{
    int ends[2];
    long before = number_in("/proc/sys/kernel/pid_max");
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(run_within(f, LAYER_processes, fork_on), 0);
    close(ends[1]);
    assert_true(are_all_gone(ends[0]));
    close(ends[0]);
    assert_in_range(f->seen->numbers[0], 1, 16384 + 1024);
    if (f->seen->numbers[1] > 0) {
        assert_true(f->seen->numbers[1] < f->seen->numbers[0]);
        assert_int_equal(f->seen->numbers[2], EAGAIN);
    }
    assert_int_equal(number_in("/proc/sys/kernel/pid_max"), before);
}

static void look_for_others(struct fixture *f)
{
    DIR *dir = opendir("/proc");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        f->seen->numbers[0] += isdigit((unsigned char)e->d_name[0]) != 0;
    f->seen->numbers[1] = kill(f->outside, 0) == 0;
    f->seen->numbers[3] = kill(1, 0) == 0 || errno == EPERM; /* whether a process 1 exists */
}

TEST_F(box, processes_outside_are_neither_seen_nor_signalled)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_proc, look_for_others), 0);
    assert_int_equal(f->seen->numbers[0], 2);
    assert_int_equal(f->seen->numbers[1], 0);
    assert_int_equal(f->seen->numbers[3], 1);
}

static void look_at_rights(struct fixture *f)
{
    f->seen->numbers[0] = getuid();
    f->seen->numbers[1] = has_capability(CAP_CHOWN) || has_capability(CAP_SYS_ADMIN);
    f->seen->numbers[2] = prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0);
    f->seen->numbers[3] = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

TEST_F(box, a_confined_process_has_and_regains_no_capability)
{
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_capabilities, look_at_rights), 0);
    assert_int_not_equal(f->seen->numbers[0], 0);
    assert_int_equal(f->seen->numbers[1], 0);
    assert_int_equal(f->seen->numbers[2], 0);
    assert_int_equal(f->seen->numbers[3], 1);
}

static void stand_still(struct fixture *f) { (void)f; }

/* In a container, the test prints the layers that the container allows. */
TEST_F(box, missing_sandbox_layers_come_with_a_reason)
{
    char missing[LAYERS_TEXT_MAX];
    memset(f->seen, 0, sizeof(*f->seen));
    assert_int_equal(run_within(f, LAYER_no_new_privileges, stand_still), 0);
    report_missing(&f->seen->report, missing);
    print_message("here: Landlock %u, missing: '%s' (%s)\n", f->seen->report.landlock, missing,
                  f->seen->report.why);
    assert_int_equal(f->seen->report.has == LAYERS_ALL, f->seen->report.why[0] == '\0');
}

TEST(plain, numbers_of_namespaces_that_make_no_sense_are_refused)
{
    const struct confine_options options = { .directory = "/tmp",
                                             .outside = "1,2,three",
                                             .give_up = become_nobody };
    struct confinement c;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(confine_begin(&c, &options, &err), KILN_INVALID);
    assert_says(err.text, "1,2,three");
}

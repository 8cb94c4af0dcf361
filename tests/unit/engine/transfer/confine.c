/* SPDX-License-Identifier: MIT */
#include "engine/transfer/confine.h"

#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/engine/transfer/package_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct package_fixture p;
    struct transfer_job job;
    char url[FIXTURE_PATH_MAX + 16];
};

SET_UP(set_up)
{
    package_fixture_open(&f->p);
    package_write(&f->p, PACKAGE, 1, 100);
    package_sign(&f->p, PACKAGE, "amd", true);
    package_write(&f->p, "other.kdb", 1, 100);
    snprintf(f->url, sizeof(f->url), "file://%s", package_path(&f->p, PACKAGE));
    f->job = package_job(&f->p);
    f->job.url = f->url;
}

FIXTURE(confine, set_up, NULL);

/* Runs |act| in a confined child process and returns its result. Skips the test if the kernel
 * has no Landlock. */
static int confined(const struct fixture *f, int (*act)(const struct fixture *f))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = transfer_confine(&f->job, NULL, &err);
        _exit(rc == KILN_UNSUPPORTED ? 100 : rc ? 101 : act(f));
    }
    int status = await_child(pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 101);
    SKIP_IF(WEXITSTATUS(status) == 100, "this kernel has no Landlock");
    return WEXITSTATUS(status);
}

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static const char *in(const char *directory, const char *name)
{
    static char path[FIXTURE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static bool is_absent(const char *path) { return access(path, F_OK) != 0; }

static int read_what_is_needed(const struct fixture *f)
{
    static const char *const system[] = { "/etc/hosts", "/etc/ssl/openssl.cnf",
                                          "/etc/pki/tls/openssl.cnf" };
    static const char *const directories[] = { "/etc/ssl/certs", "/etc/pki/tls/certs" };
    for (int i = 0; i < 3; i++) {
        if (!opens(system[i], O_RDONLY) && !is_absent(system[i]))
            return 10 + i;
    }
    for (int i = 0; i < 2; i++) {
        if (!opens(directories[i], O_RDONLY | O_DIRECTORY) && !is_absent(directories[i]))
            return 20 + i;
    }
    return !opens(package_path(&f->p, PACKAGE), O_RDONLY)               ? 1
           : !opens(package_path(&f->p, PACKAGE ".manifest"), O_RDONLY) ? 2
           : !opens(in(f->p.keys, "amd.pub"), O_RDONLY)                 ? 3
           : !opens(f->p.keys, O_RDONLY | O_DIRECTORY)                  ? 4
                                                                        : 0;
}

TEST(confine, a_confined_transfer_can_read_what_it_needs)
{
    assert_int_equal(confined(*state, read_what_is_needed), 0);
}

/* Returns whether the confined process of the fleet can read the file with the token. */
static bool reads_token(const struct fixture *f, bool needs_it)
{
    const struct fleet_tree_place place = { .reads_token = needs_it };
    const char *token = in(f->p.directory, "amd.key");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct kiln_err err = KILN_ERR_INIT;
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token, 1);
        enum kiln_code rc = fleet_confine(&place, NULL, &err);
        _exit(rc == KILN_UNSUPPORTED ? 100 : rc ? 101 : opens(token, O_RDONLY));
    }
    int status = await_child(pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 101);
    SKIP_IF(WEXITSTATUS(status) == 100, "this kernel has no Landlock");
    return WEXITSTATUS(status);
}

TEST(confine, only_a_process_that_needs_a_token_can_read_it)
{
    assert_true(reads_token(*state, true));
    assert_false(reads_token(*state, false));
}

static int read_other_files(const struct fixture *f)
{
    return opens(package_path(&f->p, "other.kdb"), O_RDONLY) ? 1
           : opens(in(f->p.directory, "amd.key"), O_RDONLY)  ? 2
           : opens("/etc/passwd", O_RDONLY)                  ? 3
           : opens("/proc/self/environ", O_RDONLY)           ? 4
           : opens("/", O_RDONLY | O_DIRECTORY)              ? 5
           : opens(f->p.files, O_RDONLY | O_DIRECTORY)       ? 6
                                                             : 0;
}

/* Returns whether the confined process can read a directory of private keys. It must not, even as
 * root. */
static int read_private_keys(const struct fixture *f)
{
    (void)f;
    return opens("/etc/ssl/private", O_RDONLY | O_DIRECTORY) ||
           opens("/etc/pki/tls/private", O_RDONLY | O_DIRECTORY);
}

TEST(confine, private_keys_of_the_host_cannot_be_read)
{
    assert_int_equal(confined(*state, read_private_keys), 0);
}

TEST(confine, other_files_cannot_be_read_by_a_transfer)
{
    assert_int_equal(confined(*state, read_other_files), 0);
}

static int write_to_staging(const struct fixture *f)
{
    char from[FIXTURE_PATH_MAX];
    if (!opens(in(f->p.staging, "file"), O_CREAT | O_RDWR))
        return 1;
    strcpy(from, in(f->p.staging, "file"));
    return rename(from, in(f->p.staging, "renamed")) != 0   ? 2
           : truncate(in(f->p.staging, "renamed"), 10) != 0 ? 3
           : unlink(in(f->p.staging, "renamed")) != 0       ? 4
                                                            : 0;
}

TEST(confine, the_staging_directory_is_writable)
{
    assert_int_equal(confined(*state, write_to_staging), 0);
}

static int write_elsewhere(const struct fixture *f)
{
    return opens(in(f->p.directory, "new"), O_CREAT | O_WRONLY)   ? 1
           : opens(package_path(&f->p, PACKAGE), O_WRONLY)        ? 2
           : truncate(package_path(&f->p, PACKAGE), 0) == 0       ? 3
           : unlink(package_path(&f->p, PACKAGE)) == 0            ? 4
           : opens(in(f->p.keys, "mine.pub"), O_CREAT | O_WRONLY) ? 5
           : mkdir(in(f->p.staging, "directory"), 0700) == 0      ? 6
           : symlink("/etc", in(f->p.staging, "link")) == 0       ? 7
           : mkfifo(in(f->p.staging, "pipe"), 0600) == 0          ? 8
                                                                  : 0;
}

TEST(confine, other_files_cannot_be_written_by_a_transfer)
{
    assert_int_equal(confined(*state, write_elsewhere), 0);
}

static int start_a_program(const struct fixture *f)
{
    (void)f;
    execl("/bin/true", "true", (char *)NULL);
    return errno == EPERM || errno == EACCES ? 0 : 1;
}

TEST(confine, a_transfer_cannot_start_a_program)
{
    assert_int_equal(confined(*state, start_a_program), 0);
}

static int have_privileges(const struct fixture *f)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    (void)f;
    if (syscall(SYS_capget, &header, data) != 0)
        return 1;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 2;
    if (geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 0)
        return 4;
    return data[0].effective || data[0].permitted || data[1].effective || data[1].permitted ? 3 : 0;
}

static void *do_nothing(void *context) { return context; }

static int make_calls(const struct fixture *f)
{
    static const long refused[] = { SYS_ptrace,  SYS_mount, SYS_bpf,        SYS_keyctl,
                                    SYS_unshare, SYS_setns, SYS_userfaultfd };
    pthread_t thread;
    (void)f;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (syscall(refused[i], 0, 0, 0, 0, 0) >= 0 || errno != EPERM)
            return 1 + (int)i;
    }
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0 || errno != EPERM)
        return 20;
    /* must fail, because a process in another group would survive a kill of this group */
    if (setpgid(0, 0) == 0)
        return 23;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 21;
    close(fd);
    if (pthread_create(&thread, NULL, do_nothing, NULL))
        return 22;
    await_thread(thread, NULL);
    return 0;
}

TEST(confine, calls_that_no_transfer_needs_are_refused)
{
    assert_int_equal(confined(*state, make_calls), 0);
}

TEST(confine, no_capability_is_left_and_none_can_be_gained)
{
    assert_int_equal(confined(*state, have_privileges), 0);
}

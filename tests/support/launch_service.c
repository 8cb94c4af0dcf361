/* SPDX-License-Identifier: MIT */
#include "tests/support/launch_service.h"

#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/unix_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIVEN_FD 3

static void become_unit(const struct launch_service *service, int connection, const char *launcher,
                        const char *program)
{
    char place[sizeof(service->directory) + 16], pid[16];
    snprintf(place, sizeof(place), "%s/unit-XXXXXX", service->directory);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    if (!mkdtemp(place) || chdir(place) != 0 || dup2(connection, GIVEN_FD) != GIVEN_FD ||
        setenv("LISTEN_PID", pid, 1) != 0 || setenv("LISTEN_FDS", "1", 1) != 0)
        _exit(90);
    signal(SIGCHLD, SIG_DFL);
    execl(launcher, launcher, program, NULL);
    _exit(91);
}

static void serve(const struct launch_service *service, int listening, const char *launcher,
                  const char *program)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            _exit(92);
        if (fork() == 0) {
            if (listening == GIVEN_FD || connection == GIVEN_FD)
                connection = fcntl(connection, F_DUPFD_CLOEXEC, GIVEN_FD + 1);
            become_unit(service, connection, launcher, program);
        }
        close(connection);
    }
}

static void stop_at_end(void *service) { launch_service_stop(service); }

void launch_service_start(struct launch_service *service, const char *directory,
                          const char *launcher, const char *program)
{
    snprintf(service->directory, sizeof(service->directory), "%s/service", directory);
    assert_int_equal(mkdir(service->directory, 0700), 0);
    snprintf(service->path, sizeof(service->path), "%s/socket", service->directory);
    int fd = unix_listen(SOCK_SEQPACKET, service->path, 16);
    service->pid = fork();
    assert_true(service->pid >= 0);
    if (service->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        serve(service, fd, launcher, program);
    }
    /* parent and child both call setpgid, so that the group exists whichever process runs first */
    setpgid(service->pid, service->pid);
    close(fd);
    test_at_end(stop_at_end, service);
}

void launch_service_end_units(struct launch_service *service) { kill(-service->pid, SIGKILL); }

void launch_service_stop(struct launch_service *service)
{
    if (service->pid <= 0)
        return;
    launch_service_end_units(service);
    await_child(service->pid);
    service->pid = 0;
    fs_remove_tree(AT_FDCWD, service->directory);
}

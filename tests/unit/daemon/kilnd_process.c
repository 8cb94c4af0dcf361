/* SPDX-License-Identifier: MIT */

/* kilnd itself, as a process: how it starts and stops. */
#include "common/cleanup.h"
#include "daemon/workers/temp_folder.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

struct fixture {
    char folder[64];
    char socket[96];
    char cache[96];
    char log[96];
    char notify[96];
    int notify_fd;
    pid_t daemon; /* 0: none runs */
};

static int bound(int type, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .folder = "/tmp/kilnd_process_XXXXXX" };
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.socket, sizeof(f.socket), "%s/s", f.folder);
    snprintf(f.cache, sizeof(f.cache), "%s/cache", f.folder);
    snprintf(f.log, sizeof(f.log), "%s/log", f.folder);
    snprintf(f.notify, sizeof(f.notify), "%s/notify", f.folder);
    f.notify_fd = bound(SOCK_DGRAM, f.notify);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->daemon) {
        kill(f->daemon, SIGKILL);
        waitpid(f->daemon, NULL, 0);
    }
    close(f->notify_fd);
    temp_folder_remove(f->folder);
    return 0;
}

static pid_t spawn(const struct fixture *f, const char *extra)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    int log = open(f->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 1);
    dup2(log, 2);
    setenv("NOTIFY_SOCKET", f->notify, 1);
    execl(KILND, KILND, "--socket", f->socket, "--cache-dir", f->cache, "--state-dir", f->folder,
          "--workers", "1", extra, (char *)NULL);
    _exit(99);
}

static void assert_notified(const struct fixture *f, const char *state)
{
    char text[64];
    ssize_t got = recv(f->notify_fd, text, sizeof(text) - 1, 0);
    assert_true(got > 0);
    text[got] = '\0';
    assert_string_equal(text, state);
}

static void start(struct fixture *f)
{
    f->daemon = spawn(f, NULL);
    assert_notified(f, "READY=1");
}

static int status_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int stop(struct fixture *f, int signal)
{
    pid_t child = f->daemon;
    kill(child, signal);
    f->daemon = 0;
    return status_of(child);
}

static bool can_connect(const struct fixture *f)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static void assert_log_says(const struct fixture *f, const char *words)
{
    char text[8192] = { 0 };
    KILN_AUTO(fd) int fd = open(f->log, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_says(text, words);
}

/* Entries of the folder that a stopped daemon should not have left. */
static unsigned leftovers(const struct fixture *f)
{
    unsigned count = 0;
    DIR *dir = opendir(f->folder);
    for (struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, "s") == 0 || strcmp(e->d_name, "s.lock") == 0 ||
                 strncmp(e->d_name, "kilnd-", 6) == 0;
    closedir(dir);
    return count;
}

static void sigterm_ends_it_with_status_0_and_nothing_left(void **state)
{
    struct fixture *f = *state;
    start(f);
    assert_true(can_connect(f));

    assert_int_equal(stop(f, SIGTERM), 0);

    assert_notified(f, "STOPPING=1");
    assert_int_equal(leftovers(f), 0);
}

static void sigint_ends_it_like_sigterm(void **state)
{
    struct fixture *f = *state;
    start(f);
    assert_int_equal(stop(f, SIGINT), 0);
    assert_int_equal(leftovers(f), 0);
}

static void sighup_changes_nothing_and_says_so(void **state)
{
    struct fixture *f = *state;
    start(f);
    kill(f->daemon, SIGHUP);
    assert_true(can_connect(f));
    assert_int_equal(stop(f, SIGTERM), 0);
    assert_log_says(f, "SIGHUP ignored");
}

static void a_second_one_is_refused_with_the_pid_of_the_first(void **state)
{
    struct fixture *f = *state;
    char words[64];
    start(f);
    snprintf(words, sizeof(words), "a daemon with pid %d already listens", (int)f->daemon);

    assert_int_equal(status_of(spawn(f, NULL)), 1);

    assert_log_says(f, words);
    assert_true(can_connect(f));
}

static void one_takes_over_from_one_that_was_killed(void **state)
{
    struct fixture *f = *state;
    start(f);
    kill(f->daemon, SIGKILL);
    waitpid(f->daemon, NULL, 0);
    assert_true(leftovers(f) > 0);

    start(f);

    assert_true(can_connect(f));
    assert_int_equal(stop(f, SIGTERM), 0);
    assert_int_equal(leftovers(f), 0);
}

static void a_wrong_flag_ends_it_with_status_2(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(status_of(spawn(f, "--nonsense")), 2);
    assert_log_says(f, "unknown flag '--nonsense'");
}

static void checking_the_configuration_starts_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(status_of(spawn(f, "--check-config")), 0);
    assert_log_says(f, "flag --cache-dir");
    assert_false(can_connect(f));
}

static void a_cache_that_cannot_be_opened_is_said_and_nothing_is_left(void **state)
{
    struct fixture *f = *state;
    fclose(fopen(f->cache, "w")); /* a file where the folder should be */
    assert_int_equal(status_of(spawn(f, NULL)), 1);
    assert_log_says(f, "cannot start");
    assert_log_says(f, f->cache);
    assert_int_equal(leftovers(f), 0);
}

#define PROCESS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROCESS_TEST(sigterm_ends_it_with_status_0_and_nothing_left),
        PROCESS_TEST(sigint_ends_it_like_sigterm),
        PROCESS_TEST(sighup_changes_nothing_and_says_so),
        PROCESS_TEST(a_second_one_is_refused_with_the_pid_of_the_first),
        PROCESS_TEST(one_takes_over_from_one_that_was_killed),
        PROCESS_TEST(a_wrong_flag_ends_it_with_status_2),
        PROCESS_TEST(checking_the_configuration_starts_nothing),
        PROCESS_TEST(a_cache_that_cannot_be_opened_is_said_and_nothing_is_left),
    };
    return cmocka_run_group_tests_name("kilnd_process", tests, NULL, NULL);
}

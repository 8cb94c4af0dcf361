/* SPDX-License-Identifier: MIT */
#include "common/base/paths.h"

#include "tests/support/child.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs |check| in a child process of an ordinary user. The child's environment has only |variables|
 * ("NAME=value"). */
static void as_user(const char *const variables[], void (*check)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        clearenv();
        for (; *variables; variables++)
            putenv((char *)(uintptr_t)*variables);
        if (geteuid() == 0 && setresuid(12345, 12345, 12345) != 0)
            _exit(99);
        check();
        _exit(0);
    }
    assert_int_equal(await_child(child), 0);
}

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            _exit(1);     \
    } while (0)

static void check_xdg(void)
{
    char path[PATH_TEXT_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    CHECK(paths_daemon_socket(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/tmp/run/kiln/kilnd.sock") == 0);
    CHECK(paths_cache_directory(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/tmp/cache/kiln") == 0);
    CHECK(paths_state_directory(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/home/u/.local/state/kiln") == 0);
    CHECK(paths_config_directory(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/home/u/.config/kiln") == 0);
}

TEST(plain, an_ordinary_user_gets_xdg_directories)
{
    as_user((const char *const[]){ "HOME=/home/u", "XDG_RUNTIME_DIR=/tmp/run",
                                   "XDG_CACHE_HOME=/tmp/cache", "XDG_STATE_HOME=relative", NULL },
            check_xdg);
}

static void check_unit(void)
{
    char path[PATH_TEXT_MAX], pid[32];
    struct kiln_err err = KILN_ERR_INIT;
    CHECK(paths_cache_directory(path, &err) == KILN_OK);
    /* systemd sets CACHE_DIRECTORY together with SYSTEMD_EXEC_PID. If SYSTEMD_EXEC_PID is another
     * process's pid, this process has only inherited the variables, and ignores CACHE_DIRECTORY. */
    CHECK(strcmp(path, "/home/u/.cache/kiln") == 0);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("SYSTEMD_EXEC_PID", pid, 1);
    CHECK(paths_cache_directory(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/var/cache/kiln") == 0);
    CHECK(paths_config_directory(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/etc/kiln") == 0);
    CHECK(paths_state_directory(path, &err) == KILN_OK); /* ignores a list of directories */
    CHECK(strcmp(path, "/home/u/.local/state/kiln") == 0);
}

TEST(plain, the_main_process_of_a_unit_uses_the_directories_of_the_unit)
{
    as_user((const char *const[]){ "HOME=/home/u", "CACHE_DIRECTORY=/var/cache/kiln",
                                   "CONFIGURATION_DIRECTORY=/etc/kiln",
                                   "STATE_DIRECTORY=/var/lib/a:/var/lib/b", "SYSTEMD_EXEC_PID=1",
                                   NULL },
            check_unit);
}

static void check_nothing(void)
{
    char path[PATH_TEXT_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    CHECK(paths_cache_directory(path, &err) == KILN_INVALID);
    CHECK(strstr(err.text, "XDG_CACHE_HOME"));
    CHECK(paths_daemon_socket(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/run/user/12345/kiln/kilnd.sock") == 0 || geteuid() != 12345);
    CHECK(paths_client_socket(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/run/kiln/kilnd.sock") == 0);
}

TEST(plain, without_home_the_message_names_the_variables_to_set)
{
    as_user((const char *const[]){ NULL }, check_nothing);
}

static void check_named(void)
{
    char path[PATH_TEXT_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    CHECK(paths_client_socket(path, &err) == KILN_OK);
    CHECK(strcmp(path, "/else/where.sock") == 0);
}

TEST(plain, the_variable_kiln_socket_takes_precedence_for_clients)
{
    as_user((const char *const[]){ "KILN_SOCKET=/else/where.sock", NULL }, check_named);
}

TEST(plain, an_absent_helper_program_is_named_with_the_searched_places)
{
    char path[PATH_TEXT_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(paths_program("no-such-program", "../else/no-such-program",
                                   "/nowhere/no-such-program", path, &err),
                     KILN_NOT_FOUND);
    assert_says(err.text, "'../else/no-such-program'");
    assert_says(err.text, "'/nowhere/no-such-program'");
}

/* The test uses the name of its own program as the helper's. */
TEST(plain, a_helper_program_is_found_beside_the_program_then_relative_to_it_then_where_installed)
{
    char self[PATH_TEXT_MAX] = { 0 }, path[PATH_TEXT_MAX], from_above[PATH_TEXT_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    const char *name = strrchr(self, '/') + 1;
    must(paths_program(name, "../none", "/none", path, &err), err);
    assert_string_equal(path, self);

    snprintf(from_above, sizeof(from_above), "../tests/%.200s", name);
    must(paths_program("no-such-program", from_above, "/none", path, &err), err);
    assert_says(path, from_above);

    must(paths_program("no-such-program", "../none", "/bin/sh", path, &err), err);
    assert_string_equal(path, "/bin/sh");
}

/* SPDX-License-Identifier: MIT */
/* The ways of the engine in a job's process: to a leader, and to folders and compilers. */
#include "daemon/embedded/leader.h"
#include "daemon/embedded/places.h"

#include "common/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BRIEF_MS 20
#define LONG_MS 60000

struct fixture {
    char folder[64];
    char socket[96];
    int listener;
    int fd;
    struct kiln_err err;
    struct embedded_options options;
    struct embedded_places places;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .listener = -1, .fd = -1, .err = KILN_ERR_INIT };
    snprintf(f.folder, sizeof(f.folder), "/tmp/kiln-test-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.socket, sizeof(f.socket), "%s/kiln.sock", f.folder);
    setenv("HOME", f.folder, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    unsetenv("KILN_COMPILER");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->listener >= 0)
        close(f->listener);
    if (f->fd >= 0)
        close(f->fd);
    fs_remove_tree(AT_FDCWD, f->folder);
    return 0;
}

/* ---- a leader ---- */

static void listen_there(struct fixture *f)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, f->socket);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f->listener, 4), 0);
}

static void where_nobody_listens_somebody_may_lead(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(leader_connect(f->socket, LONG_MS, &f->fd, &f->err), KILN_UNAVAILABLE);
    listen_there(f);
    close(f->listener); /* dead, and its file still there */
    f->listener = -1;
    assert_int_equal(leader_connect(f->socket, LONG_MS, &f->fd, &f->err), KILN_UNAVAILABLE);
}

static void a_leader_that_does_not_answer_is_given_up(void **state)
{
    struct fixture *f = *state;
    listen_there(f);
    assert_int_equal(leader_connect(f->socket, BRIEF_MS, &f->fd, &f->err), KILN_TIMED_OUT);
    assert_says(f->err.text, f->socket);
    assert_says(f->err.text, "stopped or stuck");
}

static void one_that_refuses_new_connections_for_good_is_given_up(void **state)
{
    struct fixture *f = *state;
    listen_there(f);
    shutdown(f->listener, SHUT_RDWR); /* as it does while it ends */
    assert_int_equal(leader_connect(f->socket, LONG_MS, &f->fd, &f->err), KILN_UNAVAILABLE);
}

/* ---- folders ---- */

static void folders_are_the_users_own_and_private(void **state)
{
    struct fixture *f = *state;
    struct stat seen;
    embedded_places_find(&f->options, &f->places);
    assert_false(f->places.memory);
    assert_says(f->places.cache, "/.cache/kiln/embedded");
    assert_says(f->places.state, "/.local/state/kiln/embedded");
    assert_int_equal(stat(f->places.cache, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    setenv("XDG_CACHE_HOME", "relative", 1); /* which does not count */
    embedded_places_find(&f->options, &f->places);
    assert_int_equal(strncmp(f->places.cache, f->folder, strlen(f->folder)), 0);
}

static void without_a_home_there_is_memory(void **state)
{
    struct fixture *f = *state;
    unsetenv("HOME");
    embedded_places_find(&f->options, &f->places);
    assert_true(f->places.memory);
    assert_says(f->places.why, "neither XDG_CACHE_HOME nor HOME is set");
}

static void a_path_too_long_for_a_socket_has_another_or_there_is_memory(void **state)
{
    struct fixture *f = *state;
    char home[256];
    snprintf(home, sizeof(home), "%s/%0120d", f->folder, 0);
    setenv("HOME", home, 1);
    embedded_places_find(&f->options, &f->places);
    assert_true(f->places.memory);
    assert_says(f->places.why, "longer than the 107 bytes");
    setenv("XDG_RUNTIME_DIR", f->folder, 1);
    embedded_places_find(&f->options, &f->places);
    assert_false(f->places.memory);
    assert_says(f->places.socket, "/kiln/embedded.sock");
}

static void what_is_to_be_in_memory_touches_no_folder(void **state)
{
    struct fixture *f = *state;
    char made[128];
    f->options.memory = true;
    embedded_places_find(&f->options, &f->places);
    assert_true(f->places.memory);
    assert_string_equal(f->places.why, "");
    snprintf(made, sizeof(made), "%s/.cache", f->folder);
    assert_int_not_equal(access(made, F_OK), 0);
}

/* ---- compilers ---- */

static void a_compiler_is_found_from_where_the_library_lies(void **state)
{
    struct fixture *f = *state;
    char lib[128], path[128];
    snprintf(lib, sizeof(lib), "%s/lib", f->folder);
    snprintf(path, sizeof(path), "%s/bin", f->folder);
    assert_int_equal(mkdir(lib, 0700) + mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/bin/kiln-compiler", f->folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    close(fd);
    f->options.library_folder = lib;
    embedded_places_find(&f->options, &f->places);
    assert_says(f->places.compiler, "/lib/../bin/kiln-compiler");
    assert_true(f->places.temp[0] == '/');

    setenv("KILN_COMPILER", path, 1);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, path);
}

static void without_one_the_sentence_says_what_was_looked_for(void **state)
{
    struct fixture *f = *state;
    setenv("KILN_COMPILER", "/nonexistent", 1);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, "");
    assert_says(f->places.no_compiler, "'/nonexistent' (KILN_COMPILER)");
    unsetenv("KILN_COMPILER");
    f->options.no_compilers = true; /* then none is looked for */
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, "");
}

#define EMBEDDED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMBEDDED_TEST(where_nobody_listens_somebody_may_lead),
        EMBEDDED_TEST(a_leader_that_does_not_answer_is_given_up),
        EMBEDDED_TEST(one_that_refuses_new_connections_for_good_is_given_up),
        EMBEDDED_TEST(folders_are_the_users_own_and_private),
        EMBEDDED_TEST(without_a_home_there_is_memory),
        EMBEDDED_TEST(a_path_too_long_for_a_socket_has_another_or_there_is_memory),
        EMBEDDED_TEST(what_is_to_be_in_memory_touches_no_folder),
        EMBEDDED_TEST(a_compiler_is_found_from_where_the_library_lies),
        EMBEDDED_TEST(without_one_the_sentence_says_what_was_looked_for),
    };
    return cmocka_run_group_tests_name("embedded", tests, NULL, NULL);
}

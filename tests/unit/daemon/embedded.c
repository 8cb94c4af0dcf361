/* SPDX-License-Identifier: MIT */
/* The ways of the engine in a job's process: to a leader, and to folders and compilers. */
#include "daemon/embedded/leader.h"
#include "daemon/embedded/places.h"

#include "common/clock.h"
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

FIXTURE(embedded, set_up, tear_down);

/* ---- a leader ---- */

static void listen_there(struct fixture *f)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, f->socket);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f->listener, 4), 0);
}

static uint64_t in_ms(unsigned ms) { return clock_monotonic_ns() + ms * 1000000ull; }

TEST(embedded, where_nobody_listens_somebody_may_lead)
{
    struct fixture *f = *state;
    assert_int_equal(leader_connect(f->socket, in_ms(LONG_MS), &f->fd, &f->err), KILN_UNAVAILABLE);
    listen_there(f);
    close(f->listener); /* dead, and its file still there */
    f->listener = -1;
    assert_int_equal(leader_connect(f->socket, in_ms(LONG_MS), &f->fd, &f->err), KILN_UNAVAILABLE);
}

TEST(embedded, a_leader_that_does_not_answer_is_given_up)
{
    struct fixture *f = *state;
    listen_there(f);
    assert_int_equal(leader_connect(f->socket, in_ms(BRIEF_MS), &f->fd, &f->err), KILN_TIMED_OUT);
    assert_says(f->err.text, f->socket);
    assert_says(f->err.text, "stopped or stuck");
}

TEST(embedded, one_that_refuses_new_connections_for_good_is_given_up)
{
    struct fixture *f = *state;
    listen_there(f);
    shutdown(f->listener, SHUT_RDWR); /* as it does while it ends */
    assert_int_equal(leader_connect(f->socket, in_ms(LONG_MS), &f->fd, &f->err), KILN_UNAVAILABLE);
}

/* The last test: what it asks is there once for a process. */
TEST(embedded, a_leader_is_waited_for_no_longer_than_a_call_may_and_all_calls_count)
{
    struct fixture *f = *state;
    const struct embedded_entry *entry = &kiln_embedded_entry;
    struct embedded_status status;
    char folder[80];
    snprintf(folder, sizeof(folder), "%.32s/.cache/kiln/embedded", f->folder);
    must(fs_make_folders(folder, &f->err), f->err);
    snprintf(f->socket, sizeof(f->socket), "%s/kiln.sock", folder);
    listen_there(f);
    f->options = (struct embedded_options){ .no_compilers = true,
                                            .leader_ms = LONG_MS,
                                            .deadline_ns = in_ms(BRIEF_MS) };
    assert_int_equal(entry->connect(&f->options, &f->fd, &f->err), KILN_TIMED_OUT);
    entry->status(&status);
    assert_int_equal(status.role, EMBEDDED_UNUSED);
    assert_true(entry->answers(LONG_MS, in_ms(BRIEF_MS)));
    assert_false(entry->answers(BRIEF_MS, UINT64_MAX));

    f->options.deadline_ns = 0;
    must(entry->connect(&f->options, &f->fd, &f->err), f->err);
    entry->status(&status);
    assert_int_equal(status.role, EMBEDDED_MEMORY);
    assert_says(status.why, "stopped or stuck");
    entry->let_go();
    entry->settle();
    entry->status(&status);
    assert_int_equal(status.role, EMBEDDED_UNUSED);
}

/* ---- folders ---- */

TEST(embedded, folders_are_the_users_own_and_private)
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

TEST(embedded, without_a_home_there_is_memory)
{
    struct fixture *f = *state;
    unsetenv("HOME");
    embedded_places_find(&f->options, &f->places);
    assert_true(f->places.memory);
    assert_says(f->places.why, "neither XDG_CACHE_HOME nor HOME is set");
}

TEST(embedded, a_path_too_long_for_a_socket_has_another_or_there_is_memory)
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

TEST(embedded, what_is_to_be_in_memory_touches_no_folder)
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

/* A library's folder, |lib|, and |name| where a build tree has its programs. */
static void put_program(struct fixture *f, const char *name, char lib[128], char path[128])
{
    snprintf(lib, 128, "%s/lib", f->folder);
    snprintf(path, 128, "%s/bin", f->folder);
    mkdir(lib, 0700);
    mkdir(path, 0700);
    snprintf(path, 128, "%s/bin/%s", f->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    close(fd);
    f->options.library_folder = lib;
}

TEST(embedded, kiln_transfer_is_found_from_where_the_library_lies)
{
    struct fixture *f = *state;
    char lib[128], path[128];
    embedded_places_find(&f->options, &f->places);
    assert_says(f->places.transfer, "/kiln/kiln-transfer"); /* installed or not */
    put_program(f, "kiln-transfer", lib, path);
    embedded_places_find(&f->options, &f->places);
    assert_says(f->places.transfer, "/lib/../bin/kiln-transfer");
}

TEST(embedded, a_compiler_is_found_from_where_the_library_lies)
{
    struct fixture *f = *state;
    char lib[128], path[128];
    put_program(f, "kiln-launch", lib, path);
    put_program(f, "kiln-compiler", lib, path);
    embedded_places_find(&f->options, &f->places);
    assert_says(f->places.compiler, "/lib/../bin/kiln-compiler");
    assert_says(f->places.keeper, "/lib/../bin/kiln-launch");
    assert_true(f->places.temp[0] == '/');

    setenv("KILN_COMPILER", path, 1);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, path);
    f->options.library_folder = NULL; /* what keeps it lies beside it */
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, path);
    assert_says(f->places.keeper, "/bin/kiln-launch");
}

TEST(embedded, what_is_to_keep_a_compiler_is_missed)
{
    struct fixture *f = *state;
    char lib[128], path[128];
    put_program(f, "kiln-compiler", lib, path);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.compiler, "");
    assert_says(f->places.no_compiler, "kiln-launch, which keeps kiln-compiler, is not installed");
}

/* Also of a program that asks no kilnd. */
TEST(embedded, one_that_is_not_installed_is_to_be_installed_or_named)
{
    struct fixture *f = *state;
    f->options.library_folder = NULL;
    embedded_places_find(&f->options, &f->places);
    if (f->places.compiler[0]) {
        print_message("skipped: '%s' is installed\n", f->places.compiler);
        skip();
    }
    assert_says(f->places.no_compiler, "kiln-compiler is not installed");
    assert_says(f->places.no_compiler, "install it, or name it in KILN_COMPILER");
    assert_null(strstr(f->places.no_compiler, "kilnd"));
}

TEST(embedded, without_one_the_sentence_says_what_was_looked_for)
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

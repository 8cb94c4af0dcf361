/* SPDX-License-Identifier: MIT */
/* A program with more rights than its caller must ignore the caller's environment. The tests run
 * a setuid copy of this program that belongs to another user. Each test also runs the copy
 * without the setuid bit, where the same variables have an effect. */
#include "common/base/fs.h"
#include "libclient/conv/journal.h"
#include "libclient/include/kiln/client.h"
#include "libclient/include/kiln/device.h"
#include "libclient/include/kiln/error.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNER 54321u   /* owns the copy */
#define STARTER 12345u /* runs the copy and sets the variables */
#define SAID_MAX 4096

static void ping(const struct kiln_client_options *options)
{
    struct kiln_error err = { .code = 0 };
    struct kiln_client *client = NULL;
    if (kiln_client_open(options, &client, &err) == KILN_OK)
        kiln_client_ping(client, 0, NULL, &err);
    printf("%s\n", err.text);
    kiln_client_close(client);
}

static void ask_a_kilnd(void)
{
    ping(&(struct kiln_client_options){ .size = sizeof(struct kiln_client_options),
                                        .fallback = "off" });
}

static void load_libraries(void)
{
    struct kiln_error err = { .code = 0 };
    struct kiln_device *device = NULL;
    ping(&(struct kiln_client_options){ .size = sizeof(struct kiln_client_options),
                                        .fallback = "private",
                                        .socket_path = "/nonexistent/kilnd.sock" });
    kiln_device_open("cuda:0", &device, &err);
    printf("%s\n", err.text);
    kiln_device_close(device);
}

static void keep_a_journal(void)
{
    static const struct journal_subject subject = { "1", "gfx90a68", "d", "t", "s", "p" };
    struct kiln_err err = KILN_ERR_INIT;
    struct journal *journal = NULL;
    if (journal_open(NULL, &subject, &journal, &err))
        printf("%s\n", err.text);
    journal_close(journal);
}

static const struct {
    const char *name;
    void (*run)(void);
} works[] = {
    { "ask", ask_a_kilnd },
    { "load", load_libraries },
    { "journal", keep_a_journal },
};

/* Runs the work |name| in the copy. Returns the copy's exit status: 1 if the copy has more
 * rights than its caller, otherwise 0. */
static int be_the_copy(const char *name)
{
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        if (strcmp(works[i].name, name) == 0)
            works[i].run();
    }
    /* flushes the output here, because the leak sanitizer ends a setuid program before exit does
     * that */
    fflush(stdout);
    return getauxval(AT_SECURE) ? 1 : 0;
}

struct fixture {
    const char *directory; /* the directory in STARTER's variables */
    const char *copy;
    char said[SAID_MAX];
};

SET_UP(set_up)
{
    f->directory = test_directory();
    assert_int_equal(chmod(f->directory, 0777), 0);
    f->copy = test_path(f->directory, "copy");
    test_write(f->copy, test_read("/proc/self/exe"));
    assert_int_equal(chmod(f->copy, 0755), 0);
}

FIXTURE(privileged, set_up, NULL);

_Noreturn static void start(const struct fixture *f, const char *work, int fd)
{
    static const struct {
        const char *variable, *below;
    } set[] = {
        { "KILN_SOCKET", "sock" },        { "KILN_KILND", "kilnd" },
        { "KILN_CUDA_LIBRARY", "cu.so" }, { "XDG_STATE_HOME", "state" },
        { "XDG_RUNTIME_DIR", "run" },     { "HOME", "home" },
    };
    char value[64];
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        snprintf(value, sizeof(value), "%s/%s", f->directory, set[i].below);
        setenv(set[i].variable, value, 1);
    }
    dup2(fd, STDOUT_FILENO);
    if (setresgid(STARTER, STARTER, STARTER) == 0 && setresuid(STARTER, STARTER, STARTER) == 0)
        execl(f->copy, "copy", work, (char *)NULL);
    _exit(126);
}

/* Runs the copy with |work|, and stores its output in f->said. Returns whether the copy had more
 * rights than its caller. */
static bool run_copy(struct fixture *f, const char *work)
{
    int ends[2];
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        start(f, work, ends[1]);
    close(ends[1]);
    while ((got = read(ends[0], f->said + used, SAID_MAX - 1 - used)) > 0)
        used += (size_t)got;
    f->said[used] = '\0';
    close(ends[0]);
    int status = await_child(pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        fail_msg("the copy ended with wait status %d: '%s'", status, f->said);
    return WEXITSTATUS(status) == 1;
}

static void run_without_more_rights(struct fixture *f, const char *work)
{
    SKIP_IF(geteuid() != 0, "only root can start a program as another user");
    assert_false(run_copy(f, work));
}

static void run_setuid(struct fixture *f, const char *work)
{
    assert_int_equal(chown(f->copy, OWNER, OWNER), 0);
    assert_int_equal(chmod(f->copy, 04755), 0);
    if (run_copy(f, work))
        return;
    SKIP("setuid has no effect in '%s' (nosuid, or no_new_privs)", f->directory);
}

static bool is_there(const struct fixture *f, const char *below)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%s", f->directory, below);
    return access(path, F_OK) == 0;
}

TEST_F(privileged, a_setuid_program_is_led_to_no_other_kilnd)
{
    run_without_more_rights(f, "ask");
    assert_says(f->said, f->directory);

    run_setuid(f, "ask");

    assert_null(strstr(f->said, f->directory));
}

TEST_F(privileged, a_setuid_program_is_led_to_no_library_and_starts_no_kilnd)
{
    run_without_more_rights(f, "load");
    assert_says(f->said, "(KILN_KILND)");
    assert_says(f->said, "cu.so");

    run_setuid(f, "load");

    assert_null(strstr(f->said, f->directory));
    assert_says(f->said, "setuid");
}

TEST(privileged, a_setuid_program_ignores_its_callers_journal_directory)
{
    struct fixture *f = *state;
    char state_directory[64];
    run_without_more_rights(f, "journal");
    assert_true(is_there(f, "state/kiln/tune"));
    snprintf(state_directory, sizeof(state_directory), "%s/state", f->directory);
    fs_remove_tree(AT_FDCWD, state_directory);

    run_setuid(f, "journal");

    assert_false(is_there(f, "state"));
    assert_false(is_there(f, "home"));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_the_copy(argv[1]);
    return test_run(NULL);
}

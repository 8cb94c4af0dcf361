/* SPDX-License-Identifier: MIT */
#define main compiler_main
int compiler_main(int argc, char **argv);
#include "daemon/programs/kiln_compiler.c"
#undef main

#include "common/base/fs.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/unit/daemon/program_run.h"

#define SERVED 70
#define RESUMED 71
#define DESCRIBED 72

static struct {
    const char *directory;
    bool privileged, keeps_privileges;
    /* result of the second call of getppid(). 0 means that the parent is outside the process
     * namespace; -1 means that the call returns the real parent's pid. */
    int parent;
    enum kiln_code limits, user, confinement, filter; /* results of the fake calls */
    const char *failing;
    unsigned nth;
    int error;
    const char *secret; /* in the environment of kiln-compiler */
} scene;

WRAP(bool, has_capability, int capability)
{
    (void)capability;
    return scene.privileged;
}

WRAP(bool, give_up_capabilities, void)
{
    errno = EPERM;
    return !scene.keeps_privileges;
}

WRAP(void, give_way_to_kilnd, int session) { (void)session; }

WRAP(enum kiln_code, process_limits_apply, const struct process_limits *limits,
     struct kiln_err *err)
{
    printf("limits %u %u %u of %u jobs\n", (unsigned)limits->cpu_s, (unsigned)limits->memory,
           (unsigned)limits->output, limits->jobs);
    return scene.limits ? kiln_fail(err, scene.limits, "no limits") : KILN_OK;
}

WRAP(void, process_limits_next_job, uint64_t cpu_s) { printf("may use %u s\n", (unsigned)cpu_s); }

WRAP(enum kiln_code, change_user, uid_t uid, gid_t gid, const char *setting, struct kiln_err *err)
{
    printf("becomes %u:%u for %s\n", (unsigned)uid, (unsigned)gid, setting);
    return scene.user ? kiln_fail(err, scene.user, "no other user") : KILN_OK;
}

WRAP(enum kiln_code, confine_begin, struct confinement *c, const struct confine_options *o,
     struct kiln_err *err)
{
    printf("confined to %s, outside %s, %s, %u bytes free\n", o->directory,
           o->outside ? o->outside : "here",
           o->is_workers_user ? "a worker's user" : "its own user", (unsigned)o->free_space);
    printf("the supervisor %s its privileges\n", o->give_up(o->context) ? "drops" : "keeps");
    c->options = *o;
    return scene.confinement ? kiln_fail(err, scene.confinement, "no box") : KILN_OK;
}

WRAP(enum kiln_code, confine_finish, struct confinement *c, struct kiln_err *err)
{
    printf("closed around %s\n", c->options.directory);
    return scene.filter ? kiln_fail(err, scene.filter, "no filter") : KILN_OK;
}

WRAP(int, compiler_worker_serve, const struct compiler_worker_options *options)
{
    char here[PATH_MAX] = "";
    calls_failed();
    printf("serves %u jobs in %s at home in %s with %s on the path, secret %s\n", options->max_jobs,
           getcwd(here, sizeof(here)), getenv("HOME"), getenv("PATH"),
           getenv("KILN_TEST_SECRET") ? "kept"
           : *scene.secret            ? "in memory"
                                      : "forgotten");
    return SERVED;
}

WRAP(int, compiler_worker_resume, const struct compiler_worker_options *options, const int files[3])
{
    (void)options;
    calls_failed();
    printf("resumes with %d, %d, %d\n", files[0], files[1], files[2]);
    return RESUMED;
}

WRAP(int, compiler_describe_to, const char *name, int fd)
{
    printf("describes %s to %d\n", name, fd);
    return DESCRIBED;
}

/* kiln-compiler calls getppid at its start, and a second time to see whether its parent has
 * ended. */
WRAP(pid_t, getppid, void)
{
    static unsigned calls;
    return ++calls > 1 && scene.parent >= 0 ? scene.parent : __real_getppid();
}

static void prepare_child(void)
{
    setenv("PATH", "/some/path", 1);
    setenv("KILN_TEST_SECRET", "yes", 1);
    scene.secret = getenv("KILN_TEST_SECRET");
    if (scene.failing)
        fail_call(scene.failing, scene.nth, scene.error);
}

static struct program_end run_with(enum program_fd_3 fd_3, const char *const *arguments)
{
    const struct program_steps steps = { .run = compiler_main,
                                         .fd_3 = fd_3,
                                         .before = prepare_child };
    return program_run(&steps, arguments);
}

#define RUN(...) run_with(FD_3_SOCKET, (const char *const[]){ "kiln-compiler", __VA_ARGS__, NULL })

SET_UP_STATIC(set_up)
{
    memset(&scene, 0, sizeof(scene));
    scene.directory = test_directory();
    scene.privileged = true;
    scene.parent = -1;
}

FIXTURE(compiler, set_up, NULL);

TEST(compiler, invalid_arguments_of_kiln_compiler_are_refused_by_name)
{
    static const struct {
        const char *flag, *value, *says;
    } cases[] = {
        { "--max-jobs", "many", "'many'" },
        { "--max-jobs", "3x", "'3x'" },
        { "--max-jobs", "", "not ''" },
        { "--max-jobs", "4294967296", "'4294967296'" },
        { "--max-jobs", "99999999999999999999", "'99999999999999999999'" },
        { "--limits", "1,2", "'1,2'" },
        { "--user", "root", "'root'" },
        { "--resume", "1,2", "usage:" },
        { "--unheard-of", "x", "usage:" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program_end end = RUN(cases[i].flag, cases[i].value);
        assert_int_equal(end.status, EXIT_USAGE);
        assert_says(end.text, cases[i].says);
    }
    assert_int_equal(RUN("--temp", "/tmp", "more").status, EXIT_USAGE);
    assert_int_equal(RUN("--max-jobs", "1").status, EXIT_USAGE);
}

TEST(compiler, kiln_compiler_prints_its_version_and_usage)
{
    struct program_end end = RUN("--version");
    assert_int_equal(end.status, 0);
    assert_string_equal(end.text, "kiln-compiler " KILN_VERSION "\n");
    end = RUN("--help");
    assert_int_equal(end.status, 0);
    assert_says(end.text, "Compiles jobs");
    end = RUN("--describe", "hiprtc");
    assert_int_equal(end.status, DESCRIBED);
    assert_says(end.text, "hiprtc");
}

TEST(compiler, kiln_compiler_without_a_socket_does_nothing)
{
    const char *const arguments[] = { "kiln-compiler", "--temp", scene.directory, NULL };
    for (unsigned i = 0; i < 2; i++) {
        struct program_end end = run_with(i ? FD_3_NONE : FD_3_NO_SOCKET, arguments);
        assert_int_equal(end.status, EXIT_USAGE);
        assert_says(end.text, "descriptor 3");
    }
}

TEST(compiler, kiln_compiler_serves_in_its_directory_with_few_variables)
{
    char expected[600];
    struct program_end end =
        RUN("--temp", scene.directory, "--max-jobs", "7", "--limits", "1,2,3", "--outside", "4,5");
    assert_int_equal(end.status, SERVED);
    snprintf(expected, sizeof(expected),
             "limits 1 2 3 of 7 jobs\n"
             "confined to %s, outside 4,5, its own user, 12 bytes free\n"
             "the supervisor drops its privileges\n"
             "may use 2 s\n"
             "closed around %s\n"
             "serves 7 jobs in %s at home in %s with /some/path on the path, secret forgotten\n",
             scene.directory, scene.directory, scene.directory, scene.directory);
    assert_string_equal(end.text, expected);
}

TEST(compiler, the_user_is_changed_before_or_after_the_confinement)
{
    for (unsigned i = 0; i < 2; i++) {
        scene.privileged = i == 0;
        struct program_end end = RUN("--temp", scene.directory, "--user", "45:46");
        assert_int_equal(end.status, SERVED);
        const char *becomes = strstr(end.text, "becomes 45:46 for compiler_user\n");
        const char *confined = strstr(end.text, "outside here");
        assert_non_null(becomes);
        assert_non_null(confined);
        assert_int_equal(becomes < confined, !scene.privileged);
    }
}

TEST(compiler, a_compiler_whose_parent_has_ended_serves_nothing)
{
    scene.parent = 1;
    struct program_end end = RUN("--temp", scene.directory);
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_null(strstr(end.text, "serves"));
    scene.parent = 0;
    assert_int_equal(RUN("--temp", scene.directory).status, SERVED);
}

TEST(compiler, a_resumed_compiler_is_not_confined_again)
{
    struct program_end end = RUN("--temp", "/nowhere", "--resume", "4,5,6");
    assert_int_equal(end.status, RESUMED);
    assert_string_equal(end.text, "resumes with 4, 5, 6\n");
    scene.failing = "getcwd";
    scene.nth = 1;
    scene.error = ENOENT;
    end = RUN("--temp", "/nowhere", "--resume", "4,5,6");
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_says(end.text, "temporary files");
}

static void expect_no_start(const char *says)
{
    struct program_end end =
        RUN("--temp", scene.directory, "--user", "45:46", "--limits", "1,2,3", "--max-jobs", "1");
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_says(end.text, says);
    assert_null(strstr(end.text, "serves"));
}

TEST(compiler, a_compiler_that_cannot_be_confined_does_not_start)
{
    scene.limits = KILN_DENIED;
    expect_no_start("no limits");
    scene.limits = KILN_OK;
    scene.confinement = KILN_DENIED;
    expect_no_start("no box");
    scene.confinement = KILN_OK;
    scene.filter = KILN_NO_MEMORY;
    expect_no_start("no filter");
    scene.filter = KILN_OK;
    scene.confinement = KILN_DENIED;
    scene.keeps_privileges = true; /* the supervisor itself reports the kept privileges */
    expect_no_start("privileges");
    scene.confinement = KILN_OK;
    expect_no_start("keeps its privileges");
    for (unsigned i = 0; i < 2; i++) {
        scene.privileged = i == 0;
        scene.keeps_privileges = true;
        expect_no_start("privileges");
        scene.keeps_privileges = false;
        scene.user = KILN_DENIED;
        expect_no_start("no other");
        scene.user = KILN_OK;
    }
    fs_remove_tree(AT_FDCWD, scene.directory);
    expect_no_start(scene.directory);
}

TEST(compiler, a_compiler_environment_that_cannot_be_set_up_is_reported)
{
    static const struct {
        const char *call, *says;
        unsigned calls;
    } cases[] = {
        { "access", "user 45", 1 },      { "chdir", "directory '", 1 },
        { "strdup", "environment", 1 },  { "setenv", "environment", 9 },
        { "open", "environment", 1 },    { "dup2", "environment", 1 },
        { "getrlimit", "its limit", 1 }, { "setrlimit", "its limit", 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        scene.failing = cases[i].call;
        scene.error = EACCES;
        for (scene.nth = 1; scene.nth <= cases[i].calls; scene.nth++)
            expect_no_start(cases[i].says);
    }
}

/* SPDX-License-Identifier: MIT */
#define main transfer_main
int transfer_main(int argc, char **argv);
#include "daemon/programs/kiln_transfer.c"
#undef main

#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/unit/daemon/program_run.h"

static struct {
    const char *directory;
    const char *staging;
    enum kiln_code received, reached, confined, result, snapshot; /* results of the fake calls */
    int killed_by; /* a signal during the transfer, or 0 */
    bool prints_cpu_limit;
    const char *failing;
    unsigned nth;
    const char *secret; /* in the environment of kiln-transfer */
} scene;

static enum kiln_code result_of(enum kiln_code code, struct kiln_err *err, const char *message)
{
    return code ? kiln_fail(err, code, "%s", message) : KILN_OK;
}

WRAP(enum kiln_code, transfer_receive_job, int socket, struct received_job *ret_job,
     struct kiln_err *err)
{
    assert_int_equal(socket, SOCKET_FD);
    *ret_job = (struct received_job){ .job = { .staging = scene.staging, .size_limit = 1u << 20 },
                                      .fds = { -1, -1 } };
    return result_of(scene.received, err, "no job came");
}

WRAP(enum kiln_code, transfer_reach, struct received_job *received, bool leaves,
     struct kiln_err *err)
{
    (void)received;
    printf("opens its files %s\n", leaves ? "before it changes its user" : "as its user");
    return result_of(scene.reached, err, "out of reach");
}

static void print_cpu_limit(const char *step)
{
    struct rlimit limit = { 0, 0 };
    if (scene.prints_cpu_limit && getrlimit(RLIMIT_CPU, &limit) == 0)
        printf("%s: %u of %u s\n", step, (unsigned)limit.rlim_cur, (unsigned)limit.rlim_max);
}

WRAP(enum kiln_code, transfer_confine, const struct transfer_job *job,
     const struct transfer_user *user, struct kiln_err *err)
{
    (void)job;
    print_cpu_limit("confining");
    if (user)
        printf("becomes %u:%u\n", (unsigned)user->uid, (unsigned)user->gid);
    return result_of(scene.confined, err, "no Landlock");
}

/* kiln-transfer passes on a new stage or attempt at once, and repeated reports only after a
 * while. */
static void report_stages(const struct transfer_sink *sink)
{
    static const struct transfer_progress stages[] = {
        { .stage = "fetching", .attempt = 1, .note = "" },
        { .stage = "fetching", .done = 1, .attempt = 1, .note = "" },
        { .stage = "fetching", .attempt = 2, .note = "again" },
        { .stage = "checking", .attempt = 2, .note = "" },
    };
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        sink->progress(sink->context, &stages[i]);
}

WRAP(void, transfer_run, const struct transfer_job *job, const struct fetch_policy *policy,
     const struct transfer_sink *sink, struct transfer_result *ret_result)
{
    (void)job;
    (void)policy;
    print_cpu_limit("transferring");
    if (*scene.secret || getenv("AWS_SECRET_ACCESS_KEY"))
        printf("knows a secret\n");
    report_stages(sink);
    *ret_result = (struct transfer_result){ .err = KILN_ERR_INIT, .name = "some.kdb" };
    fflush(stdout);
    if (scene.killed_by)
        raise(scene.killed_by);
    result_of(scene.result, &ret_result->err, "a bad package");
}

WRAP(void, transfer_send_progress, int socket, const struct transfer_progress *progress)
{
    (void)socket;
    printf("reports %s of attempt %u\n", progress->stage, progress->attempt);
}

WRAP(void, transfer_send_result, int socket, const struct transfer_result *result,
     const char *notice)
{
    (void)socket;
    printf("ends with %d '%s' and says '%s'\n", (int)result->err.code, result->err.text, notice);
    fflush(stdout);
}

WRAP(enum kiln_code, snapshot_take, const char *path, const char *directory, bool salvage,
     struct snapshot *ret_snapshot, struct kiln_err *err)
{
    printf("%s %s in %s\n", salvage ? "salvages" : "takes", path, directory);
    *ret_snapshot = (struct snapshot){ .fd = dup(STDOUT_FILENO) };
    return result_of(scene.snapshot, err, "no database");
}

WRAP(void, transfer_send_snapshot, int socket, const struct snapshot *snapshot,
     const struct kiln_err *why)
{
    (void)socket;
    printf("sends %s '%s'\n", snapshot ? "a snapshot" : "nothing", why->text);
}

static void prepare_child(void)
{
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    scene.secret = getenv("AWS_SECRET_ACCESS_KEY");
    if (scene.failing)
        fail_call(scene.failing, scene.nth, EPERM);
}

static struct program_end run_with(enum program_fd_3 fd_3, const char *const *arguments)
{
    const struct program_steps steps = { .run = transfer_main,
                                         .fd_3 = fd_3,
                                         .before = prepare_child };
    return program_run(&steps, arguments);
}

#define RUN(...) run_with(FD_3_SOCKET, (const char *const[]){ "kiln-transfer", __VA_ARGS__ })

SET_UP_STATIC(set_up)
{
    memset(&scene, 0, sizeof(scene));
    scene.directory = test_directory();
    scene.staging = scene.directory;
    test_setenv("TMPDIR", scene.directory);
}

FIXTURE(transfer, set_up, NULL);

TEST(transfer, invalid_arguments_of_kiln_transfer_are_refused)
{
    assert_int_equal(RUN("--user", "root", NULL).status, EXIT_USAGE);
    assert_int_equal(RUN("--unheard-of", NULL).status, EXIT_USAGE);
    struct program_end end = RUN("more", NULL);
    assert_int_equal(end.status, EXIT_USAGE);
    assert_says(end.text, "usage:");
    end = RUN("--version", NULL);
    assert_int_equal(end.status, 0);
    assert_string_equal(end.text, "kiln-transfer " KILN_VERSION "\n");
    end = RUN("--help", NULL);
    assert_int_equal(end.status, 0);
    assert_says(end.text, "Fetches files");
}

TEST(transfer, kiln_transfer_without_a_socket_does_nothing)
{
    const char *const arguments[] = { "kiln-transfer", NULL };
    for (unsigned i = 0; i < 2; i++) {
        struct program_end end = run_with(i ? FD_3_NONE : FD_3_NO_SOCKET, arguments);
        assert_int_equal(end.status, EXIT_USAGE);
        assert_says(end.text, "descriptor 3");
    }
    scene.failing = "fcntl";
    scene.nth = 1;
    assert_int_equal(RUN(NULL).status, EXIT_USAGE);
}

TEST(transfer, a_transfer_reports_each_stage_and_its_result)
{
    struct program_end end = RUN(NULL);
    assert_int_equal(end.status, EXIT_SUCCESS);
    assert_string_equal(end.text, "opens its files as its user\n"
                                  "reports fetching of attempt 1\n"
                                  "reports fetching of attempt 2\n"
                                  "reports checking of attempt 2\n"
                                  "ends with 0 '' and says ''\n");
    scene.result = KILN_CORRUPT;
    end = RUN("--user", "45:46", NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, "before");
    assert_says(end.text, "becomes 45:46");
    assert_says(end.text, "'a bad package' and says ''");
}

TEST(transfer, a_transfer_of_a_package_knows_no_credentials)
{
    struct program_end end = RUN(NULL);
    assert_says(end.text, "ends with 0");
    assert_null(strstr(end.text, "knows a secret"));
}

TEST(transfer, a_transfer_that_cannot_be_confined_is_refused_or_reported)
{
    scene.confined = KILN_UNSUPPORTED;
    struct program_end end = RUN("--user", "45:46", NULL);
    assert_int_equal(end.status, EXIT_SUCCESS);
    assert_says(end.text, "no Landlock'");
    scene.confined = KILN_DENIED;
    end = RUN(NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, "'no Landlock' and says ''");
    assert_null(strstr(end.text, "reports fetching"));
    scene.reached = KILN_INVALID;
    end = RUN(NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, "'out of reach' and says ''");
}

/* A library can loop without end after a failed allocation. */
TEST(transfer, the_processor_time_until_a_transfer_is_confined_is_limited)
{
    scene.prints_cpu_limit = true;
    struct program_end end = RUN("--user", "45:46", NULL);
    assert_says(end.text, "confining: 2 of 1200 s\n");
    assert_says(end.text, "transferring: 1200 of 1200 s\n");
}

TEST(transfer, a_transfer_environment_that_cannot_be_set_up_is_reported)
{
    static char longer[600];
    scene.received = KILN_INVALID;
    struct program_end end = RUN(NULL);
    assert_int_equal(end.status, EXIT_SURROUNDINGS);
    assert_says(end.text, "no job");
    scene.received = KILN_OK;
    scene.failing = "getrlimit";
    for (scene.nth = 1; scene.nth <= 2; scene.nth++) {
        end = RUN(NULL);
        assert_int_equal(end.status, EXIT_FAILURE);
        assert_says(end.text, "limits");
    }
    scene.failing = "setrlimit";
    for (scene.nth = 1; scene.nth <= 7 + LIMIT_MEMORY; scene.nth++)
        assert_says(RUN(NULL).text, "limits");
    scene.failing = NULL;
    memset(longer, 'x', sizeof(longer) - 1);
    scene.staging = longer;
    end = RUN(NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, "'xxx");
}

static void make_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", scene.directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* At a signal, kiln-transfer first removes its files and then ends. If its socket is not connected
 * to its parent, kiln-transfer ends at once, unless it was started with --launched. */
TEST(transfer, a_transfer_ended_by_a_signal_leaves_no_file)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    static const char *const names[] = { TRANSFER_FETCHED, TRANSFER_MANIFEST, SNAPSHOT_COPY };
    const char *const arguments[] = { "kiln-transfer", NULL };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        mkdir(scene.directory, 0700);
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
            make_file(names[j]);
        scene.killed_by = signals[i];
        assert_int_equal(RUN(NULL).status, 128 + signals[i]);
        assert_int_not_equal(access(scene.directory, F_OK), 0);
    }
    scene.killed_by = 0;
    assert_int_equal(run_with(FD_3_FOREIGN, arguments).status, -SIGKILL);
    const char *const launched[] = { "kiln-transfer", "--launched", NULL };
    assert_int_equal(run_with(FD_3_FOREIGN, launched).status, EXIT_SUCCESS);
}

TEST(transfer, a_snapshot_is_taken_in_a_directory_that_is_removed)
{
    struct program_end end = RUN("--snapshot", "some.db", NULL);
    assert_int_equal(end.status, EXIT_SUCCESS);
    assert_says(end.text, "takes some.db in /");
    assert_says(end.text, scene.directory);
    assert_says(end.text, "sends a snapshot ''\n");
    scene.snapshot = KILN_NOT_FOUND;
    end = RUN("--snapshot", "some.db", NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, "sends nothing 'no database'");
    assert_int_equal(rmdir(scene.directory), 0);
    end = RUN("--snapshot", "some.db", NULL);
    assert_int_equal(end.status, EXIT_FAILURE);
    assert_says(end.text, scene.directory);
    assert_says(end.text, "TMPDIR");
    scene.failing = "mkdtemp";
    scene.nth = 1;
    setenv("TMPDIR", "", 1);
    assert_says(RUN("--snapshot", "some.db", NULL).text, "'/tmp'");
    scene.failing = NULL;
    assert_says(RUN("--snapshot", "some.db", "--salvage", NULL).text, "salvages some.db in ");
}

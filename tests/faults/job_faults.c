/* SPDX-License-Identifier: MIT */
/*
 * Faults in a job that serves itself: client and engine are struck in one process, which is this
 * library's user and not ours.  What was acknowledged must be there for the next job.
 */
#include "common/clock.h"
#include "tests/faults/invariants.h"
#include "tests/faults/scene.h"

#include <dirent.h>
#include <fcntl.h>
#include <kiln/admin.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 12u
#define LEFT_OPEN 4 /* exit status: descriptors outlived the last client */
#define LASTS_MS \
    500u /* a fault that lasts, from its first strike on; then all must come to an end */
#define MS 1000000ull
#define CACHE "cache-home/kiln/embedded"
#define STATE "state-home/kiln/embedded"

struct job_operation {
    bool (*act)(struct scene *s, struct kiln_client *client); /* whether it succeeded */
};

/* ---- in a job ---- */

static void set(const struct scene *s, const char *name, const char *below)
{
    char value[160];
    snprintf(value, sizeof(value), "%s/%s", s->daemon.folder, below);
    setenv(name, value, 1);
}

/* At the socket is nobody. */
static void be_a_job(const struct scene *s)
{
    set(s, "HOME", "home");
    set(s, "XDG_RUNTIME_DIR", "run");
    set(s, "XDG_CACHE_HOME", "cache-home");
    set(s, "XDG_STATE_HOME", "state-home");
    set(s, "XDG_CONFIG_HOME", "config-home");
    setenv("KILN_SOCKET", s->daemon.socket, 1);
    setenv("KILN_FALLBACK", "embedded", 1);
    setenv("KILN_FALLBACK_NOTICE", "off", 1);
    setenv("KILN_COMPILER", KILN_BIN "/../tests/fault_compiler", 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static _Noreturn void work(struct scene *s, const struct job_operation *o)
{
    struct descriptors before, after;
    be_a_job(s);
    descriptors_look(getpid(), &before);
    fault_plan_obey(s->plan);
    struct kiln_client *client = scene_client(s);
    s->apart_done = o->act(s, client);
    kiln_client_close(client);
    fault_plan_obey(NULL);
    descriptors_look(getpid(), &after);
    if (!descriptors_are(&after, &before, s->why)) {
        print_message("descriptors were left open: %s\n", s->why);
        exit(LEFT_OPEN);
    }
    exit(0); /* not _exit: a sanitizer looks for leaks now */
}

/* ---- of the test ---- */

static void end_fault_that_lasts(const struct scene *s, uint64_t *struck_ns)
{
    uint64_t now = clock_monotonic_ns();
    if (!s->c->kind->onwards || atomic_load(&s->plan->struck) == 0)
        return;
    *struck_ns = *struck_ns ? *struck_ns : now;
    if (now - *struck_ns > LASTS_MS * MS)
        fault_plan_disarm(s->plan);
}

/* Whether it succeeded.  Afterwards no process is left of it. */
static bool run_job(struct scene *s, const struct job_operation *o)
{
    int status = 0;
    uint64_t struck_ns = 0;
    s->apart_done = false;
    fflush(NULL);
    pid_t job = fork();
    assert_true(job >= 0);
    if (job == 0)
        work(s, o);
    while (waitpid(job, &status, WNOHANG) == 0) {
        end_fault_that_lasts(s, &struck_ns);
        poll(NULL, 0, 2);
    }
    bool is_meant = fault_is_deadly(s->c->kind) && atomic_load(&s->plan->struck) > 0;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && is_meant;
    if (status && !killed)
        fail_msg("the job ended with wait status 0x%x", (unsigned)status);
    if (!wait_until(scene_has_no_child, NULL))
        fail_msg("a process outlives the job");
    return !killed && s->apart_done;
}

/* ---- what is done ---- */

static bool fetch_new(struct scene *s, struct kiln_client *client)
{
    return scene_fetch(s, client, ++s->kernel);
}

static bool fetch_warm(struct scene *s, struct kiln_client *client)
{
    bool came = scene_fetch(s, client, 1); /* in the answer */
    came &= scene_fetch(s, client, 2);     /* by descriptor */
    return came;
}

static bool put_records(struct scene *s, struct kiln_client *client)
{
    bool put = scene_put(s, client, 0);
    put &= scene_put(s, client, 1);
    return put;
}

static bool have_all(struct scene *s, struct kiln_client *client)
{
    (void)client;
    scene_warm(s);
    return true;
}

/* ---- what must hold ---- */

static unsigned long long compiles(struct kiln_client *client)
{
    struct kiln_error err = { 0 };
    struct kiln_err bad = KILN_ERR_INIT;
    struct json *stats = NULL;
    char *answer = NULL;
    must(kiln_admin(client, "stats", NULL, 0, &answer, &err), err);
    must(json_parse(bytes_of_text(answer), "stats", &stats, &bad), bad);
    unsigned long long count = stats_number(stats, "compiles");
    json_destroy(stats);
    kiln_free(answer);
    return count;
}

/* What jobs before it had is there and not made anew; then as if nothing had been. */
static bool find_all(struct scene *s, struct kiln_client *client)
{
    for (unsigned i = 1; i <= SCENE_WARM; i++) {
        if (!scene_fetch(s, client, i))
            fail_msg("kernel %u does not come: '%s'", i, s->why);
    }
    assert_int_equal(compiles(client), 0);
    scene_serves(s);
    return true;
}

/* The job after it has swept what a killed one left. */
static void expect_no_folder(const struct scene *s)
{
    char run[128];
    snprintf(run, sizeof(run), "%s/run", s->daemon.folder);
    DIR *dir = opendir(run);
    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] != '.')
            fail_msg("'%s/%s' was left behind", run, e->d_name);
    }
    closedir(dir);
}

static void expect_all(struct scene *s)
{
    static const struct job_operation finding = { find_all };
    char cache[128], state[128];
    snprintf(cache, sizeof(cache), "%s/" CACHE, s->daemon.folder);
    snprintf(state, sizeof(state), "%s/" STATE, s->daemon.folder);
    expect_sound_kernels(cache);
    expect_sound_tuning(state);
    assert_true(run_job(s, &finding));
    expect_no_file(cache, "damaged");
    expect_no_file(state, "damaged");
    expect_tidy_tuning(state);
    expect_no_folder(s);
}

/* True: the next place may follow. */
static bool strike(const struct fault_case *c, unsigned at, struct scene *s)
{
    fault_case_plan(c, at, s->plan);
    fault_plan_arm(s->plan);
    bool done = run_job(s, c->operation->context);
    bool struck = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    if (!done && (!struck || fault_is_harmless(c->kind)))
        fail_msg("it fails without a fault that could: '%s'", s->why);
    expect_all(s);
    return fault_case_next(c, s->plan, struck);
}

/* What a job notes is read here. */
static struct scene *open_scene(const struct fault_case *c)
{
    struct scene *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);
    scene_open(s, c, /* program= */ "");
    return s;
}

static void run(const struct fault_case *c)
{
    static const struct job_operation beginning = { have_all };
    struct scene *s = open_scene(c);
    assert_true(run_job(s, &beginning));
    unsigned at = c->first;
    while (strike(c, at, s))
        at += c->every;
    scene_close(s);
}

#define JOB_KINDS \
    (KINDS_OF_MEMORY | KINDS_OF_FILES | KINDS_OF_SOCKETS | KINDS_OF_DEATH | BIT(KIND_PROCESS))
#define JOB(label, what)                                                     \
    {                                                                        \
        .name = (label), .kinds = JOB_KINDS, .at_once = AT_ONCE, .run = run, \
        .context = &(const struct job_operation)                             \
        {                                                                    \
            what                                                             \
        }                                                                    \
    }

static const struct operation operations[] = {
    JOB("job-fetch-cold", fetch_new),
    JOB("job-fetch-warm", fetch_warm),
    JOB("job-tuning-record", put_records),
    { .name = NULL },
};

int main(int argc, char **argv) { return fault_cases_main(argc, argv, operations); }

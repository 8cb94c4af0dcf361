/* SPDX-License-Identifier: MIT */

/* Measures the first answer of a job that starts its private kilnd: the time from kiln_client_open
 * to the answer to a ping. For comparison, measures a job whose private kilnd runs already. Each
 * job is a separate process. */
#include "tests/bench/bench.h"

#include <kiln/client.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define ROUNDS_MAX 20u
#define PING_MS 30000
#define STOP_MS 20000

static const struct way {
    const char *name;
    unsigned workers;
    /* each job has a new home directory, so that kilnd must create its databases */
    bool is_new;
    bool is_running;
} ways[] = {
    { .name = "running", .is_running = true },
    { .name = "stored" },
    { .name = "new", .is_new = true },
    { .name = "stored-64", .workers = 64 },
    { .name = "new-64", .workers = 64, .is_new = true },
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

struct job {
    const struct bench_options *options;
    const struct way *way;
    const char *home;
    struct answer {
        uint64_t ns;
        int32_t kilnd;
    } * answer;
};

static enum kiln_code set_directory(const char *name, const char *home, const char *leaf,
                                    struct kiln_err *err)
{
    char path[BENCH_PATH_MAX];
    enum kiln_code rc = bench_path(home, leaf, path, err);
    if (!rc)
        setenv(name, path, 1);
    return rc;
}

static enum kiln_code set_environment(const struct job *job, struct kiln_err *err)
{
    static const struct {
        const char *name, *leaf;
    } directories[] = {
        { "HOME", "home" },
        { "XDG_RUNTIME_DIR", "run" },
        { "XDG_CACHE_HOME", "cache" },
        { "XDG_STATE_HOME", "state" },
        { "XDG_CONFIG_HOME", "config" },
        { "KILN_SOCKET", "none" },
    };
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]) && !rc; i++)
        rc = set_directory(directories[i].name, job->home, directories[i].leaf, err);
    if (!rc)
        rc = set_directory("KILN_KILND", job->options->bin, "kilnd", err);
    setenv("KILN_FALLBACK", "private", 1);
    char workers[16];
    snprintf(workers, sizeof(workers), "%u", job->way->workers);
    if (job->way->workers)
        setenv("KILND_WORKERS", workers, 1);
    return rc;
}

static enum kiln_code ask_kilnd(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    const struct job *job = context;
    enum kiln_code rc = set_environment(job, err);
    if (rc)
        return rc;
    if (!freopen("/dev/null", "w", stderr))
        return kiln_fail(err, KILN_IO, "cannot open /dev/null");
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error error = { .code = 0 };
    struct kiln_client *client = NULL;
    uint64_t from = clock_monotonic_ns();
    int failed = kiln_client_open(NULL, &client, &error);
    if (!failed)
        failed = kiln_client_ping(client, PING_MS, NULL, &error);
    job->answer->ns = clock_monotonic_ns() - from;
    if (!failed)
        failed = kiln_client_status(client, &status, &error);
    job->answer->kilnd = failed ? 0 : status.daemon_pid;
    kiln_client_close(client);
    return failed ? kiln_fail(err, (enum kiln_code)failed, "%s", error.text) : KILN_OK;
}

static enum kiln_code stop_kilnd(int32_t pid, struct kiln_err *err)
{
    KILN_AUTO(fd) int watch = pidfd_open(pid, 0);
    if (watch < 0)
        return kiln_fail(err, KILN_IO, "kilnd (process %d) ended early", pid);
    kill(pid, SIGTERM);
    struct pollfd ended = { .fd = watch, .events = POLLIN };
    if (poll(&ended, 1, STOP_MS) == 1)
        return KILN_OK;
    kill(pid, SIGKILL);
    return kiln_fail(err, KILN_TIMED_OUT, "kilnd (process %d) did not stop within 20 s", pid);
}

static enum kiln_code measure_job(const struct job *job, double *ret_ms, struct kiln_err *err)
{
    const struct way *way = job->way;
    enum kiln_code rc = KILN_OK;
    if (!way->is_new)
        rc = bench_fan_out(1, ask_kilnd, (void *)job, err);
    if (!rc && !way->is_new && !way->is_running)
        rc = stop_kilnd(job->answer->kilnd, err);
    if (!rc)
        rc = bench_fan_out(1, ask_kilnd, (void *)job, err);
    if (!rc) {
        *ret_ms = (double)job->answer->ns / 1e6;
        rc = stop_kilnd(job->answer->kilnd, err);
    }
    return rc;
}

static enum kiln_code measure_round(const struct bench_options *o, unsigned round,
                                    struct answer *answer, double (*ms)[ROUNDS_MAX],
                                    struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < WAYS && !rc; i++) {
        char name[32], home[BENCH_PATH_MAX];
        snprintf(name, sizeof(name), "%zu-%u", i, ways[i].is_new ? round : 0);
        const struct job job = { .options = o, .way = &ways[i], .home = home, .answer = answer };
        rc = bench_path(o->work, name, home, err);
        if (!rc)
            rc = measure_job(&job, &ms[i][round], err);
    }
    return rc;
}

static enum kiln_code report_way(const struct way *way, const double *ms, unsigned rounds,
                                 struct kiln_err *err)
{
    struct json *result = bench_result("first");
    struct json *array = json_array();
    for (unsigned i = 0; i < rounds; i++)
        json_append(array, json_number(ms[i]));
    json_set_text(result, "way", way->name);
    json_set(result, "ms", array);
    return bench_print(result, err);
}

static enum kiln_code measure_first_answers(const struct bench_options *o, struct kiln_err *err)
{
    static double ms[WAYS][ROUNDS_MAX];
    unsigned rounds = o->quick ? 5 : ROUNDS_MAX;
    void *answer = NULL;
    enum kiln_code rc = bench_shared(sizeof(struct answer), &answer, err);
    bench_say("first: %u rounds", rounds);
    for (unsigned round = 0; round < rounds && !rc; round++)
        rc = measure_round(o, round, answer, ms, err);
    for (size_t i = 0; i < WAYS && !rc; i++)
        rc = report_way(&ways[i], ms[i], rounds, err);
    bench_shared_done(answer, sizeof(struct answer));
    return rc;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "bench_first", measure_first_answers);
}

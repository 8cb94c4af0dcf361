/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "engine/tuning/tuning.h"
#include "tests/bench/tuning_phases.h"
#include "tests/support/tuning_work.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

struct results { /* indexed by round; shared with the child process */
    double wc_s[PHASE_ROUNDS_MAX + 1], sort_c_s[PHASE_ROUNDS_MAX + 1], sort_s[PHASE_ROUNDS_MAX + 1];
    double import_s[PHASE_ROUNDS_MAX + 1]; /* the last round is not reported */
    struct tuning_counts counts;
    uint64_t index_bytes;
};

struct job {
    const struct way_place *place;
    const char *state;
    struct results *results;
    unsigned round;
};

_Noreturn static void exec_program(const char *program, const char *path, const char *locale)
{
    int null = open("/dev/null", O_WRONLY);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || (locale && setenv("LC_ALL", locale, 1)))
        _exit(127);
    execlp(program, program, path, (char *)NULL);
    _exit(127);
}

/* |locale| may be NULL; the program then has this process's locale. */
static enum kiln_code time_program(const char *program, const char *path, const char *locale,
                                   double *ret_s, struct kiln_err *err)
{
    uint64_t from = clock_monotonic_ns();
    pid_t pid = fork();
    if (pid == 0)
        exec_program(program, path, locale);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return kiln_fail_errno(err, errno, "cannot run '%s'", program);
    if (status)
        return kiln_fail(err, KILN_IO, "'%s %s' failed", program, path);
    *ret_s = (double)(clock_monotonic_ns() - from) / 1e9;
    return KILN_OK;
}

static enum kiln_code time_programs(const struct job *job, struct kiln_err *err)
{
    const char *path = job->place->data->path;
    struct results *f = job->results;
    enum kiln_code rc = time_program("wc", path, NULL, &f->wc_s[job->round], err);
    if (!rc)
        rc = time_program("sort", path, "C", &f->sort_c_s[job->round], err);
    return rc ? rc : time_program("sort", path, NULL, &f->sort_s[job->round], err);
}

static enum kiln_code import_file(struct tuning *tuning, const struct job *job,
                                  struct kiln_err *err)
{
    const struct tuning_data *data = job->place->data;
    struct tuning_import import = {
        .path = data->path, .source_name = data->name, .tier = TUNING_TIER_SYSTEM, .library = ""
    };
    const struct tuning_job_events silent = { 0 };
    enum kiln_code rc = tuning_file_name_parse(data->name, &import.name, err);
    if (rc)
        return rc;
    uint64_t from = clock_monotonic_ns();
    KILN_AUTO(tuning_job) struct tuning_job *work = NULL;
    rc = tuning_job_import(tuning, &import, &work, err);
    if (!rc)
        rc = work_all_steps(tuning, work, &silent, err);
    if (rc)
        return rc;
    while (!tuning_job_take(tuning, work))
        ;
    job->results->import_s[job->round] = (double)(clock_monotonic_ns() - from) / 1e9;
    job->results->counts = *tuning_job_counts(work);
    job->results->index_bytes = tuning_stats_of(tuning).mapped_bytes;
    return KILN_OK;
}

static enum kiln_code import_anew(const struct job *job, struct kiln_err *err)
{
    char notice[512];
    fs_remove_tree(AT_FDCWD, job->state);
    enum kiln_code rc = fs_make_directories(job->state, err);
    if (rc)
        return rc;
    const struct tuning_options options = { .directory = job->state };
    KILN_AUTO(tuning) struct tuning *tuning = NULL;
    rc = tuning_open(&options, &tuning, notice, err);
    return rc ? rc : import_file(tuning, job, err);
}

/* Each import runs in its own process, so that it starts without the memory of an earlier
 * import. */
static enum kiln_code import_child(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    return import_anew(context, err);
}

static enum kiln_code in_child(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    const struct job *job = context;
    enum kiln_code rc = KILN_OK;
    if (job->place->data->kind == TUNING_FIND)
        rc = time_programs(job, err);
    return rc ? rc : import_anew(job, err);
}

static struct json *numbers(const double *values, unsigned count)
{
    struct json *array = json_array();
    for (unsigned i = 0; i < count; i++)
        json_append(array, json_number(values[i]));
    return array;
}

static enum kiln_code report_import(const struct tuning_data *data, const struct results *f,
                                    unsigned rounds, struct kiln_err *err)
{
    struct json *result = phase_result("tuning_import", data);
    json_set_u64(result, "imported", f->counts.records);
    json_set_u64(result, "bad", f->counts.bad);
    json_set_u64(result, "index_bytes", f->index_bytes);
    if (data->kind == TUNING_FIND) {
        json_set(result, "wc_s", numbers(f->wc_s, rounds));
        json_set(result, "sort_c_s", numbers(f->sort_c_s, rounds));
        json_set(result, "sort_s", numbers(f->sort_s, rounds));
    }
    json_set(result, "import_s", numbers(f->import_s, rounds));
    return bench_print(result, err);
}

/* Imports into kilnd's state directory, for later phases. This time is not reported. */
static enum kiln_code import_for_daemon(struct job *job, const char *state, struct kiln_err *err)
{
    job->state = state;
    return bench_fan_out(1, import_child, job, err);
}

enum kiln_code phase_import(const struct way_place *place, const char *daemon_state,
                            unsigned rounds, struct kiln_err *err)
{
    void *memory;
    enum kiln_code rc = bench_shared(sizeof(struct results), &memory, err);
    if (rc)
        return rc;
    bench_say("tuning: importing '%s', %u rounds", place->data->name, rounds);
    struct job job = { .place = place, .state = place->state, .results = memory };
    for (job.round = 0; job.round < rounds && !rc; job.round++)
        rc = bench_fan_out(1, in_child, &job, err);
    if (!rc)
        rc = report_import(place->data, memory, rounds, err);
    if (!rc)
        rc = import_for_daemon(&job, daemon_state, err);
    bench_shared_done(memory, sizeof(struct results));
    return rc;
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_jobs.h"

#include "cli/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dated_job {
    char name[TRACE_JOB_MAX];
    struct timespec changed; /* of the directory, which changes when a process adds a file */
};

struct newest { /* sorted, the newest first */
    struct dated_job jobs[REPORT_JOBS_MAX];
    size_t count, seen;
};

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static int add_newest(void *context, const char *name, struct kiln_error *err)
{
    struct newest *n = context;
    char path[PATH_TEXT_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    struct stat seen;
    size_t at = n->count;
    (void)err;
    if (trace_directory(name, path, &why) || stat(path, &seen) != 0 || !S_ISDIR(seen.st_mode))
        return KILN_E_OK;
    n->seen++;
    while (at > 0 && is_newer(&seen.st_mtim, &n->jobs[at - 1].changed))
        at--;
    if (at == REPORT_JOBS_MAX)
        return KILN_E_OK;
    n->count += n->count < REPORT_JOBS_MAX;
    memmove(&n->jobs[at + 1], &n->jobs[at], (n->count - at - 1) * sizeof(n->jobs[0]));
    n->jobs[at].changed = seen.st_mtim;
    snprintf(n->jobs[at].name, sizeof(n->jobs[at].name), "%s", name);
    return KILN_E_OK;
}

static int read_job(const char *name, struct report_jobs *jobs, struct kiln_error *err)
{
    struct report_job *grown = reallocarray(jobs->list, jobs->count + 1, sizeof(*grown));
    if (!grown)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the job '%.100s'", name);
    jobs->list = grown;
    int rc = report_job_read(name, &grown[jobs->count], err);
    jobs->count += rc == KILN_E_OK;
    return rc;
}

static int read_newest(const struct newest *newest, struct report_jobs *jobs,
                       struct kiln_error *err)
{
    for (size_t i = 0; i < newest->count; i++) {
        int rc = read_job(newest->jobs[i].name, jobs, err);
        if (rc == KILN_E_NO_MEMORY)
            return rc;
        if (rc && rc != KILN_E_NOT_FOUND)
            output_error(stderr, "kilnctl", err, NULL);
        *err = (struct kiln_error){ 0 };
    }
    return KILN_E_OK;
}

int report_jobs_read_one(const char *name, struct report_jobs *ret_jobs, struct kiln_error *err)
{
    *ret_jobs = (struct report_jobs){ 0 };
    return read_job(name, ret_jobs, err);
}

int report_jobs_read(struct report_jobs *ret_jobs, struct kiln_error *err)
{
    struct newest newest = { .count = 0 };
    *ret_jobs = (struct report_jobs){ 0 };
    int rc = trace_each_job(add_newest, &newest, err);
    ret_jobs->left_out = newest.seen - newest.count;
    return rc ? rc : read_newest(&newest, ret_jobs, err);
}

void report_jobs_to_json(const struct report_jobs *jobs, struct json *json)
{
    struct json *list = json_array();
    for (size_t i = 0; i < jobs->count; i++)
        json_append(list, report_job_json(&jobs->list[i]));
    json_set(json, "jobs", list);
    json_set_u64(json, "left_out_jobs", jobs->left_out);
}

void report_jobs_done(struct report_jobs *jobs)
{
    free(jobs->list);
    *jobs = (struct report_jobs){ 0 };
}

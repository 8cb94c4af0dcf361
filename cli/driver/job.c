/* SPDX-License-Identifier: MIT */
#include "cli/driver/job.h"

#include <string.h>

static int check_solver_name(const struct kiln_driver_line *job, struct kiln_error *err)
{
    if (*job->solver && !job->solver[strspn(job->solver, "-0123456789")])
        return cli_fail(err, KILN_E_INVALID,
                        "-S %.20s: numbers stand for MIOpen's own solvers, which kiln does not "
                        "have.  Name one of kiln's, such as -S ConvDirectNaive; -S -1 chooses the "
                        "best",
                        job->solver);
    return KILN_E_OK;
}

int job_parse(const char *line, struct kiln_driver_line *ret_job, struct kiln_error *err)
{
    *ret_job = (struct kiln_driver_line){ .size = sizeof(*ret_job) };
    int rc = kiln_driver_line_parse(line, ret_job, err);
    return rc ? rc : check_solver_name(ret_job, err);
}

int job_parse_words(const char *const *words, size_t count, struct kiln_driver_line *ret_job,
                    struct kiln_error *err)
{
    *ret_job = (struct kiln_driver_line){ .size = sizeof(*ret_job) };
    int rc = kiln_driver_words_parse(words, count, ret_job, err);
    return rc ? rc : check_solver_name(ret_job, err);
}

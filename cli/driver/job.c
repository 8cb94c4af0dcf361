/* SPDX-License-Identifier: MIT */
#include "cli/driver/job.h"

int job_parse(const char *line, struct job *ret_job, struct kiln_error *err)
{
    FLAG_WORDS_AUTO struct flag_words words = { 0 };
    struct job job = { 0 };
    int rc = flag_words_split(line, &words, err);
    if (!rc)
        rc = run_flags_parse(words.words, words.count, &job.flags, err);
    if (!rc)
        rc = kiln_problem_from_driver(line, job.problems, &job.count, err);
    if (rc)
        return rc;
    *ret_job = job;
    return KILN_E_OK;
}

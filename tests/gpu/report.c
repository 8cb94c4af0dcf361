/* SPDX-License-Identifier: MIT */
#include "tests/gpu/report.h"

#include "tests/gpu/problems.h"

static const char *const state_names[] = { "waits",  "runs",       "ok",    "slow",       "WRONG",
                                           "FAILED", "UNCOMPILED", "STUCK", "out of time" };

static int state_of(const struct trials *t, size_t index)
{
    return atomic_load(&trial_result(t, index)->state);
}

void report_row(const struct trials *t, size_t index)
{
    const struct gpu_trial *trial = &t->trials[index];
    const struct trial_result *r = trial_result(t, index);
    const struct problem *p = &t->problems[trial->problem];
    char text[160];
    problem_label(p, text, sizeof(text));
    double us = r->timing.microseconds;
    printf("%-44s %-16s %-30s", text, trial->solver->name, trial->config);
    if (us > 0)
        printf(" %9.1f us %6.1f TF/s %6.0f GB/s", us, problem_flops(p) / us * 1e-6,
               problem_bytes(p) / us * 1e-3);
    printf(" r%d s%d l%d", r->resources.registers, r->resources.shared, r->resources.local);
    printf(" %s %s\n", state_names[state_of(t, index)], r->text);
}

void report_json(FILE *json, const struct trials *t, size_t index)
{
    const struct gpu_trial *trial = &t->trials[index];
    const struct trial_result *r = trial_result(t, index);
    fprintf(json, "{");
    problem_write_json(json, &t->problems[trial->problem]);
    json_write_text(json, "solver", trial->solver->name);
    json_write_text(json, "config", trial->config);
    json_write_text(json, "state", state_names[state_of(t, index)]);
    json_write_text(json, "text", r->text);
    fprintf(json,
            "\"us\": %.3f, \"spread\": %.4f, \"registers\": %d, \"shared\": %d, \"local\": %d, "
            "\"workspace\": %llu, \"error\": %.3g}\n",
            r->timing.microseconds, r->timing.spread, r->resources.registers, r->resources.shared,
            r->resources.local, (unsigned long long)r->workspace, r->error);
}

static double time_of(const struct trials *t, size_t index)
{
    return trial_result(t, index)->timing.microseconds;
}

void report_best(const struct trials *t)
{
    for (size_t i = 0; i < t->problem_count; i++) {
        size_t best = SIZE_MAX, count = 0;
        for (size_t j = 0; j < t->count; j++) {
            if (t->trials[j].problem != i)
                continue;
            count++;
            if (state_of(t, j) == TRIAL_RIGHT && time_of(t, j) > 0 &&
                (best == SIZE_MAX || time_of(t, j) < time_of(t, best)))
                best = j;
        }
        if (best != SIZE_MAX && count > 1)
            report_row(t, best);
    }
}

bool report_summary(const struct trials *t)
{
    size_t counts[TRIAL_OUT_OF_TIME + 1] = { 0 };
    for (size_t i = 0; i < t->count; i++)
        counts[state_of(t, i)]++;
    printf("%zu trials of %zu problems:", t->count, t->problem_count);
    for (int i = 0; i <= TRIAL_OUT_OF_TIME; i++)
        if (counts[i])
            printf(" %zu %s", counts[i], state_names[i]);
    printf("\n");
    return counts[TRIAL_RIGHT] + counts[TRIAL_SLOW] + counts[TRIAL_OUT_OF_TIME] == t->count;
}

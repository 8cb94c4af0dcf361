/* SPDX-License-Identifier: MIT */
/*
 * job_steps runs all problems of a network as one step of a job, again and again, with plans by
 * KILN_FIND_SOON.  Prints one JSON object. --help lists the options.
 *
 * Between two steps, it takes better plans, as a job does.  It counts the launches of each plan.
 * After the last step, it closes the client, which ends the thread that measures.  Then it times
 * each plan alone, and a step with the last plans.  From these times, it estimates how long the
 * same steps would have taken without the thread.  Uses only libkiln's public headers.
 */
#include "tests/gpu/network.h"
#include "tests/gpu/started.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 600000
#define SECONDS_MAX 3600u
#define USES_MAX 16384u
#define STEPS_MAX 4096u
#define SAMPLES 5u
#define SAMPLE_MS 1.0
#define LAUNCHES_MAX 64u

struct use { /* a plan that the job used for a problem */
    unsigned problem;
    struct kiln_plan *plan; /* a reference */
    unsigned launches;      /* without those of the first step */
    double ms;              /* time of one launch alone */
};

struct slot { /* a problem of the step */
    struct kiln_conv_result *result;
    struct kiln_run *run;
    struct use *use;
    bool is_provisional, is_tuned;
    unsigned changes;
};

struct first_step {
    double begin_s, seconds, wait_s, load_s, compile_s;
    unsigned compiled, generic;
};

struct job {
    const char *device_name, *file;
    double limit_s, settle_s;
    struct network network;
    struct kiln_client *client;
    struct slot slots[NETWORK_MAX];
    struct use uses[USES_MAX];
    unsigned use_count;
    struct first_step first;
    uint64_t generation;
    unsigned steps;
    double spent_s, longest_s, improved_s; /* |improved_s|: when the last better plan came */
    double second_s[SECONDS_MAX];          /* time of the steps that ended in each second */
    unsigned second_steps[SECONDS_MAX];
    double step_s; /* median of a step with the last plans, after the thread's end */
};

static const char usage[] = "Usage: job_steps [OPTION]... FILE\n"
                            "Runs the problems of FILE (MIOpenDriver command lines) one after the "
                            "other as a step, again and\n"
                            "again, with plans by KILN_FIND_SOON.\n"
                            "  --device NAME   cuda:0, hip:0, opencl:0, ... (auto)\n"
                            "  --seconds S     how long to repeat the step (0: only once)\n"
                            "  --settle S      how long to repeat the step with the last plans as "
                            "a warm-up, and then as\n"
                            "                  long again to time it (1)\n";

/* ---- options ---- */

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "job_steps: %s%s\n%s", what, value, usage);
    exit(2);
}

static double read_seconds(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds < SECONDS_MAX))
        refuse("seconds must be from 0 to below 3600, not ", text);
    return seconds;
}

static void read_options(struct job *job, int argc, char **argv)
{
    static const struct option table[] = {
        { "device", required_argument, NULL, 'D' },
        { "seconds", required_argument, NULL, 's' },
        { "settle", required_argument, NULL, 't' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (letter) {
        case 'D': job->device_name = optarg; break;
        case 's': job->limit_s = read_seconds(optarg); break;
        case 't': job->settle_s = read_seconds(optarg); break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind + 1 != argc)
        refuse("one FILE is needed", "");
    job->file = argv[optind];
}

static void open_all(struct job *job)
{
    struct kiln_error err;
    struct kiln_client_options options = { .size = sizeof(options),
                                           .timeout_ms = TIMEOUT_MS,
                                           .name = "job_steps" };
    network_must(kiln_client_open(&options, &job->client, &err), "client", &err);
    network_must(kiln_device_open(job->device_name, &job->network.device, &err), "device", &err);
    network_allocate(&job->network);
    network_must(kiln_device_finish(job->network.device, &err), "device", &err);
}

/* ---- plans ---- */

/* Notes that the problem uses another plan from now on, and loads it. */
static void take_plan(struct job *job, unsigned index)
{
    struct slot *slot = &job->slots[index];
    struct kiln_error err;
    if (job->use_count == USES_MAX)
        refuse("too many plans: ", job->file);
    slot->use = &job->uses[job->use_count++];
    *slot->use = (struct use){ .problem = index,
                               .plan = kiln_plan_ref(kiln_conv_result_plan(slot->result)) };
    kiln_run_destroy(slot->run);
    network_must(kiln_run_create(job->network.device, slot->use->plan, &slot->run, &err), "run",
                 &err);
}

/* The kernels of a plan are compiled in parallel, so the longest compile counts. */
static void note_compile(struct first_step *first, const struct kiln_plan *plan)
{
    double longest_s = 0;
    for (unsigned i = 0; i < kiln_plan_object_count(plan); i++) {
        double s = (double)kiln_plan_object_compile_ns(plan, i) / 1e9;
        if (kiln_plan_object_tier(plan, i) != KILN_TIER_COMPILED)
            continue;
        first->compiled++;
        longest_s = s > longest_s ? s : longest_s;
    }
    first->compile_s += longest_s;
    first->generic += kiln_plan_source(plan) == KILN_PLAN_GENERIC;
}

static void find_problem(struct job *job, unsigned index)
{
    struct slot *slot = &job->slots[index];
    struct kiln_error err;
    const struct kiln_conv_options options = { .size = sizeof(options),
                                               .device = job->network.device,
                                               .timeout_ms = TIMEOUT_MS,
                                               .mode = KILN_FIND_SOON };
    double began = started_now();
    network_must(
        kiln_conv_find(job->client, &job->network.problems[index], &options, &slot->result, &err),
        "find", &err);
    double found = started_now();
    slot->is_provisional = kiln_conv_result_generation(slot->result) > 0;
    note_compile(&job->first, kiln_conv_result_plan(slot->result));
    take_plan(job, index);
    job->first.wait_s += found - began;
    job->first.load_s += started_now() - found;
}

static void refresh_plans(struct job *job)
{
    uint64_t generation = kiln_conv_generation(job->client);
    if (generation == job->generation)
        return;
    job->generation = generation;
    for (unsigned i = 0; i < job->network.count; i++) {
        struct slot *slot = &job->slots[i];
        struct kiln_error err;
        struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
        network_must(kiln_conv_plan_refresh(job->client, slot->result, &refreshed, &err), "refresh",
                     &err);
        slot->is_tuned = refreshed.is_tuned;
        if (!refreshed.is_new)
            continue;
        take_plan(job, i);
        slot->changes++;
        job->improved_s = job->spent_s;
    }
}

/* ---- steps ---- */

static void launch_all(struct job *job)
{
    struct kiln_error err;
    for (unsigned i = 0; i < job->network.count; i++) {
        const struct slot *slot = &job->slots[i];
        network_launch(&job->network, i, slot->run, kiln_plan_workspace(slot->use->plan));
    }
    network_must(kiln_device_finish(job->network.device, &err), "a step", &err);
}

static void run_first_step(struct job *job)
{
    struct kiln_error err;
    job->first.begin_s = started_now();
    for (unsigned i = 0; i < job->network.count; i++) {
        find_problem(job, i);
        network_launch(&job->network, i, job->slots[i].run,
                       kiln_plan_workspace(job->slots[i].use->plan));
    }
    network_must(kiln_device_finish(job->network.device, &err), "the first step", &err);
    job->first.seconds = started_now() - job->first.begin_s;
}

/* A step includes the refreshes before it, which load kernels. */
static void run_steps(struct job *job)
{
    double begin = started_now(), last = begin;
    while (last - begin < job->limit_s) {
        unsigned second = (unsigned)(last - begin);
        refresh_plans(job);
        launch_all(job);
        double now = started_now(), took = now - last;
        for (unsigned i = 0; i < job->network.count; i++)
            job->slots[i].use->launches++;
        job->steps++;
        job->spent_s = now - begin;
        job->longest_s = took > job->longest_s ? took : job->longest_s;
        job->second_s[second] += took;
        job->second_steps[second]++;
        last = now;
    }
    refresh_plans(job);
}

/* Ends the thread.  Plans and devices do not need the client. */
static void close_client(struct job *job)
{
    for (unsigned i = 0; i < job->network.count; i++)
        kiln_conv_result_free(job->slots[i].result);
    kiln_client_close(job->client);
}

/* ---- times without the thread ---- */

static int compare_doubles(const void *left, const void *right)
{
    double x = *(const double *)left, y = *(const double *)right;
    return (x > y) - (x < y);
}

static double median_of(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[count / 2];
}

struct clock {
    struct kiln_event *begin, *end;
};

static double launch_many(struct job *job, const struct use *use, struct kiln_run *run,
                          const struct clock *clock, unsigned launches)
{
    struct kiln_error err;
    double ms = 0;
    network_must(kiln_event_record(clock->begin, NULL, &err), "event", &err);
    for (unsigned i = 0; i < launches; i++)
        network_launch(&job->network, use->problem, run, kiln_plan_workspace(use->plan));
    network_must(kiln_event_record(clock->end, NULL, &err), "event", &err);
    network_must(kiln_event_elapsed(clock->begin, clock->end, &ms, &err), "event", &err);
    return ms / launches;
}

static void time_use(struct job *job, struct use *use, const struct clock *clock)
{
    struct kiln_error err;
    struct kiln_run *run = NULL;
    double samples[SAMPLES];
    network_must(kiln_run_create(job->network.device, use->plan, &run, &err), "run", &err);
    (void)launch_many(job, use, run, clock, 1);
    double ms = launch_many(job, use, run, clock, 1);
    unsigned launches =
        ms * LAUNCHES_MAX > SAMPLE_MS ? (unsigned)(SAMPLE_MS / ms) + 1 : LAUNCHES_MAX;
    for (unsigned i = 0; i < SAMPLES; i++)
        samples[i] = launch_many(job, use, run, clock, launches);
    use->ms = median_of(samples, SAMPLES);
    kiln_run_destroy(run);
}

static void time_uses(struct job *job)
{
    struct kiln_error err;
    struct clock clock;
    network_must(kiln_event_create(job->network.device, &clock.begin, &err), "event", &err);
    network_must(kiln_event_create(job->network.device, &clock.end, &err), "event", &err);
    for (unsigned i = 0; i < job->use_count; i++)
        time_use(job, &job->uses[i], &clock);
    kiln_event_destroy(clock.begin);
    kiln_event_destroy(clock.end);
}

static void time_step(struct job *job)
{
    static double samples[STEPS_MAX];
    unsigned count = 0;
    double begin = started_now(), last = begin;
    while (count == 0 || (count < STEPS_MAX && last - begin < 2 * job->settle_s)) {
        launch_all(job);
        double now = started_now();
        if (now - begin >= job->settle_s)
            samples[count++] = now - last;
        last = now;
    }
    job->step_s = median_of(samples, count);
}

/* ---- the report ---- */

static double device_ms(const struct job *job)
{
    double ms = 0;
    for (unsigned i = 0; i < job->network.count; i++)
        ms += job->slots[i].use->ms;
    return ms;
}

/* Returns how long the steps would have taken without the thread.  A launch in a step takes longer
 * than one among launches of the same plan, because the caches contain other data.  The last plans
 * show by what factor. */
static double undisturbed_s(const struct job *job)
{
    double ms = 0;
    for (unsigned i = 0; i < job->use_count; i++)
        ms += job->uses[i].launches * job->uses[i].ms;
    return ms * job->step_s / device_ms(job);
}

static void report_problem(const struct job *job, unsigned index)
{
    const struct slot *slot = &job->slots[index];
    struct kiln_error err;
    char command[512] = "";
    network_must(
        kiln_problem_to_driver(&job->network.problems[index], command, sizeof(command), &err),
        "problem", &err);
    printf("%s\n  {\"command\": \"%s\", \"solver\": \"%s\", \"config\": \"%s\", \"ms\": %.6f, "
           "\"provisional\": %s, \"tuned\": %s, \"changes\": %u}",
           index ? "," : "", command, kiln_plan_solver(slot->use->plan),
           kiln_plan_config(slot->use->plan), slot->use->ms,
           slot->is_provisional ? "true" : "false", slot->is_tuned ? "true" : "false",
           slot->changes);
}

static void report_seconds(const struct job *job)
{
    const char *separator = "";
    printf("\"second_ms\": [");
    for (unsigned i = 0; i < SECONDS_MAX; i++) {
        if (job->second_steps[i] > 0) {
            printf("%s%.4f", separator, 1e3 * job->second_s[i] / job->second_steps[i]);
            separator = ", ";
        }
    }
    printf("],\n ");
}

static void report(const struct job *job)
{
    const struct first_step *first = &job->first;
    printf("{\"device\": \"%s\",\n \"first\": {\"seconds\": %.6f, \"wait_s\": %.6f, \"load_s\": "
           "%.6f, \"compile_s\": %.6f, \"compiled\": %u, \"generic\": %u},\n ",
           kiln_device_model(job->network.device), first->seconds, first->wait_s, first->load_s,
           first->compile_s, first->compiled, first->generic);
    printf("\"steps\": {\"count\": %u, \"seconds\": %.6f, \"undisturbed_s\": %.6f, \"longest_s\": "
           "%.6f, \"plans\": %u, \"improved_s\": %.3f},\n ",
           job->steps, job->spent_s, undisturbed_s(job), job->longest_s, job->use_count,
           job->improved_s);
    report_seconds(job);
    printf("\"step_s\": %.9f, \"device_s\": %.9f,\n \"problems\": [", job->step_s,
           device_ms(job) / 1e3);
    for (unsigned i = 0; i < job->network.count; i++)
        report_problem(job, i);
    puts("]}");
}

static void done(struct job *job)
{
    for (unsigned i = 0; i < job->network.count; i++)
        kiln_run_destroy(job->slots[i].run);
    for (unsigned i = 0; i < job->use_count; i++)
        kiln_plan_unref(job->uses[i].plan);
    network_done(&job->network);
}

int main(int argc, char **argv)
{
    static struct job job = { .device_name = "auto", .settle_s = 1 };
    read_options(&job, argc, argv);
    network_read(&job.network, job.file);
    if (job.network.count == 0)
        refuse("no problem in ", job.file);
    open_all(&job);
    run_first_step(&job);
    run_steps(&job);
    close_client(&job);
    time_step(&job);
    time_uses(&job);
    report(&job);
    done(&job);
    return 0;
}

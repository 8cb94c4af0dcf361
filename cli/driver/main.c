/* SPDX-License-Identifier: MIT */

/*
 * kiln-driver: runs convolutions as MIOpenDriver's command lines state them.
 *
 *   main.c            opens client and device, runs every line, reports the result
 *   options.[ch]      kiln-driver's own options
 *   job.[ch]          parses MIOpenDriver's command lines
 *   ahead.[ch]        requests all of a file's kernels at once
 *   measure.[ch]      one problem: plan, fetch, load, launch, check
 *   find.[ch]         finds or tunes a problem first; find_progress.[ch] shows the progress
 *   tensors.[ch]      a problem's data on host and device
 *   storage.[ch]      number formats
 *   reference.[ch]    the CPU reference
 *   rounding.[ch]     error bounds
 *   report.[ch]       totals and JSON; lines_report.[ch] prints each result as text
 *   devices.[ch]      the list of devices
 *   pocl_directory.[ch]  a temporary directory for PoCL's files
 */
#include "cli/driver/ahead.h"
#include "cli/driver/devices.h"
#include "cli/driver/find.h"
#include "cli/driver/job.h"
#include "cli/driver/options.h"
#include "cli/driver/pocl_directory.h"
#include "cli/driver/report.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/result.h"
#include "common/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define SEED_BITS 48

struct driver {
    struct line_file file;
    struct kiln_driver_line job;
    struct bench bench;
    struct report report;
    uint64_t seed;
    uint64_t next;
};

static int pick_seed(const struct option_number *given, uint64_t *ret_seed, struct kiln_error *err)
{
    uint64_t seed = given->value;
    if (!given->given && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return cli_fail_errno(err, errno, "cannot get a random seed (--seed sets one)");
    *ret_seed = seed & (((uint64_t)1 << SEED_BITS) - 1);
    return KILN_E_OK;
}

/* Runs the problems of a line.  Returns a failure only if there is no daemon: the remaining
 * problems would then fail, too.  Reports all other failures itself. */
static int run_job(struct driver *d, unsigned line, const struct kiln_driver_line *job,
                   struct kiln_error *err)
{
    for (unsigned i = 0; i < job->count; i++) {
        struct measurement m;
        char command[512] = "";
        struct kiln_error unused = { 0 };
        if (kiln_problem_to_driver(&job->problems[i], command, sizeof(command), &unused))
            command[0] = '\0';
        measure(&d->bench, &job->problems[i], job, d->seed + d->next++, &m);
        bool is_over = m.err.code == KILN_E_UNAVAILABLE && m.object_count == 0;
        if (is_over)
            *err = m.err;
        else
            report_add(&d->report, &(struct report_place){ .line = line, .command = command }, &m);
        measurement_done(&m);
        if (is_over)
            return err->code;
    }
    return KILN_E_OK;
}

static int run_file(struct driver *d, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    for (size_t i = 0; !rc && i < d->file.count; i++) {
        const struct line *line = &d->file.lines[i];
        struct kiln_driver_line job;
        struct kiln_error why = { 0 };
        if (job_parse(line->text, &job, &why))
            report_add_failure(&d->report, &(struct report_place){ line->number, line->text },
                               &why);
        else
            rc = run_job(d, line->number, &job, err);
    }
    return rc;
}

static int read_input(struct driver *d, const struct driver_call *call, struct kiln_error *err)
{
    const struct option_list *words = &call->words;
    if (call->command != DRIVER_RUN)
        return job_parse_words(words->words, words->count, &d->job, err);
    int rc = line_file_read(words->words[1], &d->file, err);
    if (!rc && d->file.count == 0)
        return cli_fail(err, KILN_E_INVALID, "'%s' contains no MIOpenDriver command lines",
                        words->words[1]);
    return rc;
}

/* Tries GPUs first, as "auto" does.  PoCL's directory is created only if no GPU can be opened. */
static int open_any_device(struct pocl_directory *directory, struct kiln_device **ret_device,
                           struct kiln_error *err)
{
    static const char *const gpus[] = { "hip", "cuda" };
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
        if (kiln_device_open(gpus[i], ret_device, err) == KILN_E_OK)
            return KILN_E_OK;
    }
    pocl_directory_init(directory);
    return kiln_device_open("auto", ret_device, err);
}

static int open_device(const char *name, struct pocl_directory *directory,
                       struct kiln_device **ret_device, struct kiln_error *err)
{
    bool is_any = !name || strcmp(name, "auto") == 0;
    if (!is_any && pocl_directory_is_for(name))
        pocl_directory_init(directory);
    int rc = is_any ? open_any_device(directory, ret_device, err)
                    : kiln_device_open(name, ret_device, err);
    bool may_be_why = rc || pocl_directory_is_used(kiln_device_target(*ret_device));
    if (directory->why_not[0] && may_be_why)
        fprintf(stderr, "kiln-driver: warning: %s\n", directory->why_not);
    if (!rc)
        return rc;
    /* The exit statuses of these two codes mean, for example, that there is no daemon, so a device
     * error gets another code. */
    if (rc == KILN_E_UNAVAILABLE || rc == KILN_E_NOT_FOUND)
        err->code = KILN_E_UNSUPPORTED;
    return cli_while(err, "device '%s'", name ? name : "auto");
}

static int print_json(struct driver *d, bool *reported, int rc, struct kiln_error *err)
{
    struct kiln_error unused = { 0 };
    int printed = report_print_json(&d->report, d->bench.device, d->seed, rc ? err : NULL,
                                    rc ? &unused : err);
    *reported = rc && !printed;
    return rc ? rc : printed;
}

static int finish_report(struct driver *d, struct driver_call *call, int rc, struct kiln_error *err)
{
    if (!rc)
        rc = report_judge(&d->report, err);
    if (d->report.json)
        return print_json(d, &call->reported, rc, err);
    if (call->options.summary)
        report_print_summary(&d->report, stdout);
    return rc;
}

static int run_problems(struct driver *d, struct driver_call *call, struct kiln_error *err)
{
    uint64_t start = clock_monotonic_ns();
    interrupt_says("kiln-driver", "kernels and measurements that are complete are kept; tune "
                                  "continues from its journal");
    struct ahead *ahead = NULL;
    int rc = pick_seed(&call->options.seed, &d->seed, err);
    if (rc)
        return rc;
    if (call->options.ahead)
        ahead = ahead_start(&d->bench, &call->options.common, &d->file);
    rc = call->command == DRIVER_RUN ? run_file(d, err) : run_job(d, 0, &d->job, err);
    d->report.totals.seconds = (double)(clock_monotonic_ns() - start) / 1e9;
    if (!rc || d->report.totals.problems > 0)
        rc = finish_report(d, call, rc, err);
    ahead_stop(ahead);
    return rc;
}

/* Opens the device first.  Opening a device changes the environment, which is safe only while there
 * is one thread.  If neither a device nor a daemon is available, reports that there is no
 * daemon. */
static int open_client_and_device(const struct driver_call *call, struct pocl_directory *directory,
                                  struct bench *bench, struct kiln_error *err)
{
    struct kiln_error no_device = { 0 };
    int device_rc = open_device(call->options.device, directory, &bench->device, &no_device);
    int rc = session_open(&call->options.common, "kiln-driver", NULL, &bench->client, err);
    if (rc || !device_rc)
        return rc;
    *err = no_device;
    return device_rc;
}

static int run_convolutions(struct driver_call *call, struct pocl_directory *directory,
                            struct kiln_error *err)
{
    struct kiln_conv_options find;
    struct driver d = { .bench = { .toolchain = call->options.toolchain,
                                   .find = &find,
                                   .find_ms = call->command == DRIVER_RUN ? RUN_FIND_MS : 0,
                                   .improve_ms = call->options.improve.value,
                                   .progress = call->options.common.json ? NULL : stderr } };
    int rc = find_options_read(&call->options, &find, err);
    if (!rc)
        rc = read_input(&d, call, err);
    if (!rc)
        rc = open_client_and_device(call, directory, &d.bench, err);
    report_init(&d.report, call->options.common.json);
    if (!rc)
        rc = run_problems(&d, call, err);
    report_done(&d.report);
    kiln_device_close(d.bench.device);
    kiln_client_close(d.bench.client);
    line_file_done(&d.file);
    return rc;
}

static int run_command(struct driver_call *call, struct kiln_error *err)
{
    struct pocl_directory directory = { .path = "" };
    int rc = kiln_library_path_set("hip", call->options.hip_library_path, err);
    if (rc)
        return cli_while(err, "--hip-library-path");
    if (call->command == DRIVER_DEVICES) {
        pocl_directory_init(&directory);
        rc = devices_print(call->options.common.json, &call->reported, err);
    } else {
        rc = run_convolutions(call, &directory, err);
    }
    pocl_directory_done(&directory);
    return rc;
}

static int parse_and_run(int argc, const char *const *argv, struct driver_call *call,
                         struct kiln_error *err)
{
    int rc = driver_call_parse(argc, argv, call, err);
    if (rc)
        return rc;
    if (call->options.common.version)
        result_version("kiln-driver", call->options.common.json);
    else if (call->options.common.help)
        driver_print_help(stdout);
    else
        rc = run_command(call, err);
    return rc;
}

int main(int argc, char **argv)
{
    struct driver_call call;
    struct kiln_error err = { 0 };
    const char *const *words = (const char *const *)argv + 1;
    int rc = parse_and_run(argc - 1, words, &call, &err);
    struct result result = { .program = "kiln-driver",
                             .json = result_wants_json(argc - 1, words),
                             .reported = call.reported };
    driver_call_done(&call);
    return (int)result_end(&result, rc, &err);
}

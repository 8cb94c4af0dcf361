/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/report_jobs.h"
#include "cli/kilnctl/report_page.h"
#include "cli/output.h"
#include "cli/text_stream.h"
#include "common/base/units.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HISTORY_S (28 * 24 * 3600ull)
#define COLUMNS_MIN 100u

struct report_options {
    const char *file, *job;
    struct option_number since;
};

#define AT(field) offsetof(struct report_options, field)
static const struct option options[] = {
    { "output", 'o', OPTION_TEXT, AT(file), "FILE",
      "the file to write; an older report is replaced (required without --json)", 0, 0 },
    { "job", 0, OPTION_TEXT, AT(job), "JOB",
      "report only on this job, from its traces; needs no kilnd", 0, 0 },
    { "since", 0, OPTION_TIME, AT(since), "TIME",
      "how far back the charts go, such as 7d (all recorded history)", 0, 0 },
};
#undef AT

struct answers {
    struct json *status, *stats, *history, *by_target, *by_user, *by_program, *tuning, *coverage;
};

static void answers_done(struct answers *a)
{
    json_destroy(a->status);
    json_destroy(a->stats);
    json_destroy(a->history);
    json_destroy(a->by_target);
    json_destroy(a->by_user);
    json_destroy(a->by_program);
    json_destroy(a->tuning);
    json_destroy(a->coverage);
}

static int ask_accounting(const struct invocation *invocation, const char *by,
                          struct json **ret_reply, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *question = json_object();
    json_set_text(question, "by", by);
    return admin_ask(invocation, "accounting", question, ret_reply, err);
}

static uint64_t round_step(uint64_t span_s)
{
    static const uint64_t steps[] = {
        300, 600, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200
    };
    uint64_t step = steps[0];
    for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]); i++)
        step = span_s / steps[i] >= COLUMNS_MIN ? steps[i] : step;
    return step;
}

static int ask_history(const struct invocation *invocation, uint64_t now, struct json **ret_reply,
                       struct kiln_error *err)
{
    const struct report_options *o = invocation->options;
    KILN_AUTO(json) struct json *question = json_object();
    uint64_t back = o->since.given ? units_whole_seconds(o->since.value) : HISTORY_S;
    if (o->since.given)
        json_set_u64(question, "since", now > back ? now - back : 0);
    json_set_u64(question, "step", round_step(back < HISTORY_S ? back : HISTORY_S));
    return admin_ask(invocation, "history", question, ret_reply, err);
}

static int gather_answers(const struct invocation *invocation, uint64_t now, struct answers *a,
                          struct kiln_error *err)
{
    struct kiln_error unused = { 0 };
    int rc = admin_ask(invocation, "status", admin_no_arguments, &a->status, err);
    if (!rc)
        rc = admin_ask(invocation, "stats", admin_no_arguments, &a->stats, err);
    if (!rc)
        rc = ask_history(invocation, now, &a->history, err);
    if (!rc)
        rc = ask_accounting(invocation, "target", &a->by_target, err);
    if (!rc)
        rc = ask_accounting(invocation, "uid", &a->by_user, err);
    if (!rc)
        rc = ask_accounting(invocation, "program", &a->by_program, err);
    /* These requests fail if kilnd has no tuning.db or the host has no GPU. Ignores the failures,
     * because the report says what is missing. */
    if (!rc && admin_ask(invocation, "tuning_stats", admin_no_arguments, &a->tuning, &unused))
        a->tuning = NULL;
    if (!rc && admin_ask(invocation, "package_coverage", admin_no_arguments, &a->coverage, &unused))
        a->coverage = NULL;
    return rc;
}

/* If the file exists, it must be an earlier report, so that a typing error does not destroy another
 * file. */
static int check_place(const char *path, struct kiln_error *err)
{
    char begin[sizeof(REPORT_MARK)] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return KILN_E_OK;
    ssize_t got = read(fd, begin, strlen(REPORT_MARK));
    close(fd);
    if (got == 0 || strcmp(begin, REPORT_MARK) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "'%s' exists already and is not a report: remove it, or name another file",
                    path);
}

/* Returns the mode of the report. An existing report keeps its mode. A new one is private, because
 * it names users and programs. */
static mode_t mode_for(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 ? seen.st_mode & 0777 : 0600;
}

static int write_page(const struct report *report, const char *path, struct kiln_error *err)
{
    struct text_stream stream;
    if (!text_stream_open(&stream))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the report");
    report_write(report, stream.out);
    KILN_AUTO(mem) char *text = text_stream_end(&stream);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the report");
    const struct new_file file = { .path = path,
                                   .replace = true,
                                   .mode = mode_for(path),
                                   .from = -1,
                                   .data = text,
                                   .size = strlen(text) };
    return new_file_write(&file, err);
}

static int report_written(const struct invocation *invocation, const struct report_jobs *jobs,
                          struct kiln_error *err)
{
    const struct report_options *o = invocation->options;
    if (!invocation->common->json) {
        db_say("wrote '%s'", o->file);
        return KILN_E_OK;
    }
    KILN_AUTO(json) struct json *done = json_object();
    if (o->file)
        json_set_text(done, "written", o->file);
    report_jobs_to_json(jobs, done);
    return output_json(done, err);
}

static int write_report(const struct report_options *o, const struct answers *a,
                        const struct report_jobs *jobs, uint64_t now, struct kiln_error *err)
{
    char host[256] = "this host";
    if (gethostname(host, sizeof(host)) == 0)
        host[sizeof(host) - 1] = '\0';
    const struct report report = { .host = host,
                                   .now = now,
                                   .status = a->status,
                                   .stats = a->stats,
                                   .history = a->history,
                                   .by_target = a->by_target,
                                   .by_user = a->by_user,
                                   .by_program = a->by_program,
                                   .tuning = a->tuning,
                                   .coverage = a->coverage,
                                   .jobs = jobs->list,
                                   .job_count = jobs->count,
                                   .left_out_jobs = jobs->left_out,
                                   .only_jobs = o->job != NULL };
    return write_page(&report, o->file, err);
}

static int run_report(const struct invocation *invocation, struct kiln_error *err)
{
    const struct report_options *o = invocation->options;
    __attribute__((cleanup(answers_done))) struct answers a = { 0 };
    REPORT_JOBS_AUTO struct report_jobs jobs = { 0 };
    uint64_t now = (uint64_t)time(NULL);
    if (!o->file && !invocation->common->json)
        return cli_fail(err, KILN_E_INVALID, "report needs -o FILE, such as -o kiln.html");
    int rc = o->file ? check_place(o->file, err) : KILN_E_OK;
    if (!rc && !o->job && o->file)
        rc = gather_answers(invocation, now, &a, err);
    if (!rc)
        rc = o->job ? report_jobs_read_one(o->job, &jobs, err) : report_jobs_read(&jobs, err);
    if (!rc && o->file)
        rc = write_report(o, &a, &jobs, now, err);
    return rc ? rc : report_written(invocation, &jobs, err);
}

const struct command command_report = {
    .name = "report",
    .words = "",
    .summary = "write an HTML report: hit rate, time saved, what jobs waited for",
    .help =
        "Writes one self-contained HTML file without scripts or network access.  It shows the hit\n"
        "rate and the compile time saved over time, misses by reason, the store by target, user\n"
        "and program, the slowest compiles, tuning coverage, and kilnd itself.  Other users are\n"
        "named only if you are an administrator.\n"
        "\n"
        "For each of your 10 newest jobs with traces (KILN_TRACE), the file has a page: what the\n"
        "job waited for in its cold and warm runs, what a prefetch would have saved, and which\n"
        "prefetched kernels it used.  --json prints the same numbers of the jobs; then -o is\n"
        "optional.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct report_options),
    .run = run_report,
};

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_check.h"
#include "cli/kilnctl/prefetch_run.h"
#include "cli/kilnctl/prefetch_stored.h"
#include "cli/output.h"
#include "cli/result.h"

struct prefetch_options {
    const char *target, *database_id, *toolchain, *solver;
    struct option_number jobs;
};

#define AT(field) offsetof(struct prefetch_options, field)
static const struct option options[] = {
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "the target: gfx90a, gfx1100, sm_90, ... (required)", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "MIOpen's name of the device: gfx90a68", 0,
      0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME", "the compiler to use; see 'toolchain ls'",
      0, 0 },
    { "solver", 0, OPTION_TEXT, AT(solver), "NAME", "the solver to use (the best that applies)", 0,
      0 },
    { "jobs", 'j', OPTION_NUMBER, AT(jobs), "N",
      "problems to request at a time (as many as kilnd allows)", 1, PREFETCH_JOBS_MAX },
};
#undef AT

static int print_json(const struct prefetch *p, const struct invocation *invocation, int rc,
                      struct kiln_error *err)
{
    char note[PREFETCH_NOTE_MAX];
    struct kiln_error unused = { 0 };
    KILN_AUTO(json) struct json *json = prefetch_report_json(&p->report);
    if (prefetch_note(p->options.target, note))
        json_set_text(json, "note", note);
    if (rc)
        json_set(json, "error", result_error_json(err));
    int printed = output_json(json, rc ? &unused : err);
    *invocation->reported = rc && !printed;
    return rc ? rc : printed;
}

static int run_prefetch(const struct invocation *invocation, struct kiln_error *err)
{
    const struct prefetch_options *o = invocation->options;
    PREFETCH_AUTO struct prefetch p = { 0 };
    if (!o->target)
        return cli_fail(err, KILN_E_INVALID, "prefetch needs --target, such as gfx90a or sm_90");
    const struct prefetch_question question = {
        .invocation = invocation,
        .path = invocation->words[0],
        .target = o->target,
        .database_id = o->database_id,
        .toolchain = o->toolchain,
        .solver = o->solver,
        .jobs = o->jobs.given ? (size_t)o->jobs.value : 0,
        .label = "prefetch",
    };
    char note[PREFETCH_NOTE_MAX];
    struct prefetch_stored kept = { 0 };
    if (!invocation->common->json && prefetch_note(o->target, note))
        fprintf(stderr, "kilnctl: note: %s\n", note);
    int rc = prefetch_stored_begin(invocation, &kept, err);
    if (!rc)
        rc = prefetch_run(&question, &p, err);
    if (!p.begun)
        return rc;
    if (!rc)
        rc = prefetch_stored_check(invocation, &kept, &p.report, err);
    if (p.json)
        return print_json(&p, invocation, rc, err);
    prefetch_report_print(&p.report, stdout);
    return rc;
}

const struct command command_prefetch = {
    .name = "prefetch",
    .words = "FILE",
    .summary = "compile kernels before jobs request them",
    .help =
        "Reads MIOpenDriver command lines from FILE ('-': standard input), such as those that\n"
        "MIOPEN_ENABLE_LOGGING_CMD=1 logs.  Compiles and stores every kernel that they\n"
        "need.  Fails if kilnd cannot store them, for example because its disk is full.  Needs no\n"
        "GPU: works for every target that a compiler of this host supports.  Requests that jobs\n"
        "wait for go first.  --timeout applies to each batch of 256 problems (30 minutes).",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct prefetch_options),
    .run = run_prefetch,
};

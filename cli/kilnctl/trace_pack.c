/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/pkg_build.h"
#include "cli/kilnctl/sign.h"
#include "cli/kilnctl/trace_groups.h"
#include "cli/output.h"

struct pack_options {
    struct build_options build;
    struct option_number batch;
};

#define AT(field) offsetof(struct pack_options, field)
static const struct option options[] = {
    { "output", 'o', OPTION_TEXT, AT(build.output), "OUT", "the package to write (required)", 0,
      0 },
    { "target", 't', OPTION_TEXT, AT(build.target), "TARGET",
      "for this target instead of the trace's: gfx90a, sm_90, ...", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(build.database_id), "ID", "MIOpen's name of the device: gfx90a68",
      0, 0 },
    { "batch", 0, OPTION_NUMBER, AT(batch), "N", "for this batch size instead of the trace's", 1,
      INT32_MAX },
    { "toolchain", 0, OPTION_TEXT, AT(build.toolchain), "NAME",
      "the compiler to use; see 'toolchain ls'", 0, 0 },
    { "key", 0, OPTION_TEXT, AT(build.key), "FILE",
      "sign the package with this secret key; also writes OUT" SIGN_SUFFIX, 0, 0 },
    { "records", 0, OPTION_FLAG, AT(build.records), NULL,
      "also pack the tuning records of the problems; only for OUT.kpkg", 0, 0 },
    { "keep-going", 'k', OPTION_FLAG, AT(build.keep_going), NULL,
      "write the package even if some problems failed", 0, 0 },
};
#undef AT

static const char *word_or_null(const char *word) { return *word ? word : NULL; }

/* Returns the only group.  Fails if there are several, because a package is for one target and one
 * device. */
static int choose_group(const struct trace_groups *groups, const char *job,
                        const struct trace_group **ret_group, struct kiln_error *err)
{
    if (groups->count == 0)
        return cli_fail(err, KILN_E_INVALID, "the trace '%s' has no plan to pack", job);
    if (groups->count > 1)
        return cli_fail(err, KILN_E_INVALID,
                        "the trace '%s' is of %zu kinds of devices, such as '%s' and '%s': choose "
                        "one with --target and --db-id",
                        job, groups->count, groups->list[0]->target, groups->list[1]->target);
    *ret_group = groups->list[0];
    return KILN_E_OK;
}

static int run_trace_pack(const struct invocation *invocation, struct kiln_error *err)
{
    const struct pack_options *o = invocation->options;
    struct build_options build = o->build;
    /* without --db-id, the package is for every device of the target */
    const struct trace_change change = { .target = build.target,
                                         .database_id = build.target && !build.database_id
                                                            ? ""
                                                            : build.database_id,
                                         .batch = (uint32_t)o->batch.value,
                                         .any_solver = true };
    const struct trace_group *group = NULL;
    TRACE_JOB_AUTO struct trace_job job = { 0 };
    TRACE_GROUPS_AUTO struct trace_groups groups = { 0 };
    int rc = trace_job_read(invocation->words[0], &job, err);
    if (!rc)
        rc = trace_groups_make(&job, &change, &groups, err);
    if (!rc)
        rc = choose_group(&groups, invocation->words[0], &group, err);
    if (rc)
        return rc;
    trace_job_print_damage(&job);
    if (groups.unreadable)
        fprintf(stderr, "kilnctl: %zu plans of the trace cannot be read\n", groups.unreadable);
    build.target = group->target;
    build.database_id = word_or_null(group->database_id);
    return pkg_build_problems(invocation, "trace pack", &build, &group->problems, err);
}

const struct command command_trace_pack = {
    .name = "trace pack",
    .words = "JOB|FILE",
    .summary = "compile what a job needs into a package",
    .help =
        "Writes a package with the kernels of all problems that JOB's traces have, for hosts that\n"
        "should not compile: as 'pkg build' does with the output of 'trace show --problems'.  The\n"
        "package has the solver that kilnd chooses for each problem, not every solver that a find\n"
        "tried.  It does not have kernels that the job requested by key, name or source.  With\n"
        "--records, it has the find and perf records of the problems, too, and 'pkg install' "
        "merges\n"
        "them into the host's records, so that plans choose the packed kernels.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct pack_options),
    .run = run_trace_pack,
};

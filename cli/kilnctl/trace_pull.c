/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/trace_tree.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/own_directory.h"
#include "engine/fleet/fleet_collect.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Maximum size of the packs that a pull reads together. */
#define PACKS_BYTES_MAX (64u << 20)

struct pull_options {
    const char *trust;
};

#define AT(field) offsetof(struct pull_options, field)
static const struct option options[] = {
    { "trust", 0, OPTION_TEXT, AT(trust), "DIR",
      "the public keys of the fleet (" FLEET_KEYS_DIRECTORY ")", 0, 0 },
};
#undef AT

struct pulling {
    char job[TRACE_JOB_MAX], directory[PATH_TEXT_MAX];
    struct fleet_place place;
    struct fleet_trust *trust; /* owned, like the members below */
    struct codec *codec;
    struct fleet_collection found;
    uint64_t written, present, refused;
};

static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, (int)why->code, "%s", why->text);
}

static void pulling_done(struct pulling *p)
{
    fleet_collection_done(&p->found);
    codec_destroy(p->codec);
    fleet_trust_destroy(p->trust);
    fleet_place_close(&p->place);
}

static int write_trace(struct pulling *p, const struct fleet_claim *claim, struct bytes text,
                       struct kiln_error *err)
{
    char own[PATH_MAX], pulled[PATH_MAX];
    const int stem = (int)(claim->options.size - strlen(TRACE_ENDING));
    const char *name = (const char *)claim->options.data;
    snprintf(own, sizeof(own), "%s/%.*s" TRACE_ENDING, p->directory, stem, name);
    snprintf(pulled, sizeof(pulled), "%s/%.*s" TRACE_PULLED_ENDING, p->directory, stem, name);
    if (access(own, F_OK) == 0 || access(pulled, F_OK) == 0) {
        p->present++;
        return KILN_E_OK;
    }
    const struct new_file file = {
        .path = pulled, .mode = 0600, .from = -1, .data = text.data, .size = text.size
    };
    trace_files_make_space(p->directory, TRACE_PULLED_ENDING);
    int rc = new_file_write(&file, err);
    p->written += !rc;
    return rc;
}

/* Verifies a record, and writes its trace. Counts a record that must not be used. */
static int take_record(struct pulling *p, const struct fleet_record *record, struct kiln_error *err)
{
    const struct fleet_claim *claim = &record->claim;
    struct fleet_reader reader = { .trust = p->trust,
                                   .codec = p->codec,
                                   .shard = trace_shard(p->job) };
    struct kiln_err why = KILN_ERR_INIT;
    struct bytes text;
    enum kiln_code rc = fleet_record_open(&reader, record, &claim->object, &text, &why);
    if (rc == KILN_NO_MEMORY)
        return fail_as(err, &why);
    if (rc || !trace_file_name_check(claim->options) || !trace_content_check(text)) {
        p->refused++;
        return KILN_E_OK;
    }
    return write_trace(p, claim, text, err);
}

static int take_all(struct pulling *p, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    p->found = (struct fleet_collection){ .store = p->place.store,
                                          .trust = p->trust,
                                          .shard = trace_shard(p->job),
                                          .now = clock_wall_s(),
                                          .bytes_max = PACKS_BYTES_MAX };
    enum kiln_code code = fleet_collect(&p->found, &why);
    if (code == KILN_NOT_FOUND)
        return cli_fail(err, KILN_E_NOT_FOUND,
                        "the tree has no index of traces of a job '%s': after 'trace push', "
                        "'fleet compact' must run",
                        p->job);
    if (!code)
        code = own_directory_make(p->directory, &why);
    int rc = code ? fail_as(err, &why) : KILN_E_OK;
    p->refused = p->found.malformed;
    for (size_t i = 0; !rc && i < p->found.count && p->written + p->present < TRACE_FILES_MAX; i++)
        rc = take_record(p, &p->found.records[i], err);
    return rc;
}

static int print_result(const struct invocation *invocation, const struct pulling *p,
                        struct kiln_error *err)
{
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *json = json_object();
        json_set_text(json, "job", p->job);
        json_set_u64(json, "written", p->written);
        json_set_u64(json, "present", p->present);
        json_set_u64(json, "refused", p->refused);
        return output_json(json, err);
    }
    printf("traces of the job '%s': %llu written, %llu were there already\n", p->job,
           (unsigned long long)p->written, (unsigned long long)p->present);
    if (p->refused)
        printf("%llu refused: damaged, or not signed by a key that is trusted for '" TRACE_TARGET
               "'\n",
               (unsigned long long)p->refused);
    return KILN_E_OK;
}

static int pull(const struct invocation *invocation, struct pulling *p, struct kiln_error *err)
{
    const struct pull_options *o = invocation->options;
    struct kiln_err why = KILN_ERR_INIT;
    if (!trace_job_name(invocation->words[0], p->job) || strcmp(p->job, invocation->words[0]) != 0)
        return cli_fail(err, KILN_E_INVALID, "'%.200s' is not the name of a job",
                        invocation->words[0]);
    if (trace_directory(p->job, p->directory, &why) ||
        fleet_trust_read(o->trust ? o->trust : FLEET_KEYS_DIRECTORY, &p->trust, &why) ||
        codec_create(&p->codec, &why))
        return fail_as(err, &why);
    int rc = fleet_place_open(invocation->words[1], FLEET_PLACE_READ, &p->place, err);
    if (!rc)
        rc = take_all(p, err);
    return rc ? rc : print_result(invocation, p, err);
}

static int run_trace_pull(const struct invocation *invocation, struct kiln_error *err)
{
    struct pulling p = { .written = 0 };
    int rc = pull(invocation, &p, err);
    pulling_done(&p);
    return rc;
}

const struct command command_trace_pull = {
    .name = "trace pull",
    .words = "JOB DIR|URL",
    .summary = "get a job's traces from the fleet's tree",
    .help =
        "Gets the newest 256 traces of JOB that 'trace push' has added to the fleet's tree, and\n"
        "writes them into your own directory of traces, where 'trace prefetch' finds them.  Takes\n"
        "only traces that a key of the fleet signed which is trusted for the target 'trace'.\n"
        "Traces that are there already stay as they are.  'report' and 'trace prefetch --report'\n"
        "do not count pulled traces.  Needs no kilnd.",
    .least_words = 2,
    .most_words = 2,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct pull_options),
    .run = run_trace_pull,
};

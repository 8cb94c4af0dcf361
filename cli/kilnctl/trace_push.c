/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/kilnctl/trace_tree.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/units.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_record.h"

#include <string.h>

struct push_options {
    const char *key, *job;
};

#define AT(field) offsetof(struct push_options, field)
static const struct option options[] = {
    { "key", 0, OPTION_TEXT, AT(key), "FILE", "the secret key that signs the traces (required)", 0,
      0 },
    { "job", 0, OPTION_TEXT, AT(job), "NAME",
      "name of the job in the tree (JOB, or the directory of FILE)", 0, 0 },
};
#undef AT

struct pushing {
    struct fleet_place place;
    struct fleet_signer signer;
    struct codec *codec; /* owned */
    char job[TRACE_JOB_MAX];
    uint64_t pushed, refused;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Sets the job's name: that of --job, else JOB, else that of the directory of FILE. */
static int name_job(const struct invocation *invocation, char ret_job[TRACE_JOB_MAX],
                    struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    const char *word = invocation->words[0];
    char directory[PATH_TEXT_MAX];
    snprintf(directory, sizeof(directory), "%.*s", (int)(base_name(word) - word), word);
    size_t size = strlen(directory);
    if (size > 0)
        directory[size - 1] = '\0';
    const char *name = o->job ? o->job : size > 0 ? base_name(directory) : word;
    if (*name == '.' || !trace_job_name(name, ret_job))
        return cli_fail(err, KILN_E_INVALID,
                        "the directory of '%.200s' is not the name of a job: give --job", word);
    return KILN_E_OK;
}

static enum kiln_code push_trace(struct pushing *p, struct bytes name, struct bytes text,
                                 struct kiln_err *err)
{
    char id[FLEET_SHARD_ID_SIZE], file[FLEET_NAME_MAX];
    BUFFER_AUTO struct buffer record;
    const struct fleet_claim claim = { .key = sha256_of(text),
                                       .shard = trace_shard(p->job),
                                       .program = bytes_of_text(p->job),
                                       .options = name,
                                       .version = bytes_of_text(KILN_VERSION),
                                       .time = clock_wall_s() };
    buffer_init(&record, FLEET_RECORD_MAX);
    enum kiln_code rc = fleet_record_write(p->codec, &claim, text, &record, err);
    if (rc)
        return rc;
    fleet_record_sign(&p->signer, record.data);
    fleet_shard_id(&claim.shard, id);
    fleet_name_loose(id, &claim.key, file);
    return p->place.store->ops->add(p->place.store, file, buffer_view(&record), NULL, err);
}

static int push_traces(struct pushing *p, const struct trace_job *job, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    for (size_t i = 0; i < job->process_count; i++) {
        const struct trace_process *one = &job->processes[i];
        const struct bytes name = bytes_of_text(base_name(one->path));
        if (!trace_file_name_check(name)) {
            p->refused++;
            continue;
        }
        if (push_trace(p, name, buffer_view(&one->text), &why))
            return cli_fail(err, (int)why.code, "%s", why.text);
        p->pushed++;
    }
    return KILN_E_OK;
}

static int print_result(const struct invocation *invocation, const struct pushing *p,
                        struct kiln_error *err)
{
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *json = json_object();
        json_set_text(json, "job", p->job);
        json_set_u64(json, "traces", p->pushed);
        json_set_u64(json, "refused", p->refused);
        return output_json(json, err);
    }
    printf("traces of the job '%s': %llu\n", p->job, (unsigned long long)p->pushed);
    if (p->refused)
        printf("%llu left out: their file names are not those of traces\n",
               (unsigned long long)p->refused);
    return KILN_E_OK;
}

static int push_job(const struct invocation *invocation, struct pushing *p, struct kiln_error *err)
{
    TRACE_JOB_AUTO struct trace_job job = { 0 };
    struct kiln_err why = KILN_ERR_INIT;
    const struct trace_question own = { .word = invocation->words[0], .ending = TRACE_ENDING };
    int rc = name_job(invocation, p->job, err);
    if (!rc)
        rc = trace_job_ask(&own, &job, err);
    if (rc)
        return rc;
    trace_job_print_damage(&job);
    if (codec_create(&p->codec, &why))
        return cli_fail(err, (int)why.code, "%s", why.text);
    rc = fleet_place_open(invocation->words[1], FLEET_PLACE_ADD, &p->place, err);
    if (!rc)
        rc = push_traces(p, &job, err);
    fleet_place_close(&p->place);
    return rc ? rc : print_result(invocation, p, err);
}

static int run_trace_push(const struct invocation *invocation, struct kiln_error *err)
{
    const struct push_options *o = invocation->options;
    struct pushing p = { .codec = NULL };
    struct kiln_err why = KILN_ERR_INIT;
    if (!o->key)
        return cli_fail(
            err, KILN_E_INVALID,
            "trace push needs --key, a secret key; 'kilnctl fleet enrol --targets trace' "
            "makes one");
    if (fleet_signer_read(o->key, &p.signer, &why))
        return cli_fail(err, (int)why.code, "%s", why.text);
    int rc = push_job(invocation, &p, err);
    codec_destroy(p.codec);
    explicit_bzero(&p.signer, sizeof(p.signer));
    return rc;
}

const struct command command_trace_push = {
    .name = "trace push",
    .words = "JOB|FILE DIR|URL",
    .summary = "add a job's traces to the fleet's tree",
    .help =
        "Signs the traces of JOB, or one FILE, and adds them to the fleet's tree in the directory\n"
        "DIR or in an S3 store.  After 'fleet compact', 'trace pull' gets them on other hosts.\n"
        "Whoever can read the tree can then read the traces: names of the job, of hosts and of\n"
        "targets, problems, solvers, keys of kernels, and times.  Nothing else pushes traces.\n"
        "Traces that 'trace pull' got are not pushed again.  Needs no kilnd.",
    .least_words = 2,
    .most_words = 2,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct push_options),
    .run = run_trace_push,
};

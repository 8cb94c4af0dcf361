/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_verify.h"

#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"
#include "engine/compile/code_object.h"

#include <stdio.h>

#define SHOWN_MAX 100u

struct verify_options {
    const char *trust;
};

static const struct option options[] = {
    { "trust", 0, OPTION_TEXT, offsetof(struct verify_options, trust), "DIR",
      "the directory with the public keys of the fleet (" FLEET_KEYS_DIRECTORY ")", 0, 0 },
};

struct findings {
    struct json *list; /* NULL: findings are printed as text */
    uint64_t count;
};

static void note_bad(void *context, const char *what, const char *why)
{
    struct findings *f = context;
    char line[512];
    if (f->count++ >= SHOWN_MAX)
        return;
    if (f->list) {
        struct json *finding = json_object();
        json_set_text(finding, "file", what);
        json_set_text(finding, "why", why);
        json_append(f->list, finding);
        return;
    }
    snprintf(line, sizeof(line), "%.200s: %.200s", what, why);
    output_clean(line, false);
    puts(line);
}

static int verify_tree(const char *word, const char *keys, struct fleet_verification *verification,
                       struct kiln_error *err)
{
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct fleet_place place;
    struct kiln_err why = KILN_ERR_INIT;
    if (fleet_trust_read(keys, &trust, &why))
        return cli_fail(err, why.code, "%s", why.text);
    int rc = fleet_place_open(word, FLEET_PLACE_READ, &place, err);
    if (rc)
        return rc;
    verification->store = place.store;
    verification->trust = trust;
    enum kiln_code verified = fleet_verify(verification, &why);
    fleet_place_close(&place);
    return verified ? cli_fail(err, verified, "%s", why.text) : KILN_E_OK;
}

static int print_json(const struct invocation *invocation, const struct fleet_verification *v,
                      struct json *json, const struct kiln_error *found)
{
    struct kiln_error err = { 0 };
    json_set_u64(json, "indices", v->shards);
    json_set_u64(json, "kernels", v->kernels);
    json_set_u64(json, "blocks", v->blocks);
    json_set_u64(json, "bytes", v->bytes);
    json_set_u64(json, "bad", v->bad_count);
    if (found->code)
        json_set(json, "error", result_error_json(found));
    int rc = output_json(json, &err);
    *invocation->reported = found->code && !rc;
    return rc;
}

static void print_text(const struct fleet_verification *v)
{
    char kernels[UNITS_TEXT_MAX];
    printf("%s, blocks: %llu, indices: %llu, bad: %llu\n", units_kernels(v->kernels, kernels),
           (unsigned long long)v->blocks, (unsigned long long)v->shards,
           (unsigned long long)v->bad_count);
}

static int run_fleet_verify(const struct invocation *invocation, struct kiln_error *err)
{
    const struct verify_options *o = invocation->options;
    KILN_AUTO(json) struct json *json = invocation->common->json ? json_object() : NULL;
    struct findings findings = { .list = json ? json_set_array(json, "findings") : NULL };
    struct fleet_verification verification = { .check_object = code_object_check,
                                               .bad = note_bad,
                                               .context = &findings };
    int rc = verify_tree(invocation->words[0], o->trust ? o->trust : FLEET_KEYS_DIRECTORY,
                         &verification, err);
    if (rc)
        return rc;
    if (verification.bad_count)
        rc = cli_fail(err, KILN_E_CORRUPT, "hosts would not use %llu files or kernels of the tree",
                      (unsigned long long)verification.bad_count);
    if (!json)
        print_text(&verification);
    else if (print_json(invocation, &verification, json, err))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the result");
    return rc;
}

const struct command command_fleet_verify = {
    .name = "fleet verify",
    .words = "DIR|URL",
    .summary = "check the fleet's tree as hosts do",
    .help = "Checks every index of the fleet's tree in the directory DIR or on a web server, and\n"
            "every kernel that an index names: signatures, signers, the kernels' bytes, and that\n"
            "they are code for the target.  Counts tuning records and traces of jobs as blocks.\n"
            "Does not check kernels that were pushed since the last compaction.  The server must\n"
            "list files as S3 does.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct verify_options),
    .run = run_fleet_verify,
};

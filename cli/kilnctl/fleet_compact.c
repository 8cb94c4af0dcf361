/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_compact.h"

#include "cli/kilnctl/command.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"
#include "engine/fleet/fleet_tree.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct compact_options {
    const char *key, *trust;
};

#define AT(field) offsetof(struct compact_options, field)
static const struct option options[] = {
    { "key", 0, OPTION_TEXT, AT(key), "FILE", "the secret key that signs the index (required)", 0,
      0 },
    { "trust", 0, OPTION_TEXT, AT(trust), "DIR",
      "the directory with the public keys of the fleet (required)", 0, 0 },
};
#undef AT

static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

static uint64_t count_refused(const struct fleet_compaction *c)
{
    uint64_t refused = 0;
    for (size_t i = 0; i < FLEET_FAULTS; i++)
        refused += c->refused[i];
    return refused;
}

/* |context| is a list in JSON; NULL: problems are printed as text. */
static void note_problem(void *context, const char *what, const char *why)
{
    char line[768];
    if (context) {
        struct json *problem = json_object();
        json_set_text(problem, "shard", what);
        json_set_text(problem, "why", why);
        json_append(context, problem);
        return;
    }
    snprintf(line, sizeof(line), "shard '%.100s': %.600s", what, why);
    output_clean(line, false);
    puts(line);
}

static int print_json(const struct invocation *invocation, const struct fleet_compaction *c,
                      struct json *json, const struct kiln_error *found)
{
    struct kiln_error err = { 0 };
    json_set_u64(json, "kernels", c->kernels);
    json_set_u64(json, "packs", c->packs);
    json_set_u64(json, "merged", c->merged);
    json_set_u64(json, "indices", c->indices);
    json_set_u64(json, "refused", count_refused(c));
    if (found->code)
        json_set(json, "error", result_error_json(found));
    int rc = output_json(json, &err);
    *invocation->reported = found->code && !rc;
    return rc;
}

static void print_text(const struct fleet_compaction *c)
{
    char kernels[UNITS_TEXT_MAX];
    printf("%s packed (packs: %llu, merged: %llu, indices: %llu)\n",
           units_kernels(c->kernels, kernels), (unsigned long long)c->packs,
           (unsigned long long)c->merged, (unsigned long long)c->indices);
    for (size_t i = 0; i < FLEET_FAULTS; i++)
        if (c->refused[i])
            printf("%llu not packed: %s\n", (unsigned long long)c->refused[i],
                   fleet_fault_text((enum fleet_fault)i));
}

static int compact(const struct invocation *invocation, const struct fleet_signer *signer,
                   struct kiln_error *err)
{
    const struct compact_options *o = invocation->options;
    KILN_AUTO(fd) int root = -1;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    KILN_AUTO(json) struct json *json = invocation->common->json ? json_object() : NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (fleet_trust_read(o->trust, &trust, &why) ||
        fleet_tree_open(invocation->words[0], &root, &why))
        return fail_as(err, &why);
    if (!fleet_trust_may_index(trust, signer->key_id))
        return cli_fail(err, KILN_E_DENIED,
                        "no file in '%s' lets the key '%s' sign indices (\"index\": true), so no "
                        "host would use the index",
                        o->trust, o->key);
    struct fleet_compaction compaction = { .root = root,
                                           .trust = trust,
                                           .signer = signer,
                                           .now = (uint64_t)time(NULL),
                                           .pack_max = FLEET_PACK_MAX,
                                           .problem = note_problem,
                                           .context =
                                               json ? json_set_array(json, "problems") : NULL };
    if (fleet_compact(&compaction, &why))
        return fail_as(err, &why);
    int rc = compaction.problems ? cli_fail(err, KILN_E_CORRUPT,
                                            "%llu problems in the tree; the rest was compacted",
                                            (unsigned long long)compaction.problems)
                                 : KILN_E_OK;
    if (!json)
        print_text(&compaction);
    else if (print_json(invocation, &compaction, json, err))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the result");
    return rc;
}

static int run_fleet_compact(const struct invocation *invocation, struct kiln_error *err)
{
    const struct compact_options *o = invocation->options;
    struct kiln_err why = KILN_ERR_INIT;
    struct fleet_signer signer;
    if (!o->key || !o->trust)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet compact needs --key, a secret key, and --trust, the directory of "
                        "the fleet's public keys");
    if (fleet_signer_read(o->key, &signer, &why))
        return fail_as(err, &why);
    int rc = compact(invocation, &signer, err);
    explicit_bzero(&signer, sizeof(signer));
    return rc;
}

const struct command command_fleet_compact = {
    .name = "fleet compact",
    .words = "DIR",
    .summary = "let hosts find the kernels that were pushed",
    .help =
        "Checks the kernels that were added to the fleet's tree in DIR, packs them, and writes\n"
        "and signs a new index of each target and compiler.  Merges small packs if there are\n"
        "many.  Kernels whose builder is not trusted are left out.  If one index is damaged, the\n"
        "others are still made.  Run it on one host.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct compact_options),
    .run = run_fleet_compact,
};

/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_compact.h"

#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"

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
      "the directory with the public keys of the fleet (" FLEET_KEYS_DIRECTORY ")", 0, 0 },
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

/* Appends the problem to the JSON array |context|.  If |context| is NULL, prints the problem as
 * text. */
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
    json_set_u64(json, "blocks", c->blocks);
    json_set_u64(json, "packs", c->packs);
    json_set_u64(json, "merged", c->merged);
    json_set_u64(json, "indices", c->indices);
    json_set_u64(json, "dropped", c->dropped);
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
    if (c->blocks)
        printf("%llu blocks of tuning records or traces packed\n", (unsigned long long)c->blocks);
    if (c->dropped)
        printf("%llu kernels of the oldest packs left an index, because it is full\n",
               (unsigned long long)c->dropped);
    for (size_t i = 0; i < FLEET_FAULTS; i++)
        if (c->refused[i])
            printf("%llu not packed: %s\n", (unsigned long long)c->refused[i],
                   fleet_fault_text((enum fleet_fault)i));
    if (c->refused[FLEET_FAULT_UNTRUSTED] || c->refused[FLEET_FAULT_NOT_ALLOWED])
        puts("note: the directory of --trust needs the key of each builder, with the target in its "
             "'targets': see 'kilnctl fleet enrol --help'");
}

static void print_conditions(const struct fleet_place *place, struct json *json)
{
    if (json)
        json_set_bool(json, "conditions", place->is_exclusive);
    else if (!place->is_exclusive)
        printf("note: the store has no %s: compact this tree only on one host, and only once at a "
               "time\n",
               place->is_remote ? "conditional writes (If-Match)" : "file locks");
}

static int compact_place(const struct invocation *invocation, const struct fleet_place *place,
                         struct fleet_compaction *compaction, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = invocation->common->json ? json_object() : NULL;
    struct kiln_err why = KILN_ERR_INIT;
    compaction->store = place->store;
    compaction->problem = note_problem;
    compaction->context = json ? json_set_array(json, "problems") : NULL;
    print_conditions(place, json);
    if (fleet_compact(compaction, &why))
        return fail_as(err, &why);
    int rc = compaction->problems ? cli_fail(err, KILN_E_CORRUPT,
                                             "%llu problems in the tree; the rest was compacted",
                                             (unsigned long long)compaction->problems)
                                  : KILN_E_OK;
    if (!json)
        print_text(compaction);
    else if (print_json(invocation, compaction, json, err))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the result");
    return rc;
}

static int compact(const struct invocation *invocation, const struct fleet_signer *signer,
                   struct kiln_error *err)
{
    const struct compact_options *o = invocation->options;
    const char *keys = o->trust ? o->trust : FLEET_KEYS_DIRECTORY;
    struct fleet_place place;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (fleet_trust_read(keys, &trust, &why))
        return fail_as(err, &why);
    if (!fleet_trust_may_index(trust, signer->key_id))
        return cli_fail(err, KILN_E_DENIED,
                        "no file in '%s' lets the key '%s' sign indices (\"index\": true), so no "
                        "host would use the index",
                        keys, o->key);
    int rc = fleet_place_open(invocation->words[0], FLEET_PLACE_CHANGE, &place, err);
    if (rc)
        return rc;
    struct fleet_compaction compaction = {
        .trust = trust, .signer = signer, .now = (uint64_t)time(NULL), .pack_max = FLEET_PACK_MAX
    };
    rc = compact_place(invocation, &place, &compaction, err);
    fleet_place_close(&place);
    return rc;
}

static int run_fleet_compact(const struct invocation *invocation, struct kiln_error *err)
{
    const struct compact_options *o = invocation->options;
    struct kiln_err why = KILN_ERR_INIT;
    struct fleet_signer signer;
    if (!o->key)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet compact needs --key, a secret key that may sign indices; 'kilnctl "
                        "fleet enrol --index' makes one");
    if (fleet_signer_read(o->key, &signer, &why))
        return fail_as(err, &why);
    int rc = compact(invocation, &signer, err);
    explicit_bzero(&signer, sizeof(signer));
    return rc;
}

const struct command command_fleet_compact = {
    .name = "fleet compact",
    .words = "DIR|URL",
    .summary = "let hosts find the kernels that were pushed",
    .help =
        "Checks the kernels and tuning records that were added to the fleet's tree, packs\n"
        "them, and writes and signs a new index of each target and compiler.  Merges small packs\n"
        "if there are many.  Kernels whose builder is not trusted are left out, and after 'fleet\n"
        "revoke', also those of the revoked key that were packed before.  If one index is "
        "damaged, the\n"
        "others are still made.  Run it on one host.  The tree is in the directory DIR, or in an\n"
        "S3 store; the credentials for a URL come from the environment (AWS_ACCESS_KEY_ID and\n"
        "others, see docs/operations/fleet.md).  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct compact_options),
    .run = run_fleet_compact,
};

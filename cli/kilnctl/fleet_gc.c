/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_gc.h"

#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/fleet_place.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/units.h"

#include <stdio.h>
#include <string.h>

struct gc_options {
    const char *trust;
    bool dry_run;
    struct option_number unused;
};

#define AT(field) offsetof(struct gc_options, field)
static const struct option options[] = {
    { "dry-run", 0, OPTION_FLAG, AT(dry_run), NULL, "delete nothing, only list the files", 0, 0 },
    { "trust", 0, OPTION_TEXT, AT(trust), "DIR",
      "the directory with the public keys of the fleet (" FLEET_KEYS_DIRECTORY ")", 0, 0 },
    { "unused", 0, OPTION_TIME, AT(unused), "TIME",
      "delete indices and packs that are out of use for this long (90d)", 0, 0 },
};
#undef AT

static void note_file(void *context, const struct fleet_garbage *garbage)
{
    char line[FLEET_NAME_MAX + 96], size[UNITS_TEXT_MAX], age[UNITS_TEXT_MAX];
    struct json *list = context;
    if (list) {
        struct json *file = json_object();
        json_set_text(file, "file", garbage->name);
        json_set_text(file, "kind", fleet_waste_label(garbage->waste));
        json_set_u64(file, "bytes", garbage->bytes);
        json_set_u64(file, "age_s", garbage->age_s);
        json_append(list, file);
        return;
    }
    snprintf(line, sizeof(line), "%s  %s, %s old", garbage->name, units_size(garbage->bytes, size),
             units_seconds((double)garbage->age_s, age));
    output_clean(line, false);
    puts(line);
}

static int collect(const char *word, const char *keys, struct fleet_gc *gc, struct kiln_error *err)
{
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct fleet_place place;
    struct kiln_err why = KILN_ERR_INIT;
    if (fleet_trust_read(keys, &trust, &why))
        return cli_fail(err, why.code, "%s", why.text);
    int rc =
        fleet_place_open(word, gc->dry_run ? FLEET_PLACE_READ : FLEET_PLACE_CHANGE, &place, err);
    if (rc)
        return rc;
    gc->store = place.store;
    gc->trust = trust;
    enum kiln_code collected = fleet_gc(gc, &why);
    fleet_place_close(&place);
    return collected ? cli_fail(err, collected, "%s", why.text) : KILN_E_OK;
}

static uint64_t sum_of(const uint64_t counts[FLEET_WASTES])
{
    uint64_t sum = 0;
    for (int i = 0; i < FLEET_WASTES; i++)
        sum += counts[i];
    return sum;
}

static int print_json(const struct fleet_gc *gc, struct json *json, struct kiln_error *err)
{
    json_set_bool(json, "dry_run", gc->dry_run);
    json_set_u64(json, "count", sum_of(gc->files));
    json_set_u64(json, "bytes", sum_of(gc->bytes));
    json_set_u64(json, "unpacked", gc->unpacked);
    json_set_u64(json, "unverified", gc->unverified);
    return output_json(json, err);
}

static void print_text(const struct fleet_gc *gc)
{
    char size[UNITS_TEXT_MAX], age[UNITS_TEXT_MAX];
    for (int i = 0; i < FLEET_WASTES; i++)
        if (gc->files[i])
            printf("%-10s %llu, %s\n", fleet_waste_label((enum fleet_waste)i),
                   (unsigned long long)gc->files[i], units_size(gc->bytes[i], size));
    printf("%llu files, %s%s\n", (unsigned long long)sum_of(gc->files),
           units_size(sum_of(gc->bytes), size), gc->dry_run ? "; nothing was deleted" : " deleted");
    if (gc->unpacked)
        printf("kept: %llu loose kernels that no index has, the oldest %s old; 'kilnctl fleet "
               "compact' packs them\n",
               (unsigned long long)gc->unpacked, units_seconds((double)gc->unpacked_age_s, age));
    if (gc->unverified)
        printf("kept: all packs, because %llu indices cannot be verified; 'kilnctl fleet verify' "
               "says why\n",
               (unsigned long long)gc->unverified);
}

static int run_fleet_gc(const struct invocation *invocation, struct kiln_error *err)
{
    const struct gc_options *o = invocation->options;
    KILN_AUTO(json) struct json *json = invocation->common->json ? json_object() : NULL;
    struct fleet_gc gc = { .now = clock_wall_s(),
                           .unused_s = o->unused.given ? units_whole_seconds(o->unused.value)
                                                       : FLEET_GC_UNUSED_S,
                           .dry_run = o->dry_run,
                           .found = note_file,
                           .context = json ? json_set_array(json, "files") : NULL };
    int rc = collect(invocation->words[0], o->trust ? o->trust : FLEET_KEYS_DIRECTORY, &gc, err);
    if (rc)
        return rc;
    if (json)
        return print_json(&gc, json, err);
    print_text(&gc);
    return KILN_E_OK;
}

const struct command command_fleet_gc = {
    .name = "fleet gc",
    .words = "DIR|URL",
    .summary = "delete files of the fleet's tree that no host needs",
    .help =
        "Deletes from the fleet's tree, in the directory DIR or in an S3 store (see 'fleet\n"
        "compact'): loose kernels, a day after they were packed; leases and incomplete files, a\n"
        "day after they were written; indices, 90 days after they were replaced; and packs that\n"
        "no other index names, if they are at least as old.  Of the loose kernels that no index\n"
        "has, deletes only those that no host can use, because their key is revoked, or because\n"
        "their signature is wrong.  Do not run it while 'fleet compact' runs.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct gc_options),
    .run = run_fleet_gc,
};

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/units.h"

#include <string.h>

#define TEXT_MAX 1024

static const struct column fact_columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_LEFT } };
static const struct column shard_columns[] = {
    { "TARGET", ALIGN_LEFT }, { "TOOLCHAIN", ALIGN_LEFT }, { "EPOCH", ALIGN_RIGHT },
    { "AGE", ALIGN_RIGHT },   { "KERNELS", ALIGN_RIGHT },  { "BLOCKS", ALIGN_RIGHT },
    { "PACKS", ALIGN_RIGHT }, { "MEMORY", ALIGN_RIGHT },   { "CHECKED", ALIGN_RIGHT },
    { "STATE", ALIGN_LEFT },
};
#define SHARD_COLUMNS (sizeof(shard_columns) / sizeof(shard_columns[0]))

static const char *seconds_of(const struct json *json, const char *name, char text[UNITS_TEXT_MAX])
{
    return units_seconds(json_get_number(json, name, 0), text);
}

static void add_store(struct table *table, const struct json *fleet)
{
    char since[UNITS_TEXT_MAX], retry[UNITS_TEXT_MAX], answered[UNITS_TEXT_MAX];
    table_cell(table, "store");
    if (!json_get_bool(fleet, "up", false))
        table_cell_in(table, COLOUR_RED, "fails since %s, the next attempt is in %s",
                      seconds_of(fleet, "broken_s", since), seconds_of(fleet, "retry_s", retry));
    else if (json_get(fleet, "answered_s"))
        table_cell(table, "works, last answer %s ago", seconds_of(fleet, "answered_s", answered));
    else
        table_cell(table, "not asked since kilnd started");
    if (!json_get(fleet, "last_error"))
        return;
    table_cell(table, "last error");
    table_cell(table, "%s ago: %s", seconds_of(fleet, "last_error_s", since),
               json_get_text(fleet, "last_error", ""));
}

static const char *explain_leases(const char *state)
{
    static const struct {
        const char *state, *text;
    } texts[] = {
        { "unused", "unused: this host adds no kernels (setting fleet_builder)" },
        { "unknown", "unknown: the store has not been tested yet" },
        { "on", "on" },
        { "off", "off: the store ignores If-None-Match, so several hosts may compile one kernel" },
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(texts[i].state, state) == 0)
            return texts[i].text;
    return state;
}

static void add_leases(struct table *table, const struct json *fleet)
{
    char left[UNITS_TEXT_MAX];
    table_cell(table, "leases");
    if (json_get(fleet, "leases_resume_s"))
        table_cell(table, "on, but not used for %s: kernels of other hosts did not come in time",
                   seconds_of(fleet, "leases_resume_s", left));
    else if (json_get(fleet, "leases_trouble"))
        table_cell_in(table, COLOUR_YELLOW, "not used, because the test of the store failed: %s",
                      json_get_text(fleet, "leases_trouble", ""));
    else
        table_cell(table, "%s", explain_leases(json_get_text(fleet, "leases", "?")));
}

static void add_keys(struct table *table, const struct json *keys)
{
    uint64_t bad = json_get_u64(keys, "bad", 0);
    table_cell(table, "keys");
    if (bad)
        table_cell_in(table, COLOUR_YELLOW,
                      "%llu trusted, %llu of them for indices; not used: %llu (%s)",
                      (unsigned long long)json_get_u64(keys, "trusted", 0),
                      (unsigned long long)json_get_u64(keys, "for_indices", 0),
                      (unsigned long long)bad, json_get_text(keys, "first_bad", "?"));
    else
        table_cell(table, "%llu trusted, %llu of them for indices; %llu revoked",
                   (unsigned long long)json_get_u64(keys, "trusted", 0),
                   (unsigned long long)json_get_u64(keys, "for_indices", 0),
                   (unsigned long long)json_get_u64(keys, "revoked", 0));
}

/* Writes a text such as "done 30, absent 2", or "-" if there are no counts. */
static const char *list_counts(const struct json *counts, char text[TEXT_MAX])
{
    size_t used = 0;
    snprintf(text, TEXT_MAX, "-");
    for (const struct json *j = json_first(counts); j && used < TEXT_MAX; j = json_next(j))
        used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s%s %.0f", used ? ", " : "",
                                 json_name(j), json_as_number(j, 0));
    return text;
}

static void add_uploads(struct table *table, const struct json *uploads)
{
    char results[TEXT_MAX];
    if (!uploads)
        return;
    table_cell(table, "uploads");
    table_cell_in(table, json_get_bool(uploads, "failing", false) ? COLOUR_RED : COLOUR_NONE,
                  "%s%llu waiting; %s", json_get_bool(uploads, "has_more", false) ? "over " : "",
                  (unsigned long long)json_get_u64(uploads, "waiting", 0),
                  list_counts(json_get(uploads, "results"), results));
}

static void add_counts(struct table *table, const char *name, const struct json *counts)
{
    char text[TEXT_MAX];
    table_cell(table, "%s", name);
    table_cell(table, "%s", list_counts(counts, text));
}

static int print_facts(const struct json *fleet, struct kiln_error *err)
{
    __attribute__((cleanup(table_auto))) struct table *table = table_create(fact_columns, 2);
    add_store(table, fleet);
    add_leases(table, fleet);
    add_keys(table, json_get(fleet, "keys"));
    add_uploads(table, json_get(fleet, "uploads"));
    add_counts(table, "requests", json_get(fleet, "requests"));
    add_counts(table, "not used", json_get(fleet, "refused"));
    table_cell(table, "late");
    table_cell(table, "%llu look-ups got no answer within fleet_wait",
               (unsigned long long)json_get_u64(fleet, "late", 0));
    return table_print(table, stdout, err);
}

static void add_age(struct table *table, const struct json *shard)
{
    char age[UNITS_TEXT_MAX];
    uint64_t now = clock_wall_s(), time = json_get_u64(shard, "time", now);
    table_cell(table, "%s", units_seconds(now > time ? (double)(now - time) : 0, age));
}

static void add_count(struct table *table, const struct json *shard, const char *name)
{
    char text[UNITS_TEXT_MAX];
    bool has_count = json_get(shard, name) != NULL;
    table_cell(table, "%s", has_count ? units_count(json_get_u64(shard, name, 0), text) : "-");
}

static void add_index(struct table *table, const struct json *shard)
{
    char text[UNITS_TEXT_MAX];
    if (!json_get(shard, "epoch")) {
        for (size_t i = 0; i < 6; i++)
            table_cell(table, "-");
        return;
    }
    table_cell(table, "%llu", (unsigned long long)json_get_u64(shard, "epoch", 0));
    add_age(table, shard);
    add_count(table, shard, "kernels");
    add_count(table, shard, "blocks");
    add_count(table, shard, "packs");
    table_cell(table, "%s", units_size(json_get_u64(shard, "memory_bytes", 0), text));
}

static void add_shard(struct table *table, const struct json *shard)
{
    char checked[UNITS_TEXT_MAX];
    const char *trouble = json_get_text(shard, "trouble", NULL);
    table_cell(table, "%s", json_get_text(shard, "target", "?"));
    table_cell(table, "%s %.12s", json_get_text(shard, "toolchain", "?"),
               json_get_text(shard, "toolchain_id", "?"));
    add_index(table, shard);
    if (json_get(shard, "checked_s"))
        table_cell(table, "%s ago", seconds_of(shard, "checked_s", checked));
    else
        table_cell(table, "-");
    table_cell_in(table, trouble ? COLOUR_YELLOW : COLOUR_NONE, "%s", trouble ? trouble : "ok");
}

static int print_shards(const struct json *shards, struct kiln_error *err)
{
    __attribute__((cleanup(table_auto))) struct table *table =
        table_create(shard_columns, SHARD_COLUMNS);
    for (const struct json *j = json_first(shards); j; j = json_next(j))
        add_shard(table, j);
    putchar('\n');
    return table_print(table, stdout, err);
}

static int run_fleet_status(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "status", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    const struct json *fleet = json_get(reply, "fleet");
    if (!fleet)
        return cli_fail(
            err, KILN_E_NOT_FOUND,
            "this kilnd uses no fleet: set 'fleet' in kilnd.json to the URL of the tree, "
            "and restart kilnd");
    if (invocation->common->json)
        return output_json(fleet, err);
    rc = print_facts(fleet, err);
    return rc || json_count(json_get(fleet, "shards")) == 0
               ? rc
               : print_shards(json_get(fleet, "shards"), err);
}

const struct command command_fleet_status = {
    .name = "fleet status",
    .words = "",
    .summary = "show the fleet as this host's kilnd sees it",
    .help =
        "Prints whether the store of the fleet's tree works, the last error, whether leases are\n"
        "used, the trusted keys, the uploads, and how requests ended since kilnd started.  Then,\n"
        "for each target and toolchain that jobs of this host used: the epoch and the age of the\n"
        "index, its kernels and packs, and the memory that it takes.  An index of tuning\n"
        "records has blocks instead of kernels.",
    .run = run_fleet_status,
};

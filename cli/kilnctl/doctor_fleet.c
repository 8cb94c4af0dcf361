/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_fleet.h"

#include "common/base/units.h"

#include <string.h>

#define CHECK "fleet"
#define SHARDS_SHOWN 4u
#define AHEAD_MAX_S 300u

static void judge_store(const struct json *fleet, struct findings *f)
{
    char since[UNITS_TEXT_MAX];
    if (json_get_bool(fleet, "up", true))
        return;
    struct finding *finding = findings_add(
        f, CHECK, VERDICT_WARN, "the store of the fleet's kernels fails since %s: %.300s",
        units_seconds(json_get_number(fleet, "broken_s", 0), since),
        json_get_text(fleet, "last_error", "kilnd gives no reason"));
    findings_advise(finding, "kernels are compiled instead, and kilnd tries the store again every "
                             "few minutes; check the setting 'fleet', the network and the "
                             "credentials (docs/operations/fleet.md); kilnd's log has all errors: "
                             "journalctl -u kilnd (event fleet_error)");
}

static void advise_trust(struct finding *finding, const char *rights)
{
    findings_advise(finding, "trust a key of the fleet: kilnctl fleet trust KEY.pub %s", rights);
}

static void judge_keys(const struct json *keys, struct findings *f)
{
    const char *directory = json_get_text(keys, "directory", "?");
    if (!keys)
        return;
    if (json_get_u64(keys, "bad", 0) > 0) {
        struct finding *finding = findings_add(
            f, CHECK, VERDICT_WARN, "'%.100s' in '%.200s' is not a valid key, or may sign nothing",
            json_get_text(keys, "first_bad", "?"), directory);
        findings_advise(finding, "trust the key again (kilnctl fleet trust), or remove the file");
    }
    if (json_get_u64(keys, "trusted", 0) == 0)
        advise_trust(
            findings_add(f, CHECK, VERDICT_WARN,
                         "no key in '%.200s' is trusted, so no kernel of the fleet is used",
                         directory),
            "--targets '*' --index");
    else if (json_get_u64(keys, "for_indices", 0) == 0)
        advise_trust(findings_add(f, CHECK, VERDICT_WARN,
                                  "no key in '%.200s' may sign indices, so no kernel is found",
                                  directory),
                     "--index");
}

/* Without |leases_trouble|, the store has not been tested yet; that takes about a second. */
static void judge_untested_leases(const struct json *fleet, struct findings *f)
{
    const char *trouble = json_get_text(fleet, "leases_trouble", NULL);
    if (!trouble)
        return;
    struct finding *finding =
        findings_add(f, CHECK, VERDICT_WARN,
                     "no leases are used, because the test of the store failed: %.200s", trouble);
    findings_advise(finding, "hosts may compile the same kernel at the same time; let this host "
                             "write below v1/l of the fleet's tree (docs/operations/fleet.md); "
                             "kilnd repeats the test every minute");
}

static void judge_leases(const struct json *fleet, struct findings *f)
{
    judge_untested_leases(fleet, f);
    if (strcmp(json_get_text(fleet, "leases", ""), "off") != 0)
        return;
    struct finding *finding = findings_add(f, CHECK, VERDICT_WARN,
                                           "leases are off, because the store ignores "
                                           "If-None-Match: hosts may compile the same kernel at "
                                           "the same time");
    findings_advise(finding, "use a store with conditional writes, or one host that fills the "
                             "fleet's tree (docs/operations/fleet.md)");
}

static void judge_uploads(const struct json *uploads, struct findings *f)
{
    if (!json_get_bool(uploads, "failing", false))
        return;
    struct finding *finding = findings_add(f, CHECK, VERDICT_WARN,
                                           "kernels cannot be added to the fleet's tree; %llu wait",
                                           (unsigned long long)json_get_u64(uploads, "waiting", 0));
    findings_advise(finding, "'kilnctl fleet status' shows the last error; check that this host "
                             "may write to the store");
}

static void judge_index(const struct json *shard, uint64_t now, struct findings *f)
{
    char ahead[UNITS_TEXT_MAX];
    const char *trouble = json_get_text(shard, "trouble", NULL);
    const char *target = json_get_text(shard, "target", "?");
    uint64_t time = json_get_u64(shard, "time", 0);
    if (trouble) {
        struct finding *finding =
            findings_add(f, CHECK, VERDICT_WARN, "%s index for %.150s: %.200s",
                         json_get(shard, "epoch") ? "no newer" : "no", target, trouble);
        findings_advise(finding, "docs/operations/fleet.md lists what to do ('When it fails')");
    }
    if (time > now + AHEAD_MAX_S) {
        struct finding *finding = findings_add(f, "clock", VERDICT_WARN,
                                               "the fleet's index for %.150s was made %s in "
                                               "the future",
                                               target, units_seconds((double)(time - now), ahead));
        findings_advise(finding, "the clock of this host or of the host that runs 'fleet compact' "
                                 "is wrong: compare 'date' on both");
    }
}

static void judge_indices(const struct json *shards, uint64_t now, struct findings *f)
{
    const size_t before = f->count;
    for (const struct json *j = json_first(shards); j && f->count < before + SHARDS_SHOWN;
         j = json_next(j))
        judge_index(j, now, f);
}

static uint64_t kernels_of(const struct json *shards)
{
    uint64_t sum = 0;
    for (const struct json *j = json_first(shards); j; j = json_next(j))
        sum += json_get_u64(j, "kernels", 0);
    return sum;
}

void fleet_judge(const struct json *fleet, uint64_t now, struct findings *f)
{
    char kernels[UNITS_TEXT_MAX];
    const size_t before = f->count;
    const struct json *shards = json_get(fleet, "shards");
    if (!fleet)
        return;
    judge_store(fleet, f);
    judge_keys(json_get(fleet, "keys"), f);
    judge_leases(fleet, f);
    judge_uploads(json_get(fleet, "uploads"), f);
    judge_indices(shards, now, f);
    if (f->count == before)
        findings_add(f, CHECK, VERDICT_OK, "look-ups ask the fleet; its indices have %s",
                     units_kernels(kernels_of(shards), kernels));
}

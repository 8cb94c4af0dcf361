/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_daemon.h"

#include "cli/kilnctl/doctor_directories.h"
#include "cli/kilnctl/doctor_fleet.h"
#include "cli/kilnctl/miopen_installed.h"
#include "common/base/clock.h"
#include "common/base/units.h"

#include <string.h>

/* Recommended limit of open files.  The usual default of 1024 is not enough for many ranks. */
#define FILES_WANTED 4096u
#define REFUSED_SHOWN 8
#define AHEAD_MAX_S 300u

void daemon_judge_version(const char *ours, const char *daemons, struct findings *f)
{
    const char *blank = strrchr(daemons, ' ');
    daemons = blank ? blank + 1 : daemons;
    if (strcmp(ours, daemons) == 0) {
        findings_add(f, "version", VERDICT_OK, "kilnd and kilnctl are both %s", ours);
        return;
    }
    struct finding *finding = findings_add(
        f, "version", VERDICT_WARN, "kilnd is %s, kilnctl and libkiln are %s", daemons, ours);
    findings_advise(finding, "restart kilnd, so that the installed version runs: systemctl restart "
                             "kilnd, or stop it and start it by hand");
}

/* ---- status ---- */

static void judge_store(const struct json *store, struct findings *f)
{
    const char *health = json_get_text(store, "health", "");
    const char *mode = json_get_text(store, "mode", "");
    uint64_t quarantined = json_get_u64(store, "quarantined", 0);
    if (strcmp(health, "ok") != 0 && *health) {
        struct finding *finding =
            findings_add(f, "kernel cache", VERDICT_FAIL, "it cannot be written (%s): %.300s",
                         health, json_get_text(store, "trouble", "kilnd gives no reason"));
        findings_advise(finding,
                        "fix the cache directory as described there; kilnd keeps serving and tries "
                        "again by itself");
    } else if (strcmp(mode, "on") != 0) {
        struct finding *finding = findings_add(f, "kernel cache", VERDICT_WARN,
                                               "it is %s: new kernels are not stored", mode);
        findings_advise(finding, "set the setting 'cache' to on in kilnd.json");
    } else if (quarantined > 0) {
        struct finding *finding = findings_add(f, "kernel cache", VERDICT_WARN,
                                               "%llu damaged rows were found and quarantined",
                                               (unsigned long long)quarantined);
        findings_advise(finding,
                        "their kernels were compiled again; check with 'dmesg' and smartctl "
                        "whether the disk is failing; 'kilnctl clear --all --yes' empties the "
                        "cache");
    } else {
        char size[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX], kernels[UNITS_TEXT_MAX];
        findings_add(f, "kernel cache", VERDICT_OK, "%s, %s of at most %s",
                     units_kernels(json_get_u64(store, "kernels", 0), kernels),
                     units_size(json_get_u64(store, "taken_bytes", 0), size),
                     units_size(json_get_u64(store, "limit_bytes", 0), limit));
    }
}

static void judge_sandbox(const struct json *workers, struct findings *f)
{
    const struct json *sandbox = json_get(workers, "sandbox");
    const char *user = json_get_text(workers, "user", "?");
    const char *missing = json_get_text(sandbox, "missing", NULL);
    bool required = strcmp(json_get_text(sandbox, "policy", ""), "require") == 0;
    if (!json_get(sandbox, "layers")) {
        findings_add(f, "workers", VERDICT_UNSEEN,
                     "no compiler process has reported its sandbox yet");
        return;
    }
    if (!missing) {
        findings_add(f, "workers", VERDICT_OK, "%llu, as user %s, with every sandbox layer",
                     (unsigned long long)json_get_u64(workers, "total", 0), user);
        return;
    }
    struct finding *finding = findings_add(
        f, "workers", required ? VERDICT_FAIL : VERDICT_WARN,
        "%s without these sandbox layers: %.200s (%.200s)",
        required ? "compilers do not start, because the setting 'sandbox' is require and they "
                   "would run"
                 : "compilers run",
        missing, json_get_text(sandbox, "why", "kilnd gives no reason"));
    findings_advise(finding, "%.300s; docs/security.md describes the layers",
                    json_get_text(sandbox, "to_do", "see kilnd's log: journalctl -u kilnd"));
}

static void judge_workers(const struct json *workers, struct findings *f)
{
    if (json_get_u64(workers, "total", 0) > 0) {
        judge_sandbox(workers, f);
        return;
    }
    struct finding *finding =
        findings_add(f, "workers", VERDICT_WARN, "compilers are switched off");
    findings_advise(finding, "the setting 'workers' is 0; remove it to have one compiler per "
                             "processor");
}

bool daemon_runs_no_compiler(const struct json *status)
{
    return json_get_u64(json_get(status, "workers"), "total", 1) == 0;
}

static void judge_configuration(const struct json *status, struct findings *f)
{
    const char *refused = json_get_text(status, "reload_refused", NULL);
    if (!refused)
        return;
    struct finding *finding = findings_add(
        f, "settings", VERDICT_FAIL,
        "kilnd refused the last reload and runs with earlier settings: %.300s", refused);
    findings_advise(finding, "correct the settings: kilnd --check-config; then reload again: "
                             "systemctl reload kilnd.  With these settings, kilnd would not start");
}

void daemon_judge_status(const struct json *status, struct findings *f)
{
    const struct json *workers = json_get(status, "workers"), *tuning = json_get(status, "tuning");
    judge_configuration(status, f);
    judge_store(json_get(status, "store"), f);
    if (!json_get_bool(tuning, "available", true)) {
        struct finding *finding =
            findings_add(f, "tuning.db", VERDICT_FAIL, "%.400s",
                         json_get_text(tuning, "trouble", "it cannot be opened"));
        findings_advise(finding,
                        "fix the state directory as described there; kilnd tries again every ten "
                        "seconds");
    }
    if (workers)
        judge_workers(workers, f);
    fleet_judge(json_get(status, "fleet"), clock_wall_s(), f);
}

/* ---- health ---- */

static void judge_cache(const struct json *cache, struct findings *f)
{
    char size[UNITS_TEXT_MAX], age[64] = "";
    const char *damage = json_get_text(cache, "damage", NULL);
    uint64_t bytes = json_get_u64(cache, "bytes", 0);
    struct finding *finding;
    if (damage) {
        finding =
            findings_add(f, "kernels.db", VERDICT_FAIL, "SQLite finds it damaged: %.300s", damage);
        findings_advise(finding,
                        "empty it: kilnctl clear --all --yes (kernels are compiled again when "
                        "needed); then check the disk with dmesg and smartctl");
    } else if (bytes == 0) {
        findings_add(f, "kernels.db", VERDICT_OK, "there is none: no kernels are stored on disk");
    } else if (!json_get_bool(cache, "checked", false)) {
        findings_add(f, "kernels.db", VERDICT_UNSEEN,
                     "not read completely, because it has %s; 'kilnctl doctor --deep' reads it",
                     units_size(bytes, size));
    } else {
        uint64_t age_s = json_get_u64(cache, "checked_age_s", 0);
        if (age_s)
            snprintf(age, sizeof(age), ", as of %llu s ago", (unsigned long long)age_s);
        findings_add(f, "kernels.db", VERDICT_OK, "sound (%s%s)", units_size(bytes, size), age);
    }
}

static void judge_clock(const struct json *health, uint64_t now, struct findings *f)
{
    char ahead[UNITS_TEXT_MAX];
    uint64_t theirs = json_get_u64(health, "now", now);
    uint64_t newest = json_get_u64(json_get(health, "cache"), "newest", 0);
    struct finding *finding;
    if (newest > theirs + AHEAD_MAX_S) {
        finding = findings_add(f, "clock", VERDICT_WARN, "kernels were recorded %s in the future",
                               units_seconds((double)(newest - theirs), ahead));
        findings_advise(finding,
                        "the clock was or is wrong: compare 'date' with another host, and let "
                        "chrony or systemd-timesyncd set it ('timedatectl'); the recorded times "
                        "correct themselves with use");
    } else if (theirs > now + AHEAD_MAX_S || now > theirs + AHEAD_MAX_S) {
        finding = findings_add(
            f, "clock", VERDICT_WARN, "the clocks of kilnd and kilnctl differ by %s",
            units_seconds((double)(theirs > now ? theirs - now : now - theirs), ahead));
        findings_advise(finding, "compare 'date' inside and outside the container");
    } else {
        findings_add(f, "clock", VERDICT_OK, "nothing is recorded in the future");
    }
}

static void judge_limits(const struct json *limits, struct findings *f)
{
    uint64_t files = json_get_u64(limits, "open_files", UINT64_MAX);
    struct finding *finding;
    if (!json_get_bool(limits, "memfd_sealed", true)) {
        finding = findings_add(f, "memory files", VERDICT_FAIL,
                               "kilnd cannot create sealed memory files: %.300s",
                               json_get_text(limits, "memfd_trouble", "the seals do not hold"));
        findings_advise(finding,
                        "jobs receive code objects in them: use Linux 3.17 or newer, and "
                        "check for a system-call filter that blocks memfd_create or fcntl");
    } else {
        findings_add(f, "memory files", VERDICT_OK, "can be sealed");
    }
    if (files < FILES_WANTED) {
        finding = findings_add(f, "open files", VERDICT_WARN,
                               "kilnd's limit is %llu: low for a hot set and many ranks",
                               (unsigned long long)files);
        findings_advise(finding,
                        "set LimitNOFILE=65536 in its unit (systemctl edit kilnd), or run 'ulimit "
                        "-n 65536' before you start it");
    } else if (files != UINT64_MAX) {
        findings_add(f, "open files", VERDICT_OK, "kilnd's limit is %llu",
                     (unsigned long long)files);
    }
}

void daemon_judge_health(const struct json *health, uint64_t now, struct findings *f)
{
    for (const struct json *j = json_first(json_get(health, "directories")); j; j = json_next(j)) {
        struct directory_facts facts;
        directory_facts_read(j, &facts);
        if (strcmp(facts.what, "cache") == 0)
            facts.database_bytes = json_get_u64(json_get(health, "cache"), "bytes", 0);
        directory_judge(&facts, f);
    }
    judge_cache(json_get(health, "cache"), f);
    judge_clock(health, now, f);
    judge_limits(json_get(health, "limits"), f);
}

/* ---- packages ---- */

static bool is_covered(const struct json *gpu)
{
    const char *coverage = json_get_text(gpu, "coverage", "none");
    return strcmp(coverage, "exact") == 0 || strcmp(coverage, "arch") == 0;
}

static bool was_reported(const struct json *gpus, const struct json *until)
{
    const char *id = json_get_text(until, "database_id", "");
    for (const struct json *j = json_first(gpus); j && j != until; j = json_next(j)) {
        if (strcmp(json_get_text(j, "database_id", ""), id) == 0)
            return true;
    }
    return false;
}

static void judge_gpu(const struct json *gpu, size_t installed, struct findings *f)
{
    const char *id = json_get_text(gpu, "database_id", "?");
    struct finding *finding;
    if (is_covered(gpu)) {
        findings_add(f, "packages", VERDICT_OK, "one applies to this host's %s", id);
        return;
    }
    if (installed > 0)
        finding =
            findings_add(f, "packages", VERDICT_FAIL,
                         "none of the %zu installed ones applies to this host's %s", installed, id);
    else
        finding = findings_add(
            f, "packages", VERDICT_WARN,
            "none is installed: kernels for %s are compiled when they are first needed", id);
    findings_advise(
        finding,
        "install one: kilnctl pkg install URL-or-FILE (%s.kdb)\n"
        "or build one: kilnctl pkg build --target %s --db-id %s --problems FILE -o %s.kdb\n"
        "'kilnctl pkg coverage' shows which apply, 'kilnctl pkg rm NAME' removes one",
        id, json_get_text(gpu, "arch", "ARCH"), id, id);
}

void daemon_judge_packages(const struct json *list, const struct json *coverage, struct findings *f)
{
    const struct json *gpus = json_get(coverage, "gpus");
    size_t installed = json_count(json_get(list, "packages"));
    size_t shown = 0;
    for (const struct json *j = json_first(json_get(list, "refused")); j && shown++ < REFUSED_SHOWN;
         j = json_next(j)) {
        struct finding *finding = findings_add(
            f, "packages", VERDICT_WARN, "'%.100s' is not used: %.300s",
            json_get_text(j, "name", "?"), json_get_text(j, "why", "kilnd gives no reason"));
        findings_advise(finding, "install it again (kilnctl pkg install), or remove the file");
    }
    for (const struct json *j = json_first(gpus); j; j = json_next(j)) {
        if (!was_reported(gpus, j))
            judge_gpu(j, installed, f);
    }
    if (json_count(gpus) == 0)
        findings_add(f, "packages", VERDICT_OK, "%zu installed; this host has no AMD GPU",
                     installed);
}

void daemon_judge_tuning(const struct json *verified, struct findings *f)
{
    char count[UNITS_TEXT_MAX];
    uint64_t damaged = json_get_u64(verified, "damaged", 0);
    if (damaged > 0) {
        struct finding *finding =
            findings_add(f, "tuning.db", VERDICT_FAIL, "%llu of its databases are damaged",
                         (unsigned long long)damaged);
        findings_advise(finding, "'kilnctl db verify' names them; import them again (kilnctl db "
                                 "import), or restore a copy that 'kilnctl db backup' made");
        return;
    }
    findings_add(f, "tuning.db", VERDICT_OK, "sound, %s records",
                 units_count(json_get_u64(verified, "checked", 0), count));
}

void daemon_judge_miopen(const struct json *coverage, struct findings *f)
{
    char path[PATH_MAX];
    if (json_count(json_get(coverage, "gpus")) == 0)
        return;
    if (miopen_installed_find(path)) {
        findings_add(f, "MIOpen", VERDICT_OK, "its own files are in '%.400s'", path);
        return;
    }
    struct finding *finding =
        findings_add(f, "MIOpen", VERDICT_UNSEEN, "its own files were not found in '%.400s'", path);
    findings_advise(finding,
                    "if jobs use 'kilnctl miopen overlay', set MIOPEN_SYSTEM_DB_PATH to the "
                    "directory of MIOpen's databases and models, or ROCM_PATH");
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_daemon.h"

#include "cli/kilnctl/doctor_directories.h"
#include "common/units.h"

#include <string.h>

/* Of the system's default number of files: enough for tests, few for a node full of ranks. */
#define FILES_WANTED 4096u
#define REFUSED_SHOWN 8  /* files of packages that are not used */
#define AHEAD_MAX_S 300u /* clocks of one host; what is recorded was read from the same clock */

void daemon_judge_version(const char *ours, const char *daemons, struct findings *f)
{
    const char *blank = strrchr(daemons, ' '); /* "kilnd 0.1.0" */
    daemons = blank ? blank + 1 : daemons;
    if (strcmp(ours, daemons) == 0) {
        findings_add(f, "version", VERDICT_OK, "%s, on both sides", ours);
        return;
    }
    struct finding *finding = findings_add(
        f, "version", VERDICT_WARN, "kilnd is %s, kilnctl and libkiln are %s", daemons, ours);
    findings_advise(finding, "start kilnd again, so that it is the one that is installed: "
                             "systemctl restart kilnd, or end it and start it by hand");
}

/* ---- status ---- */

static void judge_store(const struct json *store, struct findings *f)
{
    const char *health = json_get_text(store, "health", "");
    const char *mode = json_get_text(store, "mode", "");
    uint64_t quarantined = json_get_u64(store, "quarantined", 0);
    if (strcmp(health, "ok") != 0 && *health) {
        struct finding *finding =
            findings_add(f, "kernel cache", VERDICT_FAIL, "nothing is written to it (%s): %.300s",
                         health, json_get_text(store, "trouble", "no reason is told"));
        findings_advise(finding,
                        "mend what is said about the cache directory; kilnd tries again by "
                        "itself and serves meanwhile");
    } else if (strcmp(mode, "on") != 0) {
        struct finding *finding = findings_add(f, "kernel cache", VERDICT_WARN,
                                               "it is %s: new kernels are not kept", mode);
        findings_advise(finding, "the setting 'cache' says so: set it to on in kilnd.json");
    } else if (quarantined > 0) {
        struct finding *finding = findings_add(f, "kernel cache", VERDICT_WARN,
                                               "%llu damaged rows were found and put aside",
                                               (unsigned long long)quarantined);
        findings_advise(finding,
                        "the kernels were made again; 'dmesg' and smartctl tell whether the "
                        "disk is failing; 'kilnctl clear --all --yes' empties the cache");
    } else {
        char size[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX], kernels[UNITS_TEXT_MAX];
        findings_add(f, "kernel cache", VERDICT_OK, "%s, %s of at most %s",
                     units_kernels(json_get_u64(store, "kernels", 0), kernels),
                     units_size(json_get_u64(store, "taken_bytes", 0), size),
                     units_size(json_get_u64(store, "limit_bytes", 0), limit));
    }
}

/* What kilnd says of its compilers' sandbox, looked at by the compilers themselves. */
static void judge_sandbox(const struct json *workers, struct findings *f)
{
    const struct json *sandbox = json_get(workers, "sandbox");
    const char *user = json_get_text(workers, "user", "?");
    const char *missing = json_get_text(sandbox, "missing", NULL);
    bool required = strcmp(json_get_text(sandbox, "policy", ""), "require") == 0;
    if (!json_get(sandbox, "layers")) {
        findings_add(f, "workers", VERDICT_UNSEEN,
                     "no compiler process has said yet what confines it");
        return;
    }
    if (!missing) {
        findings_add(f, "workers", VERDICT_OK, "%llu, run as %s, in every layer of the sandbox",
                     (unsigned long long)json_get_u64(workers, "total", 0), user);
        return;
    }
    struct finding *finding = findings_add(
        f, "workers", required ? VERDICT_FAIL : VERDICT_WARN,
        "%s without these layers of the sandbox: %.200s (%.200s)",
        required ? "compilers do not start: the setting 'sandbox' is require, and they would run"
                 : "compilers run",
        missing, json_get_text(sandbox, "why", "no reason is told"));
    findings_advise(finding, "%.300s; the layers: docs/security.md",
                    json_get_text(sandbox, "to_do", "see kilnd's log"));
}

static void judge_workers(const struct json *workers, struct findings *f)
{
    if (json_get_u64(workers, "total", 0) > 0) {
        judge_sandbox(workers, f);
        return;
    }
    struct finding *finding =
        findings_add(f, "workers", VERDICT_WARN, "compilers are switched off");
    findings_advise(finding, "the setting 'workers' is 0: leave it out, to have one for each "
                             "processor");
}

bool daemon_runs_no_compiler(const struct json *status)
{
    return json_get_u64(json_get(status, "workers"), "total", 1) == 0;
}

void daemon_judge_status(const struct json *status, struct findings *f)
{
    const struct json *workers = json_get(status, "workers"), *tuning = json_get(status, "tuning");
    judge_store(json_get(status, "store"), f);
    if (!json_get_bool(tuning, "available", true)) {
        struct finding *finding =
            findings_add(f, "tuning.db", VERDICT_FAIL, "%.400s",
                         json_get_text(tuning, "trouble", "it cannot be opened"));
        findings_advise(finding,
                        "mend what is said about the state directory; kilnd tries again every "
                        "ten seconds");
    }
    if (workers)
        judge_workers(workers, f);
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
                        "empty it: kilnctl clear --all --yes (kernels are compiled again when they "
                        "are needed); then look at the disk: dmesg, smartctl");
    } else if (bytes == 0) {
        findings_add(f, "kernels.db", VERDICT_OK, "there is none: nothing is kept on disk");
    } else if (!json_get_bool(cache, "checked", false)) {
        findings_add(f, "kernels.db", VERDICT_UNSEEN,
                     "not read as a whole: it has %s; 'kilnctl doctor --deep' reads it",
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
                        "the clock was, or is, wrong: compare 'date' with another host, let "
                        "chrony or systemd-timesyncd set it ('timedatectl'); what was "
                        "recorded rights itself with use");
    } else if (theirs > now + AHEAD_MAX_S || now > theirs + AHEAD_MAX_S) {
        finding = findings_add(
            f, "clock", VERDICT_WARN, "kilnd's clock and this one differ by %s",
            units_seconds((double)(theirs > now ? theirs - now : now - theirs), ahead));
        findings_advise(finding, "compare 'date' inside and outside of the container");
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
                               "kilnd can make no sealed memory file: %.300s",
                               json_get_text(limits, "memfd_trouble", "the seals do not hold"));
        findings_advise(finding, "they are how code objects reach jobs: Linux 3.17 or newer; and "
                                 "look for a system-call filter without memfd_create and fcntl");
    } else {
        findings_add(f, "memory files", VERDICT_OK, "can be sealed");
    }
    if (files < FILES_WANTED) {
        finding = findings_add(f, "open files", VERDICT_WARN,
                               "kilnd may have %llu: few for a hot set "
                               "and many ranks",
                               (unsigned long long)files);
        findings_advise(finding,
                        "LimitNOFILE=65536 in its unit (systemctl edit kilnd), or 'ulimit -n "
                        "65536' before it is started");
    } else if (files != UINT64_MAX) {
        findings_add(f, "open files", VERDICT_OK, "kilnd may have %llu", (unsigned long long)files);
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
        findings_add(f, "packages", VERDICT_OK, "one is for this host's %s", id);
        return;
    }
    if (installed > 0)
        finding = findings_add(f, "packages", VERDICT_FAIL,
                               "of %zu installed none is for this host's %s", installed, id);
    else
        finding = findings_add(
            f, "packages", VERDICT_WARN,
            "none is here: kernels for %s are compiled when they are first needed", id);
    findings_advise(
        finding,
        "get the one for it: kilnctl pkg install URL-or-FILE (%s.kdb)\n"
        "or make it: kilnctl pkg build --target %s --db-id %s --problems FILE -o %s.kdb\n"
        "'kilnctl pkg coverage' shows what fits, 'kilnctl pkg rm NAME' removes one",
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
            json_get_text(j, "name", "?"), json_get_text(j, "why", "no reason is told"));
        findings_advise(finding, "install it again (kilnctl pkg install), or remove the file");
    }
    for (const struct json *j = json_first(gpus); j; j = json_next(j)) {
        if (!was_reported(gpus, j))
            judge_gpu(j, installed, f);
    }
    if (json_count(gpus) == 0)
        findings_add(f, "packages", VERDICT_OK, "%zu here; no AMD GPU that they could be for",
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
                                 "import), or put back a copy (kilnctl db backup makes one)");
        return;
    }
    findings_add(f, "tuning.db", VERDICT_OK, "sound, %s records",
                 units_count(json_get_u64(verified, "checked", 0), count));
}

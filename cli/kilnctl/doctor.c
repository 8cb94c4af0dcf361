/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/doctor_daemon.h"
#include "cli/kilnctl/doctor_directories.h"
#include "cli/kilnctl/doctor_findings.h"
#include "cli/kilnctl/doctor_socket.h"
#include "cli/kilnctl/doctor_toolchains.h"
#include "cli/kilnctl/doctor_units.h"
#include "cli/kilnctl/preload.h"
#include "cli/output.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define PING_MS 5000
#define ASK_MS 120000

struct doctor_options {
    const char *config;
    bool deep;
};

#define AT(field) offsetof(struct doctor_options, field)
static const struct option options[] = {
    { "config", 0, OPTION_TEXT, AT(config), "FILE",
      "the FILE of kilnd's own --config, to find its directories while it does not answer", 0, 0 },
    { "deep", 0, OPTION_FLAG, AT(deep), NULL,
      "read all of kernels.db, whatever its size (for administrators)", 0, 0 },
};
#undef AT

struct doctor {
    const struct invocation *invocation;
    struct findings findings;
    bool is_system;
    /* the caller's libkiln would start a private kilnd, because the host has no system-wide one */
    bool is_own;
    bool answers;
    bool runs_no_compiler;
};

static const struct doctor_options *options_of(const struct doctor *d)
{
    return d->invocation->options;
}

static struct json *query_kilnd(struct doctor *d, const char *request, const struct json *arguments,
                                const char *check)
{
    struct json *answer = NULL;
    struct kiln_error err = { 0 };
    const struct admin_call call = { ADMIN_CALL_INIT, .request = request, .arguments = arguments,
                                     .timeout_ms = options_of(d)->deep ? 0 : ASK_MS };
    if (admin_call(d->invocation, &call, &answer, &err))
        findings_add(&d->findings, check, VERDICT_UNSEEN, "kilnd's answer is missing: %.300s",
                     err.text);
    return answer;
}

static void check_socket(struct doctor *d)
{
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error err = { 0 };
    struct socket_facts facts;
    if (kiln_client_status(d->invocation->client, &status, &err)) {
        findings_add(&d->findings, "socket", VERDICT_FAIL, "%s", err.text);
        return;
    }
    socket_facts_gather(status.socket_path, &facts);
    d->is_system = facts.is_system;
    d->is_own = !facts.is_system || (facts.stat_errno && !facts.has_unit && geteuid() != 0);
    d->answers = socket_judge(&facts, &d->findings);
}

static const char *role_name(int role)
{
    static const char *const names[] = { "use it", "publish", "administer it" };
    return role >= 0 && role < 3 ? names[role] : "?";
}

static void check_answer(struct doctor *d)
{
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error err = { 0 };
    if (!kiln_client_ping(d->invocation->client, PING_MS, NULL, &err) &&
        !kiln_client_status(d->invocation->client, &status, &err)) {
        findings_add(&d->findings, "daemon", VERDICT_OK, "kilnd answers, pid %d; you may %s",
                     status.daemon_pid, role_name(status.role));
        daemon_judge_version(kiln_version(), status.daemon, &d->findings);
        return;
    }
    d->answers = false;
    struct finding *finding = findings_add(&d->findings, "daemon", VERDICT_FAIL,
                                           "kilnd does not answer: %.300s", err.text);
    findings_advise(finding,
                    "see its log: journalctl -u kilnd, or its output if it was started by hand; "
                    "'kilnd --check-config' checks its settings");
}

static void check_from_outside(struct doctor *d)
{
    struct directory_facts facts[2];
    struct kiln_error err = { 0 };
    int rc = directory_facts_gather(options_of(d)->config, !d->is_own, facts, &err);
    if (rc == KILN_E_DENIED) {
        findings_add(&d->findings, "settings", VERDICT_UNSEEN,
                     "%.300s: the directories below are the default ones", err.text);
    } else if (rc) {
        struct finding *finding =
            findings_add(&d->findings, "settings", VERDICT_FAIL, "%s", err.text);
        findings_advise(finding, "correct the file; 'kilnd --check-config' checks it");
        return;
    }
    directory_judge(&facts[0], &d->findings);
    directory_judge(&facts[1], &d->findings);
    findings_add(
        &d->findings, "the rest", VERDICT_UNSEEN,
        "only kilnd can check compilers, packages, databases and limits, and it does not answer");
}

static void check_health(struct doctor *d)
{
    KILN_AUTO(json) struct json *question = json_object();
    if (options_of(d)->deep)
        json_set_bool(question, "deep", true);
    KILN_AUTO(json) struct json *health = query_kilnd(d, "health", question, "directories");
    if (health)
        daemon_judge_health(health, (uint64_t)time(NULL), &d->findings);
}

static void check_databases(struct doctor *d)
{
    KILN_AUTO(json) struct json *status = query_kilnd(d, "status", admin_no_arguments, "status");
    if (status)
        daemon_judge_status(status, &d->findings);
    d->runs_no_compiler = daemon_runs_no_compiler(status);
    if (!json_get_bool(json_get(status, "tuning"), "available", false))
        return;
    KILN_AUTO(json)
    struct json *verified = query_kilnd(d, "tuning_verify", admin_no_arguments, "tuning.db");
    if (verified)
        daemon_judge_tuning(verified, &d->findings);
}

static void check_devices(struct doctor *d)
{
    KILN_AUTO(json) struct json *devices = query_kilnd(d, "devices", admin_no_arguments, "devices");
    if (d->runs_no_compiler)
        toolchains_switched_off(&d->findings);
    else
        toolchains_check(d->invocation, devices, &d->findings);
    KILN_AUTO(json)
    struct json *list = query_kilnd(d, "package_list", admin_no_arguments, "packages");
    KILN_AUTO(json)
    struct json *coverage =
        list ? query_kilnd(d, "package_coverage", admin_no_arguments, "packages") : NULL;
    if (!coverage)
        return;
    daemon_judge_packages(list, coverage, &d->findings);
    daemon_judge_miopen(coverage, &d->findings);
}

/* Adds a finding about 'kilnctl run'. The finding suggests 'kilnctl run --explain', because only
 * running a program shows which of its compiles kilnd can answer. */
static void check_drop_in(struct doctor *d)
{
    char value[PRELOAD_MAX];
    struct kiln_error err = { 0 };
    struct finding *finding;
    if (preload_value(value, &err)) {
        finding = findings_add(&d->findings, "drop-in", VERDICT_WARN,
                               "'kilnctl run' does not work: %.400s", err.text);
        findings_advise(finding, "install libkiln-rtc, which is in the package of libkiln");
        return;
    }
    findings_add(&d->findings, "drop-in", VERDICT_OK,
                 "'kilnctl run --explain -- COMMAND' says whether kilnd answers a program's own "
                 "compiles by NVRTC, hiprtc or comgr, and why not");
}

static int print_json(const struct findings *f, struct kiln_error *err)
{
    size_t failed = findings_count(f, VERDICT_FAIL);
    KILN_AUTO(json) struct json *all = json_object();
    json_set_bool(all, "ok", failed == 0);
    json_set_u64(all, "failed", failed);
    json_set_u64(all, "warned", findings_count(f, VERDICT_WARN));
    json_set_u64(all, "unseen", findings_count(f, VERDICT_UNSEEN));
    json_set(all, "checks", findings_to_json(f));
    if (failed > 0) {
        struct json *error = json_object();
        json_set_text(error, "code", kiln_error_name(KILN_E_UNAVAILABLE));
        json_set_text(error, "text", "a check failed, see checks");
        json_set(all, "error", error);
    }
    return output_json(all, err);
}

static int print_findings(struct doctor *d, struct kiln_error *err)
{
    const struct findings *f = &d->findings;
    size_t failed = findings_count(f, VERDICT_FAIL);
    int rc = KILN_E_OK;
    if (d->invocation->common->json)
        rc = print_json(f, err);
    else
        findings_print(f, stdout);
    if (rc || failed == 0)
        return rc;
    *d->invocation->reported = true;
    return cli_fail(err, KILN_E_CORRUPT,
                    "%zu of %zu checks failed: follow the advice below each, from the top, then "
                    "run doctor again",
                    failed, f->count);
}

static int run_doctor(const struct invocation *invocation, struct kiln_error *err)
{
    struct doctor d = { .invocation = invocation };
    check_socket(&d);
    if (d.answers)
        check_answer(&d);
    units_check(d.is_system, d.answers, &d.findings);
    if (!d.answers) {
        size_t before = d.findings.count;
        check_from_outside(&d);
        /* Failures that check_from_outside found may be the reason why kilnd does not answer. */
        findings_causes_first(&d.findings, before);
        return print_findings(&d, err);
    }
    check_health(&d);
    check_databases(&d);
    check_devices(&d);
    check_drop_in(&d);
    return print_findings(&d, err);
}

const struct command command_doctor = {
    .name = "doctor",
    .words = "",
    .summary = "find problems with kiln on this host, and their solutions",
    .help =
        "Checks everything that kilnd needs, and prints one line per check: 'ok', 'warn' (works,\n"
        "but could work better), 'fail', or 'unseen' (you may not see it, or no kilnd\n"
        "answers).  The lines below a check say what to do.  Each compiler compiles a one-line\n"
        "kernel.  Works for any user, and without a kilnd.  The exit status is 1 if a check\n"
        "failed.  docs/operations/doctor.md explains each check.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct doctor_options),
    .run = run_doctor,
};

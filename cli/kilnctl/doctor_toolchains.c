/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_toolchains.h"

#include "cli/kilnctl/admin.h"

#include <kiln/kernel.h>

#include <string.h>

#define TARGETS_MAX 8
#define COMPILE_MS 60000
#define CHECK "toolchain"

/* one line of source that every compiler of the family accepts, whatever its version */
struct line {
    const char *family, *program, *source, *usual_target;
};

static const struct line lines[] = {
    { "amdgpu", "doctor.hip",
      "extern \"C\" __attribute__((global)) void doctor(float *y) { *y = 1.0f; }\n", "gfx90a" },
    { "nvidia", "doctor.cu", "extern \"C\" __global__ void doctor(float *y) { *y = 1.0f; }\n",
      "sm_80" },
    { "opencl", "doctor.cl", "__kernel void doctor(__global float *y) { *y = 1.0f; }\n", NULL },
};

struct targets {
    const char *items[TARGETS_MAX];
    size_t count;
};

static void add_target(struct targets *targets, const char *target)
{
    for (size_t i = 0; i < targets->count; i++) {
        if (strcmp(targets->items[i], target) == 0)
            return;
    }
    if (targets->count < TARGETS_MAX)
        targets->items[targets->count++] = target;
}

/* Chooses the targets to try.  For AMD's compilers, these are the targets of this host's GPUs, if
 * it has any.  Otherwise, chooses one target that the family's compilers have supported for
 * years. */
static void choose_targets(const struct line *line, const struct json *toolchain,
                           const struct json *devices, struct targets *ret_targets)
{
    *ret_targets = (struct targets){ .count = 0 };
    const struct json *all = json_get(devices, "devices");
    for (const struct json *j = strcmp(line->family, "amdgpu") == 0 ? json_first(all) : NULL; j;
         j = json_next(j))
        add_target(ret_targets, json_get_text(j, "target", ""));
    if (ret_targets->count == 0 && line->usual_target)
        add_target(ret_targets, line->usual_target);
    else if (ret_targets->count == 0)
        add_target(ret_targets,
                   json_get_text(json_first(json_get(toolchain, "targets")), "target", "opencl"));
}

static enum trial_end classify_end(int rc)
{
    switch (rc) {
    case KILN_E_OK: return TRIAL_MADE;
    case KILN_E_BUSY:
    case KILN_E_FULL:
    case KILN_E_TIMED_OUT:
    case KILN_E_DENIED: return TRIAL_UNTRIED;
    case KILN_E_UNAVAILABLE: return TRIAL_UNREACHED;
    default: return TRIAL_MADE_NONE;
    }
}

enum trial_end toolchain_judge(const struct toolchain_trial *trial, struct findings *f)
{
    struct finding *finding;
    const char *name = trial->name, *target = trial->target;
    enum trial_end end = classify_end(trial->rc);
    switch (end) {
    case TRIAL_MADE:
        findings_add(f, CHECK, VERDICT_OK, "%.20s compiles for %.100s", name, target);
        break;
    case TRIAL_UNTRIED:
        findings_add(f, CHECK, VERDICT_UNSEEN, "%.20s was not tried for %.100s: %.300s", name,
                     target, trial->why);
        break;
    case TRIAL_UNREACHED:
        finding =
            findings_add(f, CHECK, VERDICT_WARN, "%.20s could not be tried for %.100s: %.300s",
                         name, target, trial->why);
        findings_advise(finding,
                        "what it supports is unknown: fix the error above; if kilnd or a compiler "
                        "was just replaced, run doctor again");
        break;
    case TRIAL_MADE_NONE: /* only a warning, because another compiler may support the target */
        finding = findings_add(f, CHECK, VERDICT_WARN, "%.20s cannot compile for %.100s: %.300s",
                               name, target, trial->why);
        findings_advise(finding,
                        "if no other compiler supports the target, install another version of this "
                        "one; 'kilnctl toolchain ls --probe %.100s' shows which compilers do",
                        target);
        break;
    }
    return end;
}

static enum trial_end try_target(struct kiln_client *client, const char *name,
                                 const struct line *line, const char *target, struct findings *f)
{
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    const struct kiln_kernel_source source = { .size = sizeof(source),
                                               .target = target,
                                               .toolchain = name,
                                               .program = line->program,
                                               .source = line->source,
                                               .timeout_ms = COMPILE_MS };
    int rc = kiln_kernel_fetch_source(client, &source, &kernel, &err);
    kiln_kernel_unref(kernel);
    return toolchain_judge(
        &(struct toolchain_trial){ .name = name, .target = target, .rc = rc, .why = err.text }, f);
}

static unsigned try_toolchain(struct kiln_client *client, const struct json *toolchain,
                              const struct json *devices, struct findings *f)
{
    unsigned ends = 0;
    struct targets targets;
    const char *family = json_get_text(toolchain, "family", "");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strcmp(lines[i].family, family) != 0)
            continue;
        choose_targets(&lines[i], toolchain, devices, &targets);
        for (size_t t = 0; t < targets.count; t++)
            ends |= try_target(client, json_get_text(toolchain, "name", ""), &lines[i],
                               targets.items[t], f);
    }
    return ends;
}

static void advise_install(struct finding *finding)
{
    findings_advise(
        finding, "install one (Debian): apt install libamdhip64-5 (hiprtc) or clang-19 lld-19 for "
                 "AMD, pocl-opencl-icd for OpenCL; NVRTC comes with CUDA\n"
                 "kilnd searches again within a minute, and when it starts; KILN_ROCM_PATH and "
                 "KILN_CUDA_PATH in kilnd's environment name other directories\n"
                 "a host whose packages have all its kernels needs no compiler: set 'workers' to 0 "
                 "in kilnd.json there");
}

void toolchains_conclude(unsigned ends, struct findings *f)
{
    if (ends & (TRIAL_MADE | TRIAL_UNTRIED))
        return;
    if (!(ends & TRIAL_UNREACHED)) {
        advise_install(
            findings_add(f, CHECK, VERDICT_FAIL, "no compiler of this host can compile a kernel"));
        return;
    }
    struct finding *finding =
        findings_add(f, CHECK, VERDICT_FAIL, "kilnd cannot compile any kernel at the moment");
    findings_advise(finding,
                    "'kilnctl status' shows the number of compiler processes; see their errors in "
                    "kilnd's log: journalctl -u kilnd -u \"kiln-compiler@*\"");
}

void toolchains_judge_unknown(int rc, const char *why, struct findings *f)
{
    if (classify_end(rc) == TRIAL_UNTRIED)
        findings_add(f, CHECK, VERDICT_UNSEEN, "kilnd's answer is missing: %.300s", why);
    else
        advise_install(findings_add(f, CHECK, VERDICT_FAIL, "%.400s", why));
}

void toolchains_switched_off(struct findings *f)
{
    findings_add(f, CHECK, VERDICT_WARN,
                 "none was tried: the setting 'workers' switches compilers off");
}

static void try_toolchains(const struct invocation *invocation, const struct json *list,
                           const struct json *devices, struct findings *f)
{
    __attribute__((cleanup(kiln_client_auto))) struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    unsigned ends = 0;
    /* Makes kilnd compile the kernel even if it is stored. */
    setenv("KILN_DISABLE_CACHE", "1", 1);
    if (session_open(invocation->common, "kilnctl", "off", &client, &err)) {
        findings_add(f, CHECK, VERDICT_UNSEEN, "%s", err.text);
        return;
    }
    for (const struct json *j = json_first(list); j; j = json_next(j))
        ends |= try_toolchain(client, j, devices, f);
    toolchains_conclude(ends, f);
}

void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *f)
{
    KILN_AUTO(json) struct json *answer = NULL;
    struct kiln_error err = { 0 };
    int rc = admin_ask(invocation, "toolchains", admin_no_arguments, &answer, &err);
    const struct json *list = json_get(answer, "toolchains");
    if (rc)
        toolchains_judge_unknown(rc, err.text, f);
    else if (json_count(list) == 0)
        advise_install(findings_add(f, CHECK, VERDICT_FAIL,
                                    "this host has no compiler that "
                                    "kilnd can use"));
    else
        try_toolchains(invocation, list, devices, f);
}

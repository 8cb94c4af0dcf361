/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_toolchains.h"

#include "cli/kilnctl/admin.h"

#include <kiln/kernel.h>

#include <string.h>

#define TARGETS_MOST 8 /* kinds of GPU in one host */
#define COMPILE_MS 60000
#define CHECK "toolchain"

struct line { /* of source, that every version of a family's compilers knows */
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
    const char *items[TARGETS_MOST]; /* borrowed */
    size_t count;
};

static void add_target(struct targets *targets, const char *target)
{
    for (size_t i = 0; i < targets->count; i++) {
        if (strcmp(targets->items[i], target) == 0)
            return;
    }
    if (targets->count < TARGETS_MOST)
        targets->items[targets->count++] = target;
}

/* This host's GPUs; without any, a target that the family's compilers have known for years. */
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
    else if (ret_targets->count == 0) /* an OpenCL device has one */
        add_target(ret_targets,
                   json_get_text(json_first(json_get(toolchain, "targets")), "target", "opencl"));
}

/* A host that is busy, full, or closed to who asks says nothing about its compilers. */
static bool is_untried(int rc)
{
    return rc == KILN_E_BUSY || rc == KILN_E_FULL || rc == KILN_E_TIMED_OUT || rc == KILN_E_DENIED;
}

void toolchain_judge(const struct toolchain_trial *trial, struct findings *f)
{
    if (!trial->rc) {
        findings_add(f, CHECK, VERDICT_OK, "%.20s makes a kernel for %.100s", trial->name,
                     trial->target);
        return;
    }
    if (is_untried(trial->rc)) {
        findings_add(f, CHECK, VERDICT_UNSEEN, "%.20s was not tried for %.100s: %.300s",
                     trial->name, trial->target, trial->why);
        return;
    }
    /* There may be another that can do this target. */
    struct finding *finding =
        findings_add(f, CHECK, VERDICT_WARN, "%.20s makes none for %.100s: %.300s", trial->name,
                     trial->target, trial->why);
    findings_advise(
        finding,
        "where no other compiler does, install another version of it; 'kilnctl toolchain "
        "ls --probe %.100s' says which targets each can do",
        trial->target);
}

static void try_one(struct kiln_client *client, const char *name, const struct line *line,
                    const char *target, struct findings *f)
{
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    const struct kiln_kernel_source source = { .size = sizeof(source),
                                               .target = target,
                                               .toolchain = name,
                                               .program = line->program,
                                               .source = line->source };
    int rc = kiln_kernel_fetch_source(client, &source, COMPILE_MS, &kernel, &err);
    kiln_kernel_unref(kernel);
    toolchain_judge(
        &(struct toolchain_trial){ .name = name, .target = target, .rc = rc, .why = err.text }, f);
}

static void try_toolchain(struct kiln_client *client, const struct json *toolchain,
                          const struct json *devices, struct findings *f)
{
    struct targets targets;
    const char *family = json_get_text(toolchain, "family", "");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strcmp(lines[i].family, family) != 0)
            continue;
        choose_targets(&lines[i], toolchain, devices, &targets);
        for (size_t t = 0; t < targets.count; t++)
            try_one(client, json_get_text(toolchain, "name", ""), &lines[i], targets.items[t], f);
    }
}

static void advise_install(struct finding *finding)
{
    findings_advise(
        finding, "install one (Debian): apt install libamdhip64-5 (hiprtc) or clang-19 lld-19 for "
                 "AMD, pocl-opencl-icd for OpenCL; NVRTC comes with CUDA\n"
                 "kilnd looks again within a minute, and when it is started again; KILN_ROCM_PATH, "
                 "KILN_CUDA_PATH in kilnd's "
                 "environment name another place");
}

void toolchains_conclude(size_t first, struct findings *f)
{
    for (size_t i = first; i < f->count; i++) {
        if (f->items[i].verdict == VERDICT_OK || f->items[i].verdict == VERDICT_UNSEEN)
            return;
    }
    advise_install(findings_add(f, CHECK, VERDICT_FAIL, "no compiler of this host makes a kernel"));
}

void toolchains_judge_unknown(int rc, const char *why, struct findings *f)
{
    if (is_untried(rc))
        findings_add(f, CHECK, VERDICT_UNSEEN, "kilnd does not tell: %.300s", why);
    else
        advise_install(findings_add(f, CHECK, VERDICT_FAIL, "%.400s", why));
}

void toolchains_switched_off(struct findings *f)
{
    findings_add(f, CHECK, VERDICT_WARN,
                 "none was tried: compilers are switched off by the setting 'workers'");
}

static void try_all(const struct invocation *invocation, const struct json *list,
                    const struct json *devices, struct findings *f)
{
    __attribute__((cleanup(kiln_client_auto))) struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    size_t first = f->count;
    /* A client that has this set is not answered from what is stored: it is compiled, now. */
    setenv("KILN_DISABLE_CACHE", "1", 1);
    if (session_open(invocation->common, "kilnctl", &client, &err)) {
        findings_add(f, CHECK, VERDICT_UNSEEN, "%s", err.text);
        return;
    }
    for (const struct json *j = json_first(list); j; j = json_next(j))
        try_toolchain(client, j, devices, f);
    toolchains_conclude(first, f);
}

void toolchains_check(const struct invocation *invocation, const struct json *devices,
                      struct findings *f)
{
    KILN_AUTO(json) struct json *answer = NULL;
    struct kiln_error err = { 0 };
    int rc = admin_ask(invocation, "toolchains", NULL, &answer, &err);
    const struct json *list = json_get(answer, "toolchains");
    if (rc)
        toolchains_judge_unknown(rc, err.text, f);
    else if (json_count(list) == 0)
        advise_install(findings_add(f, CHECK, VERDICT_FAIL,
                                    "this host has no compiler that "
                                    "kilnd can use"));
    else
        try_all(invocation, list, devices, f);
}

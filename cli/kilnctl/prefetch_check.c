/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_check.h"

#include "cli/kilnctl/admin.h"

#include <string.h>

struct verdict {
    const char *target, *toolchain; /* |toolchain| may be NULL */
    unsigned works, fails;
    /* number of toolchains that failed without a reason, or were not tried yet */
    unsigned unexplained;
    bool named;
    char names[256], tried[256];
    char reasons[sizeof(((struct kiln_error *)0)->log)];
};

/* Returns whether two targets are the same. The features may be in another order, because kilnd
 * reorders them. */
static bool is_same_target(const char *known, const char *asked)
{
    size_t arch = strcspn(asked, ":");
    bool same = strlen(known) == strlen(asked) && strncmp(known, asked, arch) == 0;
    for (const char *at = asked + arch; same && *at == ':';) {
        char feature[32];
        size_t size = 1 + strcspn(at + 1, ":");
        snprintf(feature, sizeof(feature), "%.*s", (int)size, at);
        same = strstr(known, feature) != NULL;
        at += size;
    }
    return same;
}

static void add_line(char *text, size_t size, const char *before, const char *line)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? before : "", line);
}

static void note_failure(struct verdict *v, const char *name, const char *detail)
{
    char line[768];
    snprintf(line, sizeof(line), "%s: %s", name, detail);
    add_line(v->reasons, sizeof(v->reasons), "\n", line);
    add_line(v->tried, sizeof(v->tried), ", ", name);
    v->fails++;
    v->unexplained += !*detail;
}

static void judge_toolchain(struct verdict *v, const struct json *toolchain)
{
    const char *name = json_get_text(toolchain, "name", "?");
    add_line(v->names, sizeof(v->names), ", ", name);
    if (v->toolchain && strcmp(v->toolchain, name) != 0)
        return;
    v->named = true;
    for (const struct json *j = json_first(json_get(toolchain, "targets")); j; j = json_next(j)) {
        if (!is_same_target(json_get_text(j, "target", ""), v->target))
            continue;
        if (json_get_bool(j, "works", false))
            v->works++;
        else
            note_failure(v, name, json_get_text(j, "detail", ""));
    }
    for (const struct json *j = json_first(json_get(toolchain, "untried")); j; j = json_next(j))
        v->unexplained += is_same_target(json_get_text(j, "target", ""), v->target);
}

static int conclude_check(const struct verdict *v, bool *ret_doubtful, struct kiln_error *err)
{
    if (v->toolchain && !v->named)
        return cli_fail(err, KILN_E_NOT_FOUND,
                        "there is no toolchain '%s' on this host; it has: %s", v->toolchain,
                        *v->names ? v->names : "none");
    *ret_doubtful = v->works == 0;
    /* If the user named a toolchain, the prefetch tries it although kilnd's test compile failed:
     * the error message of a real compile is more useful. */
    if (v->works > 0 || v->fails == 0 || v->unexplained > 0 || v->toolchain)
        return KILN_E_OK;
    int rc = cli_fail(err, KILN_E_UNSUPPORTED,
                      "no compiler of this host can build for '%s' (tried: %s): the target is "
                      "misspelt or needs another compiler",
                      v->target, v->tried);
    snprintf(err->log, sizeof(err->log), "%s", v->reasons);
    return rc;
}

/* Returns whether there is a package for the target's arch. Such a package may have the kernels,
 * even if no compiler can build them, so the prefetch should start. */
static bool packages_may_serve(const struct invocation *invocation, const char *target)
{
    KILN_AUTO(json) struct json *reply = NULL;
    struct kiln_error ignored = { .code = KILN_E_OK };
    size_t arch = strcspn(target, ":");
    if (admin_ask(invocation, "package_list", admin_no_arguments, &reply, &ignored))
        return false; /* an older kilnd has no packages */
    for (const struct json *j = json_first(json_get(reply, "packages")); j; j = json_next(j)) {
        if (strncmp(json_get_text(j, "database_id", ""), target, arch) == 0)
            return true;
    }
    return false;
}

/* The archs whose targets have features in HIP: those with sramecc or xnack in the table of
 * processors in LLVM's "User Guide for AMDGPU Backend". */
static const struct arch_features {
    const char *arch, *usual;
} with_features[] = {
    { "gfx906", ":sramecc+:xnack-" }, { "gfx908", ":sramecc+:xnack-" },
    { "gfx90a", ":sramecc+:xnack-" }, { "gfx940", ":sramecc+:xnack-" },
    { "gfx941", ":sramecc+:xnack-" }, { "gfx942", ":sramecc+:xnack-" },
    { "gfx950", ":sramecc+:xnack-" }, { "gfx801", ":xnack-" },
    { "gfx810", ":xnack-" },          { "gfx900", ":xnack-" },
    { "gfx902", ":xnack-" },          { "gfx904", ":xnack-" },
    { "gfx909", ":xnack-" },          { "gfx90c", ":xnack-" },
    { "gfx1010", ":xnack-" },         { "gfx1011", ":xnack-" },
    { "gfx1012", ":xnack-" },         { "gfx1013", ":xnack-" },
};

const char *prefetch_note(const char *target, char text[PREFETCH_NOTE_MAX])
{
    for (size_t i = 0; i < sizeof(with_features) / sizeof(with_features[0]); i++) {
        const struct arch_features *known = &with_features[i];
        if (strcmp(known->arch, target) != 0)
            continue;
        snprintf(text, PREFETCH_NOTE_MAX,
                 "jobs on such GPUs usually request kernels for %s%s ('kiln-driver devices' shows "
                 "the exact target there); they do not use kernels for '%s'",
                 known->arch, known->usual, target);
        return text;
    }
    return NULL;
}

static int ask_toolchains(const struct invocation *invocation, const struct json *ask,
                          struct verdict *verdict, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "toolchains", ask, &reply, err);
    if (rc)
        return rc;
    for (const struct json *j = json_first(json_get(reply, "toolchains")); j; j = json_next(j))
        judge_toolchain(verdict, j);
    return KILN_E_OK;
}

bool prefetch_is_known_to_work(const struct invocation *invocation, const char *target,
                               const char *toolchain)
{
    struct verdict verdict = { .target = target, .toolchain = toolchain };
    struct kiln_error ignored = { .code = KILN_E_OK };
    return ask_toolchains(invocation, admin_no_arguments, &verdict, &ignored) == KILN_E_OK &&
           verdict.works > 0;
}

static int check_toolchains(const struct invocation *invocation, const char *target,
                            const char *toolchain, bool *ret_doubtful, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    struct verdict verdict = { .target = target, .toolchain = toolchain };
    struct json *targets = json_array();
    json_append(targets, json_text(target));
    json_set(ask, "probe", targets);
    int rc = ask_toolchains(invocation, ask, &verdict, err);
    return rc ? rc : conclude_check(&verdict, ret_doubtful, err);
}

int prefetch_check(const struct invocation *invocation, const char *target, const char *toolchain,
                   bool *ret_doubtful, struct kiln_error *err)
{
    int rc = check_toolchains(invocation, target, toolchain, ret_doubtful, err);
    bool cannot_compile = rc == KILN_E_UNAVAILABLE || rc == KILN_E_UNSUPPORTED;
    if (!cannot_compile || toolchain || !packages_may_serve(invocation, target))
        return rc;
    *err = (struct kiln_error){ .code = KILN_E_OK };
    *ret_doubtful = false;
    return KILN_E_OK;
}

/* SPDX-License-Identifier: MIT */
#include "engine/compile/toolchain.h"
#include "common/base/json.h"

#include <stdio.h>
#include <string.h>

/* Maximum number of cached probe results. If there are more, failures are dropped first: clients
 * may request targets that do not exist, and each such target adds a failure. A host has few GPUs,
 * and therefore at most dozens of successes. */
#define PROBES_MAX 256u
#define DETAIL_LETTERS 200

struct probe {
    struct digest identity;
    char target[LIMIT_TARGET_TEXT];
    enum probe_state state;
    uint64_t learned;
    char detail[DETAIL_LETTERS];
};

struct absence {
    char name[16];
    char reason[DETAIL_LETTERS];
};

struct rows {
    struct toolchain present[TOOLCHAINS_MAX];
    size_t count;
    struct absence absent[TOOLCHAINS_MAX];
    size_t absent_count;
};

struct toolchain_table {
    struct rows rows;
    struct probe probes[PROBES_MAX];
    size_t probe_count;
    uint64_t learned;
};

static const struct known {
    const char *name;
    enum target_family family;
} order[] = {
    { "hiprtc", TARGET_AMDGPU },
    { "clang", TARGET_AMDGPU },
    { "nvrtc", TARGET_NVIDIA },
    { "opencl", TARGET_OPENCL },
};

#define KNOWN (sizeof(order) / sizeof(order[0]))

static const struct {
    const char *name;
    const char *language;
    const char *installs;
} families[] = {
    [TARGET_AMDGPU] = { "amdgpu", "HIP",
                        "install ROCm, or Debian's libamdhip64-5 or clang-19 with lld-19" },
    [TARGET_NVIDIA] = { "nvidia", "CUDA",
                        "install CUDA's NVRTC and set KILN_CUDA_PATH if it is not in "
                        "/usr/local/cuda" },
    [TARGET_OPENCL] = { "opencl", "OpenCL C",
                        "install an OpenCL driver, such as Debian's pocl-opencl-icd" },
};

#define FAMILIES (sizeof(families) / sizeof(families[0]))

const char *toolchain_language(enum target_family family) { return families[family].language; }

const char *const toolchain_known_targets[] = {
    "gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx942",  "gfx950",  "gfx1010", "gfx1030",
    "gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201", "sm_70",   "sm_75",
    "sm_80",   "sm_86",   "sm_89",   "sm_90",   "sm_90a",  "sm_100",  "sm_120",  NULL,
};

enum kiln_code toolchain_table_create(struct toolchain_table **ret_table, struct kiln_err *err)
{
    struct toolchain_table *table = calloc(1, sizeof(*table));
    if (!table)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the toolchain table");
    *ret_table = table;
    return KILN_OK;
}

void toolchain_table_destroy(struct toolchain_table *table) { free(table); }

static bool family_of(const char *name, enum target_family *ret_family)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i].name, name) == 0) {
            *ret_family = (enum target_family)i;
            return true;
        }
    }
    return false;
}

static bool name_is_fine(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < sizeof(((struct toolchain *)0)->name) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static void copy_text(char *to, size_t size, const struct json *row, const char *member)
{
    snprintf(to, size, "%s", json_get_text(row, member, ""));
    for (; *to; to++) {
        if ((unsigned char)*to < ' ')
            *to = ' ';
    }
}

static bool has_name(const struct rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->present[i].name, name) == 0)
            return true;
    }
    return false;
}

static enum kiln_code read_only_target(const struct json *row, struct toolchain *tc,
                                       struct kiln_err *err)
{
    const char *text = json_get_text(row, "only_target", "");
    if (!*text)
        return KILN_OK;
    struct target target;
    enum kiln_code rc = target_parse(bytes_of_text(text), &target, err);
    if (rc)
        return kiln_while(err, "toolchain '%s'", tc->name);
    if (target.family != tc->family)
        return kiln_fail(err, KILN_INVALID, "toolchain '%s' of family %s is only for '%s'",
                         tc->name, families[tc->family].name, target.text);
    snprintf(tc->only_target, sizeof(tc->only_target), "%s", target.text);
    return KILN_OK;
}

static enum kiln_code read_present(const struct json *row, struct rows *rows, struct kiln_err *err)
{
    struct toolchain tc = { 0 };
    const char *name = json_get_text(row, "name", "");
    if (rows->count == TOOLCHAINS_MAX)
        return kiln_fail(err, KILN_INVALID, "more than %d toolchains were listed", TOOLCHAINS_MAX);
    if (!name_is_fine(name) || has_name(rows, name))
        return kiln_fail(err, KILN_INVALID, "toolchain %zu has a bad or repeated name",
                         rows->count + 1);
    snprintf(tc.name, sizeof(tc.name), "%s", name);
    if (!family_of(json_get_text(row, "family", ""), &tc.family))
        return kiln_fail(err, KILN_INVALID, "toolchain '%s' has an unknown family", tc.name);
    if (!digest_from_hex(json_get_text(row, "identity", ""), &tc.identity))
        return kiln_fail(err, KILN_INVALID, "toolchain '%s' has no identity", tc.name);
    const char *library = json_get_text(row, "library", "");
    if (*library && !digest_from_hex(library, &tc.library))
        return kiln_fail(err, KILN_INVALID, "toolchain '%s' has a damaged library digest", tc.name);
    copy_text(tc.version, sizeof(tc.version), row, "version");
    copy_text(tc.path, sizeof(tc.path), row, "path");
    enum kiln_code rc = read_only_target(row, &tc, err);
    if (rc)
        return rc;
    rows->present[rows->count++] = tc;
    return KILN_OK;
}

static void read_absent(const struct json *list, struct rows *rows)
{
    const struct json *row = json_first(list);
    for (; row && rows->absent_count < TOOLCHAINS_MAX; row = json_next(row)) {
        struct absence *a = &rows->absent[rows->absent_count++];
        copy_text(a->name, sizeof(a->name), row, "name");
        copy_text(a->reason, sizeof(a->reason), row, "reason");
    }
}

enum kiln_code toolchain_table_describe(struct toolchain_table *table, struct bytes json,
                                        struct kiln_err *err)
{
    KILN_AUTO(json) struct json *tree = NULL;
    enum kiln_code rc = json_parse(json, "the toolchain description", &tree, err);
    if (rc)
        return rc;
    const struct json *list = json_get(tree, "toolchains");
    if (!list || !json_is_array(list))
        return kiln_fail(err, KILN_INVALID, "the toolchain description lists no 'toolchains'");
    struct rows rows = { 0 };
    for (const struct json *row = json_first(list); row; row = json_next(row)) {
        rc = read_present(row, &rows, err);
        if (rc)
            return rc;
    }
    const struct json *absent = json_get(tree, "absent");
    if (absent && json_is_array(absent))
        read_absent(absent, &rows);
    table->rows = rows;
    return KILN_OK;
}

size_t toolchain_table_count(const struct toolchain_table *table) { return table->rows.count; }

const struct toolchain *toolchain_table_at(const struct toolchain_table *table, size_t index)
{
    return index < table->rows.count ? &table->rows.present[index] : NULL;
}

const struct toolchain *toolchain_table_find(const struct toolchain_table *table, struct bytes name)
{
    for (size_t i = 0; i < table->rows.count; i++) {
        if (bytes_equal_text(name, table->rows.present[i].name))
            return &table->rows.present[i];
    }
    return NULL;
}

const struct toolchain *toolchain_table_find_library(const struct toolchain_table *table,
                                                     const struct digest *library)
{
    static const struct digest none;
    for (size_t i = 0; i < table->rows.count; i++) {
        const struct digest *here = &table->rows.present[i].library;
        if (digest_equal(here, library) && !digest_equal(here, &none))
            return &table->rows.present[i];
    }
    return NULL;
}

static size_t probe_place(const struct toolchain_table *table, const struct toolchain *tc,
                          const struct target *target)
{
    size_t i = 0;
    for (; i < table->probe_count; i++) {
        const struct probe *p = &table->probes[i];
        if (digest_equal(&p->identity, &tc->identity) && strcmp(p->target, target->text) == 0)
            break;
    }
    return i;
}

static const struct probe *find_probe(const struct toolchain_table *table,
                                      const struct toolchain *tc, const struct target *target)
{
    size_t place = probe_place(table, tc, target);
    return place < table->probe_count ? &table->probes[place] : NULL;
}

enum probe_state toolchain_probe_state(const struct toolchain_table *table,
                                       const struct toolchain *tc, const struct target *target)
{
    if (tc->family != target->family)
        return PROBE_FAILS;
    if (tc->only_target[0])
        return strcmp(tc->only_target, target->text) == 0 ? PROBE_WORKS : PROBE_FAILS;
    const struct probe *p = find_probe(table, tc, target);
    return p ? p->state : PROBE_UNKNOWN;
}

static bool is_of_now(const struct toolchain_table *table, const struct probe *p)
{
    for (size_t i = 0; i < table->rows.count; i++) {
        if (digest_equal(&table->rows.present[i].identity, &p->identity))
            return true;
    }
    return false;
}

/* Returns a rank: results with a low rank are evicted first. A result of a removed toolchain is
 * worth nothing. A failure is worth less than a success. */
static unsigned probe_worth(const struct toolchain_table *table, const struct probe *p)
{
    if (!is_of_now(table, p))
        return 0;
    return p->state == PROBE_WORKS ? 2 : 1;
}

static struct probe *least_probe(struct toolchain_table *table)
{
    struct probe *least = &table->probes[0];
    unsigned least_worth = probe_worth(table, least);
    for (size_t i = 1; i < table->probe_count; i++) {
        struct probe *p = &table->probes[i];
        unsigned its = probe_worth(table, p);
        if (its < least_worth || (its == least_worth && p->learned < least->learned)) {
            least = p;
            least_worth = its;
        }
    }
    return least;
}

static void forget_probe(struct toolchain_table *table, size_t place)
{
    if (place < table->probe_count)
        table->probes[place] = table->probes[--table->probe_count];
}

void toolchain_probe_learn(struct toolchain_table *table, const struct toolchain *tc,
                           const struct target *target, enum probe_state state, const char *detail)
{
    size_t place = probe_place(table, tc, target);
    if (state == PROBE_UNKNOWN) {
        forget_probe(table, place);
        return;
    }
    struct probe *p = place < PROBES_MAX ? &table->probes[place] : least_probe(table);
    table->probe_count += place == table->probe_count && place < PROBES_MAX;
    *p = (struct probe){ .identity = tc->identity, .state = state, .learned = ++table->learned };
    snprintf(p->target, sizeof(p->target), "%s", target->text);
    snprintf(p->detail, sizeof(p->detail), "%s", detail ? detail : "");
}

const char *toolchain_probe_detail(const struct toolchain_table *table, const struct toolchain *tc,
                                   const struct target *target)
{
    const struct probe *p = find_probe(table, tc, target);
    return p && p->state != PROBE_WORKS ? p->detail : "";
}

KILN_PRINTF(3, 4)
static void append_text(char *text, size_t size, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, size - used, fmt, args);
    va_end(args);
}

static void explain_absence(const struct toolchain_table *table, const struct target *target,
                            char *text, size_t size)
{
    const struct rows *rows = &table->rows;
    for (size_t i = 0; i < KNOWN; i++) {
        if (order[i].family != target->family)
            continue;
        const struct toolchain *tc = toolchain_table_find(table, bytes_of_text(order[i].name));
        if (tc && tc->only_target[0])
            append_text(text, size, "%s builds only for %s; ", tc->name, tc->only_target);
        else if (tc && toolchain_probe_state(table, tc, target) == PROBE_WORKS)
            append_text(text, size, "%s can; ", tc->name);
        else if (tc && toolchain_probe_state(table, tc, target) == PROBE_UNKNOWN)
            append_text(text, size, "%s was not tried; ", tc->name);
        else if (tc)
            append_text(text, size, "%s: %s; ", tc->name,
                        toolchain_probe_detail(table, tc, target));
        for (size_t a = 0; !tc && a < rows->absent_count; a++) {
            if (strcmp(rows->absent[a].name, order[i].name) == 0)
                append_text(text, size, "%s: %s; ", order[i].name, rows->absent[a].reason);
        }
    }
}

static bool is_untried(const struct toolchain_table *table, const struct target *target)
{
    for (size_t i = 0; i < table->rows.count; i++) {
        if (toolchain_probe_state(table, &table->rows.present[i], target) == PROBE_NOT_NOW)
            return true;
    }
    return false;
}

static enum kiln_code nothing_can(const struct toolchain_table *table, const struct target *target,
                                  struct kiln_err *err)
{
    char why[330] = "";
    explain_absence(table, target, why, sizeof(why));
    if (is_untried(table, target))
        return kiln_fail(
            err, KILN_UNAVAILABLE,
            "kilnd does not know yet which toolchain can compile for %s: %stry again in a moment",
            target->text, why);
    return kiln_fail(err, KILN_UNSUPPORTED, "no toolchain here can compile for %s: %s%s",
                     target->text, why, families[target->family].installs);
}

static enum kiln_code forced_cannot(const struct toolchain_table *table,
                                    const struct toolchain *forced, const struct target *target,
                                    struct kiln_err *err)
{
    char why[330] = "";
    explain_absence(table, target, why, sizeof(why));
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "toolchain '%s' cannot compile for %s: %sname no toolchain, and kilnd chooses "
                     "one",
                     forced->name, target->text, why);
}

static enum kiln_code choose_forced(const struct toolchain_table *table,
                                    const struct target *target, struct bytes forced,
                                    const struct toolchain **ret_toolchain, struct kiln_err *err)
{
    const struct toolchain *tc = toolchain_table_find(table, forced);
    int shown = forced.size > 40 ? 40 : (int)forced.size;
    if (!tc) {
        char names[TOOLCHAINS_MAX * 20] = "";
        for (size_t i = 0; i < table->rows.count; i++)
            append_text(names, sizeof(names), "%s%s", i ? ", " : "", table->rows.present[i].name);
        return kiln_fail(err, KILN_NOT_FOUND, "there is no toolchain '%.*s' here (installed: %s)",
                         shown, (const char *)forced.data, *names ? names : "none");
    }
    if (tc->family != target->family)
        return kiln_fail(err, KILN_UNSUPPORTED, "toolchain '%s' builds for %s targets, not for %s",
                         tc->name, families[tc->family].name, target->text);
    enum probe_state state = toolchain_probe_state(table, tc, target);
    if (state == PROBE_FAILS)
        return forced_cannot(table, tc, target, err);
    *ret_toolchain = tc;
    return state == PROBE_UNKNOWN ? KILN_BUSY : KILN_OK;
}

enum kiln_code toolchain_choose(const struct toolchain_table *table, const struct target *target,
                                struct bytes forced, const struct toolchain **ret_toolchain,
                                struct kiln_err *err)
{
    if (forced.size)
        return choose_forced(table, target, forced, ret_toolchain, err);
    for (size_t i = 0; i < KNOWN; i++) {
        const struct toolchain *tc = toolchain_table_find(table, bytes_of_text(order[i].name));
        if (!tc || tc->family != target->family)
            continue;
        enum probe_state state = toolchain_probe_state(table, tc, target);
        if (state == PROBE_FAILS || state == PROBE_NOT_NOW)
            continue;
        *ret_toolchain = tc;
        return state == PROBE_WORKS ? KILN_OK : KILN_BUSY;
    }
    return nothing_can(table, target, err);
}

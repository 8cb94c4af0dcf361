/* SPDX-License-Identifier: MIT */
#include "engine/compile/clang_find.h"
#include "engine/compile/program.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CANDIDATES_MAX 32
#define NEWEST 40u
#define OLDEST 15u /* the first clang that knows gfx90a, gfx940 and code object version 5 */
#define OUTPUT_MAX (64u << 10)

struct candidate {
    char path[CLANG_PATH_MAX];
    unsigned major;
};

struct candidates {
    struct candidate items[CANDIDATES_MAX];
    size_t count;
};

void clang_linker(const char *path, char linker[CLANG_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int directory = slash ? (int)(slash - path) : 0;
    snprintf(linker, CLANG_PATH_MAX, "%.*s/ld.lld", directory, path);
}

enum kiln_code clang_version(const char *path, char *text, size_t size, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer output;
    buffer_init(&output, OUTPUT_MAX);
    const char *const argv[] = { path, "--version", NULL };
    enum kiln_code rc = program_read(argv, NULL, &output, err);
    if (rc)
        return rc;
    const void *end = memchr(output.data, '\n', output.size);
    size_t length = end ? (size_t)((const uint8_t *)end - output.data) : output.size;
    snprintf(text, size, "%.*s", (int)length, (const char *)output.data);
    return KILN_OK;
}

static unsigned major_of(const char *path)
{
    const char *debian = strstr(path, "/llvm-");
    if (debian)
        return (unsigned)strtoul(debian + strlen("/llvm-"), NULL, 10);
    char text[200];
    struct kiln_err ignored = KILN_ERR_INIT;
    if (clang_version(path, text, sizeof(text), &ignored))
        return 0;
    const char *number = strstr(text, "version ");
    return number ? (unsigned)strtoul(number + strlen("version "), NULL, 10) : 0;
}

static void consider_path(struct candidates *found, const char *path)
{
    char real[PATH_MAX], linker[CLANG_PATH_MAX];
    if (found->count == CANDIDATES_MAX || !realpath(path, real) || strlen(real) >= CLANG_PATH_MAX ||
        access(real, X_OK) != 0)
        return;
    for (size_t i = 0; i < found->count; i++) {
        if (strcmp(found->items[i].path, real) == 0)
            return;
    }
    clang_linker(real, linker);
    if (access(linker, X_OK) != 0)
        return;
    struct candidate *c = &found->items[found->count];
    strcpy(c->path, real);
    c->major = major_of(real);
    if (c->major >= OLDEST)
        found->count++;
}

static void look_in_path(struct candidates *found)
{
    const char *path = getenv("PATH");
    char *directories = strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    char file[PATH_MAX], *rest = NULL;
    if (!directories)
        return;
    for (char *f = strtok_r(directories, ":", &rest); f; f = strtok_r(NULL, ":", &rest)) {
        for (unsigned number = NEWEST; number >= OLDEST; number--) {
            snprintf(file, sizeof(file), "%s/clang-%u", f, number);
            consider_path(found, file);
        }
        snprintf(file, sizeof(file), "%s/clang", f);
        consider_path(found, file);
    }
    free(directories);
}

static void look_in_usual_places(struct candidates *found)
{
    char file[PATH_MAX];
    const char *rocm = getenv("KILN_ROCM_PATH");
    snprintf(file, sizeof(file), "%s/llvm/bin/clang", rocm ? rocm : "/opt/rocm");
    consider_path(found, file);
    glob_t matches;
    if (glob("/usr/lib/llvm-*/bin/clang", 0, NULL, &matches) != 0)
        return;
    for (size_t i = 0; i < matches.gl_pathc; i++)
        consider_path(found, matches.gl_pathv[i]);
    globfree(&matches);
}

static int newest_first(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    return strcmp(a->path, b->path);
}

static bool knows_amdgcn(const char *path)
{
    BUFFER_AUTO struct buffer output;
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_init(&output, OUTPUT_MAX);
    const char *const argv[] = { path, "--print-targets", NULL };
    return program_read(argv, NULL, &output, &ignored) == KILN_OK && output.size &&
           memmem(output.data, output.size, "amdgcn", strlen("amdgcn"));
}

enum kiln_code clang_find(char path[CLANG_PATH_MAX], struct kiln_err *err)
{
    struct candidates found = { .count = 0 };
    look_in_path(&found);
    look_in_usual_places(&found);
    qsort(found.items, found.count, sizeof(found.items[0]), newest_first);
    for (size_t i = 0; i < found.count; i++) {
        if (knows_amdgcn(found.items[i].path)) {
            strcpy(path, found.items[i].path);
            return KILN_OK;
        }
    }
    return kiln_fail(
        err, KILN_UNAVAILABLE,
        "no clang of version %u or later with the AMDGPU target and an ld.lld next to "
        "it is in PATH, /usr/lib/llvm-* or ROCm's llvm directory; install clang-19 and "
        "lld-19, or set KILN_ROCM_PATH",
        OLDEST);
}

/* SPDX-License-Identifier: MIT */
#include "engine/compile/clang_find.h"
#include "engine/compile/program.h"

#include <errno.h>
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

/* Sets |ret_major| to 0 if the program fails or does not state its version. */
static enum kiln_code major_of(const char *path, unsigned *ret_major, struct kiln_err *err)
{
    const char *debian = strstr(path, "/llvm-");
    char text[200] = "";
    *ret_major = debian ? (unsigned)strtoul(debian + strlen("/llvm-"), NULL, 10) : 0;
    if (debian)
        return KILN_OK;
    enum kiln_code rc = clang_version(path, text, sizeof(text), err);
    if (rc)
        return rc == KILN_UNAVAILABLE ? KILN_OK : rc;
    const char *number = strstr(text, "version ");
    if (number)
        *ret_major = (unsigned)strtoul(number + strlen("version "), NULL, 10);
    return KILN_OK;
}

static bool is_known(const struct candidates *found, const char *path)
{
    for (size_t i = 0; i < found->count; i++) {
        if (strcmp(found->items[i].path, path) == 0)
            return true;
    }
    return false;
}

static enum kiln_code consider_path(struct candidates *found, const char *path,
                                    struct kiln_err *err)
{
    char real[PATH_MAX], linker[CLANG_PATH_MAX];
    if (found->count == CANDIDATES_MAX)
        return KILN_OK;
    if (!realpath(path, real))
        return errno == ENOMEM ? kiln_fail_errno(err, errno, "cannot look for clang") : KILN_OK;
    if (strlen(real) >= CLANG_PATH_MAX || access(real, X_OK) != 0 || is_known(found, real))
        return KILN_OK;
    clang_linker(real, linker);
    if (access(linker, X_OK) != 0)
        return KILN_OK;
    struct candidate *c = &found->items[found->count];
    strcpy(c->path, real);
    enum kiln_code rc = major_of(real, &c->major, err);
    if (!rc && c->major >= OLDEST)
        found->count++;
    return rc;
}

static enum kiln_code look_in_directory(struct candidates *found, const char *directory,
                                        struct kiln_err *err)
{
    char file[PATH_MAX];
    enum kiln_code rc = KILN_OK;
    for (unsigned number = NEWEST; number >= OLDEST && !rc; number--) {
        snprintf(file, sizeof(file), "%s/clang-%u", directory, number);
        rc = consider_path(found, file, err);
    }
    if (rc)
        return rc;
    snprintf(file, sizeof(file), "%s/clang", directory);
    return consider_path(found, file, err);
}

static enum kiln_code look_in_path(struct candidates *found, struct kiln_err *err)
{
    const char *path = getenv("PATH");
    KILN_AUTO(mem) char *directories = strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    char *rest = NULL;
    enum kiln_code rc = KILN_OK;
    if (!directories)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to look for clang");
    for (char *f = strtok_r(directories, ":", &rest); f && !rc; f = strtok_r(NULL, ":", &rest))
        rc = look_in_directory(found, f, err);
    return rc;
}

/* For glob(3). */
static int is_failure(const char *path, int errnum)
{
    (void)path;
    return errnum != ENOENT && errnum != EACCES;
}

static enum kiln_code look_in_usual_places(struct candidates *found, struct kiln_err *err)
{
    char file[PATH_MAX];
    const char *rocm = getenv("KILN_ROCM_PATH");
    snprintf(file, sizeof(file), "%s/llvm/bin/clang", rocm ? rocm : "/opt/rocm");
    enum kiln_code rc = consider_path(found, file, err);
    if (rc)
        return rc;
    glob_t matches = { 0 };
    int failure = glob("/usr/lib/llvm-*/bin/clang", 0, is_failure, &matches);
    if (failure == GLOB_NOSPACE)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to look for clang");
    else if (failure == GLOB_ABORTED)
        rc = kiln_fail(err, KILN_IO, "cannot look for clang in /usr/lib");
    for (size_t i = 0; !failure && !rc && i < matches.gl_pathc; i++)
        rc = consider_path(found, matches.gl_pathv[i], err);
    globfree(&matches);
    return rc;
}

static int newest_first(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* Returns KILN_UNAVAILABLE if the program fails or does not know this target. */
static enum kiln_code check_amdgcn(const char *path, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer output;
    buffer_init(&output, OUTPUT_MAX);
    const char *const argv[] = { path, "--print-targets", NULL };
    enum kiln_code rc = program_read(argv, NULL, &output, err);
    if (rc)
        return rc;
    return output.size && memmem(output.data, output.size, "amdgcn", strlen("amdgcn"))
               ? KILN_OK
               : KILN_UNAVAILABLE;
}

enum kiln_code clang_find(char path[CLANG_PATH_MAX], struct kiln_err *err)
{
    struct candidates found = { .count = 0 };
    enum kiln_code rc = look_in_path(&found, err);
    if (!rc)
        rc = look_in_usual_places(&found, err);
    if (rc)
        return rc;
    qsort(found.items, found.count, sizeof(found.items[0]), newest_first);
    for (size_t i = 0; i < found.count; i++) {
        rc = check_amdgcn(found.items[i].path, err);
        if (!rc)
            strcpy(path, found.items[i].path);
        if (rc != KILN_UNAVAILABLE)
            return rc;
    }
    return kiln_fail(
        err, KILN_UNAVAILABLE,
        "no clang of version %u or later with the AMDGPU target and an ld.lld next to "
        "it is in PATH, /usr/lib/llvm-* or ROCm's llvm directory; install clang-19 and "
        "lld-19, or set KILN_ROCM_PATH",
        OLDEST);
}

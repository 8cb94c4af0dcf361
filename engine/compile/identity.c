/* SPDX-License-Identifier: MIT */
#include "engine/compile/identity.h"
#include "engine/compile/elf_image.h"
#include "engine/compile/program.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LIBRARIES_MAX 16
#define PATH_LENGTH_MAX 512
#define TRACE_MAX (64u << 10)

void identity_init(struct identity *id, const char *toolchain, const char *version)
{
    id->files = 0;
    sha256_init(&id->sum);
    sha256_put_sized(&id->sum, bytes_of_text("kiln-toolchain-1"));
    sha256_put_sized(&id->sum, bytes_of_text(toolchain));
    sha256_put_sized(&id->sum, bytes_of_text(version));
}

struct digest identity_end(struct identity *id) { return sha256_end(&id->sum); }

static void put_content(struct identity *id, struct bytes content)
{
    struct elf_image image;
    struct bytes build_id = bytes_of(NULL, 0);
    if (elf_image_open(content, &image))
        build_id = elf_build_id(&image);
    if (build_id.size) {
        sha256_put_sized(&id->sum, build_id);
    } else {
        struct digest whole = sha256_of(content);
        sha256_put_sized(&id->sum, bytes_of(whole.bytes, sizeof(whole.bytes)));
    }
    id->files++;
}

static enum kiln_code map_file(const char *path, struct bytes *ret_content, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read '%s' to identify it", path);
    void *mapped = mmap(NULL, (size_t)seen.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map '%s' to identify it", path);
    *ret_content = bytes_of(mapped, (size_t)seen.st_size);
    return KILN_OK;
}

enum kiln_code identity_put_file(struct identity *id, const char *path, struct kiln_err *err)
{
    struct bytes content;
    enum kiln_code rc = map_file(path, &content, err);
    if (rc)
        return rc;
    put_content(id, content);
    munmap((void *)(uintptr_t)content.data, content.size);
    return KILN_OK;
}

static bool put_build_id(struct sha256 *sum, const char *path)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct bytes content, id = { 0 };
    struct elf_image image;
    if (map_file(path, &content, &ignored))
        return false;
    if (elf_image_open(content, &image))
        id = elf_build_id(&image);
    sha256_put_sized(sum, id);
    munmap((void *)(uintptr_t)content.data, content.size);
    return id.size > 0;
}

struct paths {
    const char *const *prefixes;
    char items[LIBRARIES_MAX][PATH_LENGTH_MAX];
    size_t count;
};

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void note_path(struct paths *paths, const char *path)
{
    for (const char *const *prefix = paths->prefixes; *prefix; prefix++) {
        if (strncmp(file_name(path), *prefix, strlen(*prefix)) != 0)
            continue;
        if (paths->count < LIBRARIES_MAX && strlen(path) < PATH_LENGTH_MAX)
            strcpy(paths->items[paths->count++], path);
        return;
    }
}

static int on_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    note_path(context, info->dlpi_name);
    return 0;
}

static int by_file_name(const void *left, const void *right)
{
    return strcmp(file_name(left), file_name(right));
}

static enum kiln_code put_paths(struct identity *id, struct paths *paths, struct kiln_err *err)
{
    qsort(paths->items, paths->count, sizeof(paths->items[0]), by_file_name);
    for (size_t i = 0; i < paths->count; i++) {
        enum kiln_code rc = identity_put_file(id, paths->items[i], err);
        if (rc)
            return rc;
    }
    return KILN_OK;
}

enum kiln_code identity_put_loaded(struct identity *id, const char *const *prefixes,
                                   struct kiln_err *err)
{
    struct paths paths = { .prefixes = prefixes };
    dl_iterate_phdr(on_loaded, &paths);
    return put_paths(id, &paths, err);
}

enum kiln_code identity_put_needed(struct identity *id, const char *path,
                                   const char *const *prefixes, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer trace;
    buffer_init(&trace, TRACE_MAX);
    /* With this variable, the dynamic linker prints "name => path (address)" for each library, and
     * does not start the program. */
    const char *const argv[] = { path, "--version", NULL };
    enum kiln_code rc = program_read(argv, "LD_TRACE_LOADED_OBJECTS=1", &trace, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) char *text = bytes_to_text(buffer_view(&trace));
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot list the libraries of '%s'", path);
    struct paths paths = { .prefixes = prefixes };
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *file = strstr(line, "=> /");
        if (!file)
            continue;
        file += strlen("=> ");
        file[strcspn(file, " ")] = '\0';
        note_path(&paths, file);
    }
    return put_paths(id, &paths, err);
}

static bool put_build_ids(struct sha256 *sum, const char *part, size_t *count)
{
    struct paths paths = { .prefixes = (const char *const[]){ part, NULL } };
    bool have_all = true;
    dl_iterate_phdr(on_loaded, &paths);
    for (size_t i = 0; i < paths.count; i++)
        have_all = put_build_id(sum, paths.items[i]) && have_all;
    *count += paths.count;
    return have_all;
}

struct digest identity_of_build_ids(const char *path, const char *const *parts)
{
    struct sha256 sum;
    size_t count = 0;
    sha256_init(&sum);
    bool have_all = put_build_id(&sum, path);
    for (; *parts; parts++)
        have_all = put_build_ids(&sum, *parts, &count) && have_all;
    struct digest digest = sha256_end(&sum);
    return have_all && count ? digest : (struct digest){ .bytes = { 0 } };
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/overlay_manifest.h"

#include "cli/kilnctl/new_file.h"
#include "common/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LAYOUT 1u
#define FILES_MAX 256u
#define DIGEST_DIGITS 16u
#define MANIFEST_BYTES_MAX (64u << 20)

int overlay_path(const char *directory, const char *name, char *path, size_t size,
                 struct kiln_error *err)
{
    int length = snprintf(path, size, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= size)
        return cli_fail(err, KILN_E_INVALID, "the path '%.200s...' is too long", directory);
    return KILN_E_OK;
}

int overlay_lock(const char *directory, int *ret_fd, struct kiln_error *err)
{
    int locked = -1;
    KILN_AUTO(fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return cli_fail(err, KILN_E_NOT_FOUND, "there is no directory '%s'", directory);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot open the directory '%s'", directory);
    do
        locked = flock(fd, LOCK_EX);
    while (locked != 0 && errno == EINTR);
    if (locked != 0)
        return cli_fail_errno(err, errno, "cannot lock the directory '%s'", directory);
    *ret_fd = fd;
    fd = -1;
    return KILN_E_OK;
}

void overlay_manifest_done(struct overlay_manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        overlay_lines_done(&manifest->files[i].lines);
    free(manifest->files);
    *manifest = (struct overlay_manifest){ .count = 0 };
}

struct overlay_file *overlay_manifest_find(struct overlay_manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    return NULL;
}

static int add_file(struct overlay_manifest *manifest, const char *name,
                    struct overlay_file **ret_file, struct kiln_error *err)
{
    if (manifest->count >= FILES_MAX || strlen(name) >= sizeof(manifest->files->name))
        return cli_fail(err, KILN_E_FULL, "an overlay has at most %u files, with short names",
                        FILES_MAX);
    struct overlay_file *grown = realloc(manifest->files, (manifest->count + 1) * sizeof(*grown));
    if (!grown)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the files of an overlay");
    manifest->files = grown;
    struct overlay_file *file = &grown[manifest->count++];
    *file = (struct overlay_file){ .fingerprint = { .is_fresh = true } };
    snprintf(file->name, sizeof(file->name), "%s", name);
    *ret_file = file;
    return KILN_E_OK;
}

int overlay_manifest_get(struct overlay_manifest *manifest, const char *name,
                         struct overlay_file **ret_file, struct kiln_error *err)
{
    *ret_file = overlay_manifest_find(manifest, name);
    return *ret_file ? KILN_E_OK : add_file(manifest, name, ret_file, err);
}

mode_t overlay_file_mode(bool is_shared) { return is_shared ? 0 : 0600; }

/* Parses the digests of a file's lines. The manifest stores these digests as one long string,
 * because a JSON array would take ten times the memory. */
static int parse_lines(const char *digits, struct overlay_lines *lines, struct kiln_error *err)
{
    size_t size = strlen(digits);
    char digest[DIGEST_DIGITS + 1] = "";
    int rc = KILN_E_OK;
    if (size % DIGEST_DIGITS != 0 || strspn(digits, "0123456789abcdef") != size)
        return cli_fail(err, KILN_E_CORRUPT, "its lines are not digests");
    for (size_t at = 0; at < size && !rc; at += DIGEST_DIGITS) {
        memcpy(digest, digits + at, DIGEST_DIGITS);
        rc = overlay_lines_add(lines, strtoull(digest, NULL, 16), err);
    }
    overlay_lines_sort(lines);
    return rc;
}

static int parse_file(const struct json *json, struct overlay_manifest *manifest,
                      struct kiln_error *err)
{
    struct overlay_file *file = NULL;
    const char *name = json_get_text(json, "name", "");
    if (!*name || overlay_manifest_find(manifest, name))
        return cli_fail(err, KILN_E_CORRUPT, "it has a file without a name or names one twice");
    int rc = add_file(manifest, name, &file, err);
    if (rc)
        return rc;
    file->fingerprint = overlay_fingerprint_get(json);
    return parse_lines(json_get_text(json, "lines", ""), &file->lines, err);
}

static int parse_manifest(const char *path, struct bytes text, struct overlay_manifest *manifest,
                          struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *json = NULL;
    int rc = KILN_E_OK;
    if (json_parse(text, path, &json, &why))
        return cli_fail_json(err, &why);
    if (json_get_u64(json, "layout", 0) != LAYOUT)
        return cli_fail(err, KILN_E_CORRUPT,
                        "'%s' was written by another version of kilnctl: create the overlay again",
                        path);
    snprintf(manifest->version, sizeof(manifest->version), "%s", json_get_text(json, "miopen", ""));
    manifest->is_shared = json_get_bool(json, "shared", false);
    const struct json *files = json_get(json, "files");
    for (const struct json *j = json_first(files); j && !rc; j = json_next(j))
        rc = parse_file(j, manifest, err);
    return rc ? cli_while(err, "'%s' is damaged", path) : KILN_E_OK;
}

int overlay_manifest_read(const char *directory, struct overlay_manifest *ret_manifest,
                          struct kiln_error *err)
{
    char path[PATH_MAX];
    BUFFER_AUTO struct buffer text = { .size = 0 };
    OVERLAY_MANIFEST_AUTO struct overlay_manifest manifest = { .count = 0 };
    int rc = overlay_path(directory, OVERLAY_MANIFEST, path, sizeof(path), err);
    if (!rc)
        rc = overlay_text_read(path, MANIFEST_BYTES_MAX, &text, err);
    if (!rc)
        rc = parse_manifest(path, buffer_view(&text), &manifest, err);
    if (rc)
        return rc;
    *ret_manifest = manifest;
    manifest = (struct overlay_manifest){ .count = 0 };
    return KILN_E_OK;
}

static char *print_lines(const struct overlay_lines *lines)
{
    char *digits = malloc(lines->count * DIGEST_DIGITS + 1);
    for (size_t i = 0; digits && i < lines->count; i++)
        snprintf(digits + i * DIGEST_DIGITS, DIGEST_DIGITS + 1, "%016llx",
                 (unsigned long long)lines->digests[i]);
    if (digits && lines->count == 0)
        *digits = '\0';
    return digits;
}

static struct json *file_json(const struct overlay_file *file)
{
    KILN_AUTO(mem) char *digits = print_lines(&file->lines);
    struct json *json = json_object();
    json_set_text(json, "name", file->name);
    overlay_fingerprint_set(json, &file->fingerprint);
    if (file->lines.count > 0)
        json_set_text(json, "lines", digits);
    return json;
}

int overlay_manifest_write(const char *directory, const struct overlay_manifest *manifest,
                           struct kiln_error *err)
{
    char path[PATH_MAX];
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "layout", LAYOUT);
    json_set_text(json, "miopen", manifest->version);
    if (manifest->is_shared)
        json_set_bool(json, "shared", true);
    struct json *files = json_set_array(json, "files");
    for (size_t i = 0; i < manifest->count; i++)
        json_append(files, file_json(&manifest->files[i]));
    KILN_AUTO(mem) char *text = json_print(json, false);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the manifest of an overlay");
    int rc = overlay_path(directory, OVERLAY_MANIFEST, path, sizeof(path), err);
    const struct new_file file = { .path = path,
                                   .replace = true,
                                   .mode = overlay_file_mode(manifest->is_shared),
                                   .from = -1,
                                   .data = text,
                                   .size = strlen(text) };
    return rc ? rc : new_file_write(&file, err);
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/sign.h"

#include "cli/kilnctl/new_file.h"
#include "common/base/json.h"
#include "common/base/units.h"
#include "engine/codec/bzip2.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A kiln_code has the same number as its KILN_E_ code (common/base/err_codes.def). */
static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

#define PUBLIC_FORMAT "kiln-public-key-1"
#define KEY_MAX 4096

/* Returns whether |key_file| is a public key. Users easily confuse the public key with the secret
 * key, which is in the same directory. */
static bool is_public_key(const char *key_file)
{
    KILN_AUTO(fd) int fd = open(key_file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    KILN_AUTO(json) struct json *json = NULL;
    struct kiln_err unused = KILN_ERR_INIT;
    char text[KEY_MAX];
    ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
    if (got < 0 || json_parse(bytes_of(text, (size_t)got), "a key", &json, &unused))
        return false;
    return strcmp(json_get_text(json, "format", ""), PUBLIC_FORMAT) == 0;
}

/* Returns the time in SOURCE_DATE_EPOCH (set for reproducible builds) or, if that is not set, the
 * current time. */
static uint64_t time_of_signing(void)
{
    uint64_t seconds;
    bool is_fixed = units_parse_number(getenv("SOURCE_DATE_EPOCH"), UINT64_MAX, &seconds);
    return is_fixed ? seconds : (uint64_t)time(NULL);
}

static int sign_entry(const char *key_file, const struct manifest_entry *entry, uint64_t version,
                      char **ret_text, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer manifest;
    const struct manifest_content content = {
        .entries = entry, .count = 1, .edition = { .version = version, .time = time_of_signing() }
    };
    buffer_init(&manifest, MANIFEST_MAX);
    if (manifest_sign(key_file, &content, &manifest, &why)) {
        if (is_public_key(key_file))
            return cli_fail(err, KILN_E_INVALID,
                            "'%s' is a public key, which can only check signatures: sign with the "
                            "secret key, NAME.key",
                            key_file);
        return fail_as(err, &why);
    }
    *ret_text = bytes_to_text(buffer_view(&manifest));
    return *ret_text ? KILN_E_OK : cli_fail(err, KILN_E_NO_MEMORY, "out of memory for a manifest");
}

int sign_manifest(const char *key_file, const struct sign_file *file, char **ret_text,
                  struct kiln_error *err)
{
    struct manifest_entry entry = { .name = file->name, .is_packed = bzip2_is_packed(file->fd) };
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = sha256_of_file(file->fd, &entry.sha256, &entry.size, &why);
    if (!rc && entry.is_packed)
        rc = bzip2_digest_file(file->fd, &entry.unpacked_sha256, &entry.unpacked_size, &why);
    if (rc)
        return cli_fail(err, why.code, "checking '%s': %s", file->name, why.text);
    return sign_entry(key_file, &entry, file->version, ret_text, err);
}

int sign_check_key(const char *key_file, struct kiln_error *err)
{
    const struct manifest_entry entry = { .name = "try" };
    KILN_AUTO(mem) char *unused = NULL;
    return sign_entry(key_file, &entry, 0, &unused, err);
}

int sign_write_manifest(const char *path, const char *manifest, struct kiln_error *err)
{
    char manifest_path[PATH_MAX];
    int size = snprintf(manifest_path, sizeof(manifest_path), "%s" SIGN_SUFFIX, path);
    if (size < 0 || (size_t)size >= sizeof(manifest_path))
        return cli_fail(err, KILN_E_INVALID, "the path '%s' is too long", path);
    const struct new_file file = { .path = manifest_path,
                                   .replace = true,
                                   .from = -1,
                                   .data = manifest,
                                   .size = strlen(manifest) };
    return new_file_write(&file, err);
}

int sign_make_key(const char *directory, const char *name, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = manifest_keygen(directory, name, &why);
    if (rc == KILN_BUSY) /* not KILN_E_BUSY, because waiting does not help: the key exists */
        return cli_fail(err, KILN_E_IO, "%s: choose another name, or --directory", why.text);
    return rc ? fail_as(err, &why) : KILN_E_OK;
}

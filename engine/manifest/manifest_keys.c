/* SPDX-License-Identifier: MIT */
#include "engine/manifest/manifest_keys.h"

#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/json.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TRUSTED_KEYS_MAX 256

void key_id_of(const uint8_t pub[ED25519_KEY_SIZE], char id[KEY_ID_SIZE])
{
    struct digest digest = sha256_of(bytes_of(pub, ED25519_KEY_SIZE));
    hex_write(digest.bytes, (KEY_ID_SIZE - 1) / 2, id);
}

bool key_name_is_fine(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return size > 0 && size < KEY_NAME_MAX && name[size] == '\0' && name[0] != '.' &&
           name[0] != '-';
}

static enum kiln_code parse_key_file(struct bytes text, const char *format, struct json **ret_file,
                                     struct kiln_err *err)
{
    KILN_AUTO(json) struct json *file = NULL;
    enum kiln_code rc = json_parse(text, "a key file", &file, err);
    if (rc)
        return rc;
    if (strcmp(json_get_text(file, "format", ""), format) != 0)
        return kiln_fail(err, KILN_INVALID, "it is not a key of the format '%s'", format);
    if (!key_name_is_fine(json_get_text(file, "name", "")))
        return kiln_fail(err, KILN_INVALID, "it does not name its key");
    *ret_file = KILN_TAKE(file);
    return KILN_OK;
}

/* Reads the members "targets" and "index". A host's administrator adds them; manifest_keygen does
 * not write them. */
static enum kiln_code read_fleet_members(const struct json *file, struct public_key *key,
                                         struct kiln_err *err)
{
    const char *targets = json_get_text(file, "targets", "");
    if (strlen(targets) >= sizeof(key->targets))
        return kiln_fail(err, KILN_INVALID, "its targets have more than %zu characters",
                         sizeof(key->targets) - 1);
    snprintf(key->targets, sizeof(key->targets), "%s", targets);
    key->signs_index = json_get_bool(file, "index", false);
    return KILN_OK;
}

static enum kiln_code read_public(const char *path, struct public_key *ret_key,
                                  struct kiln_err *err)
{
    struct stat seen;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, KEY_FILE_MAX);
    if (stat(path, &seen) != 0 || !S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a regular file", path);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    KILN_AUTO(json) struct json *file = NULL;
    enum kiln_code rc = fs_read_fd(fd, KEY_FILE_MAX, &text, err);
    if (!rc)
        rc = parse_key_file(buffer_view(&text), KEY_FORMAT_PUBLIC, &file, err);
    if (rc)
        return rc;
    struct public_key key;
    if (!hex_read(json_get_text(file, "key", ""), key.key, sizeof(key.key)))
        return kiln_fail(err, KILN_INVALID, "its key does not have %d hexadecimal digits",
                         2 * ED25519_KEY_SIZE);
    key_id_of(key.key, key.id);
    if (strcmp(json_get_text(file, "key_id", ""), key.id) != 0)
        return kiln_fail(err, KILN_INVALID, "its key_id is not that of its key");
    snprintf(key.name, sizeof(key.name), "%s", json_get_text(file, "name", ""));
    rc = read_fleet_members(file, &key, err);
    if (!rc)
        *ret_key = key;
    return rc;
}

int key_file_is_public(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return entry->d_name[0] != '.' && size > 4 && strcmp(entry->d_name + size - 4, ".pub") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

struct visit {
    const char *directory;
    bool (*each)(void *context, const struct public_key *key);
    void *context;
    bool is_over;
    struct trusted_keys keys;
};

/* Fails only if a later attempt may succeed: if memory or descriptors run out, or the disk fails.
 * Any other file without a valid key is counted as bad. */
static enum kiln_code visit_key_file(struct visit *v, const char *name, struct kiln_err *err)
{
    char path[4096];
    struct public_key key;
    struct kiln_err why = KILN_ERR_INIT;
    int size = snprintf(path, sizeof(path), "%s/%s", v->directory, name);
    enum kiln_code rc = KILN_INVALID;
    if (size > 0 && (size_t)size < sizeof(path))
        rc = read_public(path, &key, &why);
    if (rc == KILN_NO_MEMORY || rc == KILN_IO)
        return kiln_fail(err, rc, "cannot read the trusted key '%s': %s", path, why.text);
    if (!rc) {
        v->keys.good++;
        v->is_over = !v->each(v->context, &key);
    } else if (v->keys.bad++ == 0) {
        snprintf(v->keys.first_bad, sizeof(v->keys.first_bad), "%s", name);
    }
    return KILN_OK;
}

enum kiln_code keys_each(const char *directory,
                         bool (*each)(void *context, const struct public_key *key), void *context,
                         struct trusted_keys *ret_keys, struct kiln_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, key_file_is_public, by_name);
    if (count < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot read the trusted keys in '%s'", directory);
    struct visit visit = { .directory = directory, .each = each, .context = context };
    enum kiln_code rc = KILN_OK;
    for (int i = 0; i < count; i++) {
        if (!rc && !visit.is_over && i < TRUSTED_KEYS_MAX)
            rc = visit_key_file(&visit, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    *ret_keys = visit.keys;
    return rc;
}

/* Returns whether systemd has passed the file to this service (LoadCredential=). Only the service
 * can read such a file, but systemd may grant that access by an access control list. The group bits
 * of the file's mode then show the list's mask, not the rights of a group. */
static bool is_credential(const char *path)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    size_t size = directory ? strlen(directory) : 0;
    return size > 0 && strncmp(path, directory, size) == 0 && path[size] == '/' &&
           !strstr(path + size, "/..");
}

static enum kiln_code check_private(const char *path, int fd, struct kiln_err *err)
{
    mode_t others = is_credential(path) ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot examine it");
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "it is not a regular file");
    if (seen.st_mode & others)
        return kiln_fail(
            err, KILN_DENIED,
            "other users can read or write it: if they never did, chmod 600 it; otherwise "
            "make a new key with kilnctl pkg keygen");
    return KILN_OK;
}

enum kiln_code keys_read_secret(const char *path, uint8_t secret[ED25519_KEY_SIZE],
                                struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open the secret key '%s'", path);
    struct buffer text;
    buffer_init(&text, KEY_FILE_MAX);
    KILN_AUTO(json) struct json *file = NULL;
    enum kiln_code rc = check_private(path, fd, err);
    if (!rc)
        rc = fs_read_fd(fd, KEY_FILE_MAX, &text, err);
    if (!rc)
        rc = parse_key_file(buffer_view(&text), KEY_FORMAT_SECRET, &file, err);
    if (text.data)
        explicit_bzero(text.data, text.capacity);
    buffer_done(&text);
    if (!rc && !hex_read(json_get_text(file, "secret", ""), secret, ED25519_KEY_SIZE))
        rc = kiln_fail(err, KILN_INVALID, "its secret does not have %d hexadecimal digits",
                       2 * ED25519_KEY_SIZE);
    return rc ? kiln_while(err, "using the secret key '%s'", path) : KILN_OK;
}

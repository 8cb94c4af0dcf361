/* SPDX-License-Identifier: MIT */
#include "engine/manifest/manifest_keys.h"

#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/json.h"
#include "common/base/whole_file.h"

#include <stdio.h>
#include <string.h>

static enum kiln_code write_key(const char *directory, const char *file_name, struct json *key,
                                bool secret, struct kiln_err *err)
{
    KILN_AUTO(mem) char *text = json_print(key, /* indent= */ true);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot write '%s': out of memory", file_name);
    struct whole_file file = { .directory = directory,
                               .name = file_name,
                               .content = bytes_of_text(text),
                               .mode = secret ? 0600 : 0644 };
    enum kiln_code rc = whole_file_write(&file, err);
    explicit_bzero(text, strlen(text));
    return rc;
}

static struct json *key_to_json(const char *format, const char *name, const char *member,
                                const uint8_t key[ED25519_KEY_SIZE], const char *id)
{
    struct json *json = json_object();
    char hex[2 * ED25519_KEY_SIZE + 1];
    hex_write(key, ED25519_KEY_SIZE, hex);
    json_set_text(json, "format", format);
    json_set_text(json, "name", name);
    json_set_text(json, "key_id", id);
    json_set_text(json, member, hex);
    explicit_bzero(hex, sizeof(hex));
    return json;
}

/* Writes the secret key first.  A public key without its secret key could be installed as trusted,
 * but nothing could be signed with it. */
static enum kiln_code write_both(const char *directory, const char *name,
                                 const uint8_t secret[ED25519_KEY_SIZE], struct kiln_err *err)
{
    uint8_t pub[ED25519_KEY_SIZE];
    char id[KEY_ID_SIZE], secret_name[KEY_NAME_MAX + 8], public_name[KEY_NAME_MAX + 8];
    ed25519_public_of(secret, pub);
    key_id_of(pub, id);
    snprintf(secret_name, sizeof(secret_name), "%s.key", name);
    snprintf(public_name, sizeof(public_name), "%s.pub", name);
    char path[4096];
    int size = snprintf(path, sizeof(path), "%s/%s", directory, public_name);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "the directory's path is too long");
    if (access(path, F_OK) == 0)
        return kiln_fail(err, KILN_BUSY, "'%s' exists already", path);

    KILN_AUTO(json)
    struct json *hidden = key_to_json(KEY_FORMAT_SECRET, name, "secret", secret, id);
    KILN_AUTO(json) struct json *open = key_to_json(KEY_FORMAT_PUBLIC, name, "key", pub, id);
    enum kiln_code rc = write_key(directory, secret_name, hidden, /* secret= */ true, err);
    if (rc)
        return rc;
    rc = write_key(directory, public_name, open, /* secret= */ false, err);
    if (rc && snprintf(path, sizeof(path), "%s/%s", directory, secret_name) < (int)sizeof(path))
        unlink(path); /* a secret key alone would make the next attempt fail */
    return rc;
}

enum kiln_code manifest_keygen(const char *directory, const char *name, struct kiln_err *err)
{
    if (!key_name_is_fine(name))
        return kiln_fail(err, KILN_INVALID,
                         "'%.80s' is not a valid name for a key: use 1 to %d letters, digits and "
                         ". _ -, not starting with '.' or '-'",
                         name, KEY_NAME_MAX - 1);
    enum kiln_code rc = fs_make_directories(directory, err);
    uint8_t secret[ED25519_KEY_SIZE];
    if (!rc)
        rc = ed25519_generate(secret, err);
    if (!rc)
        rc = write_both(directory, name, secret, err);
    explicit_bzero(secret, sizeof(secret));
    return rc ? kiln_while(err, "making the key '%s'", name) : KILN_OK;
}

/* SPDX-License-Identifier: MIT */
#include "engine/manifest/manifest.h"

#include "common/base/hex.h"
#include "common/base/json.h"
#include "engine/manifest/manifest_keys.h"

#include <stdio.h>
#include <string.h>

#define FORMAT "kiln-manifest-1"
#define FILES_MAX 4096
#define FILE_NAME_MAX 255
#define PACKED_SUFFIX ".bz2"

static bool file_name_is_fine(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= FILE_NAME_MAX && name[0] != '.' && !strchr(name, '/');
}

int manifest_edition_compare(const struct manifest_edition *a, const struct manifest_edition *b)
{
    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    return a->time < b->time ? -1 : a->time > b->time;
}

struct statement {
    struct json *json;
    const char *text; /* borrowed from |json|; the signed text */
    const char *key_id;
    uint8_t signature[ED25519_SIGNATURE_SIZE];
};

static void statement_done(struct statement *s) { json_destroy(s->json); }

static enum kiln_code refuse_manifest(struct kiln_err *err, const char *why)
{
    return kiln_fail(err, KILN_CORRUPT,
                     "the file is damaged or not a manifest: %s; fetch it again, or make one with "
                     "kilnctl pkg sign",
                     why);
}

static enum kiln_code statement_read(struct bytes manifest, struct statement *ret_statement,
                                     struct kiln_err *err)
{
    if (manifest.size > MANIFEST_MAX)
        return refuse_manifest(err, "it is too large");
    struct statement s = { 0 };
    enum kiln_code rc = json_parse(manifest, "the file", &s.json, err);
    if (rc == KILN_NO_MEMORY)
        return rc;
    if (rc) {
        struct kiln_err why = *err;
        return refuse_manifest(err, why.text);
    }
    s.text = json_get_text(s.json, "manifest", NULL);
    s.key_id = json_get_text(s.json, "key_id", NULL);
    const char *signature = json_get_text(s.json, "signature", "");
    bool whole = s.text && s.key_id && hex_read(signature, s.signature, sizeof(s.signature));
    if (!whole) {
        statement_done(&s);
        return refuse_manifest(err, "it has no text, no key_id or no signature");
    }
    *ret_statement = s;
    return KILN_OK;
}

struct verdict {
    const struct statement *statement;
    bool known; /* a trusted key has the manifest's key_id */
    bool genuine;
    char signer[KEY_NAME_MAX];
};

static bool try_key(void *context, const struct public_key *key)
{
    struct verdict *v = context;
    if (strcmp(key->id, v->statement->key_id) != 0)
        return true;
    v->known = true;
    snprintf(v->signer, sizeof(v->signer), "%s", key->name);
    v->genuine =
        ed25519_verify(key->key, bytes_of_text(v->statement->text), v->statement->signature);
    return !v->genuine;
}

static enum kiln_code check_signature(const struct statement *s, const struct manifest_trust *trust,
                                      char signer[KEY_NAME_MAX], struct kiln_err *err)
{
    struct verdict v = { .statement = s };
    struct trusted_keys keys;
    enum kiln_code rc = keys_each(trust->directory, try_key, &v, &keys, err);
    if (rc)
        return rc;
    if (!v.known)
        return kiln_fail(
            err, KILN_DENIED,
            "it is signed with the key %.16s, which is not among the %u trusted keys in "
            "'%s'%s%s%s: if you trust that key, put its .pub file there",
            s->key_id, keys.good, trust->shown ? trust->shown : trust->directory,
            keys.bad ? " ('" : "", keys.first_bad, keys.bad ? "' is not a key)" : "");
    if (!v.genuine)
        return kiln_fail(
            err, KILN_DENIED,
            "the signature of '%s' is not valid: the manifest was changed after it was "
            "signed; fetch it again from a source that you trust",
            v.signer);
    memcpy(signer, v.signer, KEY_NAME_MAX);
    return KILN_OK;
}

static bool read_unpacked(const struct json *entry, struct manifest_entry *ret_entry)
{
    const char *sha256 = json_get_text(entry, "unpacked_sha256", NULL);
    ret_entry->is_packed = sha256 != NULL;
    ret_entry->unpacked_size = json_get_u64(entry, "unpacked_size", UINT64_MAX);
    return !sha256 || (ret_entry->unpacked_size != UINT64_MAX &&
                       digest_from_hex(sha256, &ret_entry->unpacked_sha256));
}

static bool read_entry(const struct json *entry, struct manifest_entry *ret_entry)
{
    ret_entry->name = json_get_text(entry, "name", "");
    ret_entry->size = json_get_u64(entry, "size", UINT64_MAX);
    return file_name_is_fine(ret_entry->name) && ret_entry->size != UINT64_MAX &&
           digest_from_hex(json_get_text(entry, "sha256", ""), &ret_entry->sha256) &&
           read_unpacked(entry, ret_entry);
}

static bool is_packed_name(const char *packed, const char *name)
{
    size_t size = strlen(name);
    return strncmp(packed, name, size) == 0 && strcmp(packed + size, PACKED_SUFFIX) == 0;
}

static enum kiln_code refuse_unlisted(const struct json *files, const char *file_name,
                                      const char *signer, struct kiln_err *err)
{
    char names[256] = "";
    size_t used = 0;
    for (const struct json *j = json_first(files); j && used < sizeof(names) - 1;
         j = json_next(j)) {
        int put = snprintf(names + used, sizeof(names) - used, "%s'%.60s'", used ? ", " : "",
                           json_get_text(j, "name", ""));
        used += put > 0 ? (size_t)put : 0;
    }
    return kiln_fail(err, KILN_NOT_FOUND,
                     "the manifest of '%s' does not list '%s', only %s: use the manifest that "
                     "belongs to the file, and keep the file's name",
                     signer, file_name, names[0] ? names : "nothing");
}

struct listed {
    unsigned count;
    struct manifest_entry entry;
    bool has_content;
    struct digest content;
};

static bool find_entries(const struct json *files, const char *file_name, struct listed *listed)
{
    for (const struct json *j = json_first(files); j; j = json_next(j)) {
        struct manifest_entry entry;
        if (!read_entry(j, &entry))
            return false;
        if (is_packed_name(file_name, entry.name)) {
            listed->has_content = true;
            listed->content = entry.sha256;
        }
        if (strcmp(entry.name, file_name) != 0)
            continue;
        listed->count++;
        listed->entry = entry;
    }
    return true;
}

static void set_file(const struct json *json, const struct listed *listed,
                     struct manifest_file *file)
{
    const struct manifest_entry *entry = &listed->entry;
    file->size = entry->size;
    file->sha256 = entry->sha256;
    file->has_unpacked = entry->is_packed || listed->has_content;
    file->unpacked_sha256 = entry->is_packed ? entry->unpacked_sha256 : listed->content;
    file->edition.version = json_get_u64(json, "version", 0);
    file->edition.time = json_get_u64(json, "time", 0);
}

/* Finds the entry of |file_name| in the signed text. The signature was already checked. */
static enum kiln_code find_file(const char *text, const char *file_name, struct manifest_file *file,
                                struct kiln_err *err)
{
    KILN_AUTO(json) struct json *json = NULL;
    enum kiln_code rc = json_parse(bytes_of_text(text), "the signed text", &json, err);
    if (rc == KILN_NO_MEMORY)
        return rc;
    if (rc)
        return refuse_manifest(err, "the signed text is not JSON");
    const struct json *files = json_get(json, "files");
    if (strcmp(json_get_text(json, "format", ""), FORMAT) != 0 || !json_is_array(files) ||
        json_count(files) > FILES_MAX)
        return refuse_manifest(err, "the signed text does not have the format " FORMAT);
    struct listed listed = { 0 };
    if (!find_entries(files, file_name, &listed))
        return refuse_manifest(err, "an entry lacks its name, a size or a sha256");
    if (listed.count > 1)
        return refuse_manifest(err, "it lists the file twice");
    if (listed.count == 0)
        return refuse_unlisted(files, file_name, file->signer, err);
    set_file(json, &listed, file);
    return KILN_OK;
}

enum kiln_code manifest_check(struct bytes manifest, const struct manifest_trust *trust,
                              const char *file_name, struct manifest_file *ret_file,
                              struct kiln_err *err)
{
    struct statement s;
    struct manifest_file file = { 0 };
    enum kiln_code rc = statement_read(manifest, &s, err);
    if (!rc) {
        rc = check_signature(&s, trust, file.signer, err);
        if (!rc)
            rc = find_file(s.text, file_name, &file, err);
        statement_done(&s);
    }
    if (rc)
        return kiln_while(err, "checking the manifest of '%s'", file_name);
    *ret_file = file;
    return KILN_OK;
}

static enum kiln_code check_content(const struct manifest_content *content, struct kiln_err *err)
{
    const struct manifest_entry *entries = content->entries;
    size_t count = content->count;
    if (count == 0 || count > FILES_MAX)
        return kiln_fail(err, KILN_INVALID, "a manifest lists 1 to %d files, not %zu", FILES_MAX,
                         count);
    for (size_t i = 0; i < count; i++) {
        if (!file_name_is_fine(entries[i].name))
            return kiln_fail(err, KILN_INVALID, "'%.80s' is not a valid file name for a manifest",
                             entries[i].name);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(entries[i].name, entries[j].name) == 0)
                return kiln_fail(err, KILN_INVALID, "'%s' is listed twice", entries[i].name);
        }
    }
    return KILN_OK;
}

static struct json *entry_to_json(const struct manifest_entry *entry)
{
    struct json *json = json_object();
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&entry->sha256, hex);
    json_set_text(json, "name", entry->name);
    json_set_u64(json, "size", entry->size);
    json_set_text(json, "sha256", hex);
    if (!entry->is_packed)
        return json;
    digest_to_hex(&entry->unpacked_sha256, hex);
    json_set_u64(json, "unpacked_size", entry->unpacked_size);
    json_set_text(json, "unpacked_sha256", hex);
    return json;
}

static char *print_text(const struct manifest_content *content)
{
    KILN_AUTO(json) struct json *json = json_object();
    struct json *files = json_array();
    for (size_t i = 0; i < content->count; i++)
        json_append(files, entry_to_json(&content->entries[i]));
    json_set_text(json, "format", FORMAT);
    if (content->edition.version)
        json_set_u64(json, "version", content->edition.version);
    if (content->edition.time)
        json_set_u64(json, "time", content->edition.time);
    json_set(json, "files", files);
    return json_print(json, /* indent= */ false);
}

static char *print_signed(const char *text, const uint8_t secret[ED25519_KEY_SIZE])
{
    uint8_t pub[ED25519_KEY_SIZE], signature[ED25519_SIGNATURE_SIZE];
    char id[KEY_ID_SIZE], hex[2 * ED25519_SIGNATURE_SIZE + 1];
    ed25519_public_of(secret, pub);
    key_id_of(pub, id);
    ed25519_sign(secret, bytes_of_text(text), signature);
    hex_write(signature, sizeof(signature), hex);

    KILN_AUTO(json) struct json *json = json_object();
    json_set_text(json, "manifest", text);
    json_set_text(json, "key_id", id);
    json_set_text(json, "signature", hex);
    return json_print(json, /* indent= */ true);
}

static enum kiln_code sign_content(const uint8_t secret[ED25519_KEY_SIZE],
                                   const struct manifest_content *content,
                                   struct buffer *ret_manifest, struct kiln_err *err)
{
    KILN_AUTO(mem) char *text = print_text(content);
    KILN_AUTO(mem) char *whole = text ? print_signed(text, secret) : NULL;
    if (!whole)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a manifest");
    size_t size = strlen(whole);
    if (size + 1 > MANIFEST_MAX)
        return kiln_fail(err, KILN_FULL,
                         "a manifest of %zu files would have %zu bytes; the limit is %u: make "
                         "several manifests",
                         content->count, size + 1, MANIFEST_MAX);
    buffer_put(ret_manifest, whole, size);
    buffer_put(ret_manifest, "\n", 1);
    return ret_manifest->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a manifest")
                                : KILN_OK;
}

enum kiln_code manifest_sign(const char *secret_key_file, const struct manifest_content *content,
                             struct buffer *ret_manifest, struct kiln_err *err)
{
    uint8_t secret[ED25519_KEY_SIZE];
    enum kiln_code rc = check_content(content, err);
    if (!rc)
        rc = keys_read_secret(secret_key_file, secret, err);
    if (!rc)
        rc = sign_content(secret, content, ret_manifest, err);
    explicit_bzero(secret, sizeof(secret));
    return rc ? kiln_while(err, "signing a manifest") : KILN_OK;
}

/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_trust.h"

#include "common/base/array.h"
#include "common/base/hex.h"
#include "engine/manifest/manifest_keys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EVERY_TARGET "*"
#define REVOKED_ENDING ".revoked"

struct fleet_trust {
    struct public_key *keys; /* owned */
    size_t count, capacity;
    bool is_out_of_memory;
    char directory[PATH_MAX];
    unsigned revoked;
    uint64_t revoked_at;
    struct trusted_keys files;
    unsigned useless; /* keys that may sign nothing */
    char first_useless[KEY_NAME_MAX];
};

static const struct {
    const char *label, *text;
} faults[] = {
    [FLEET_FAULT_NONE] = { "none", "there is no fault" },
#define FLEET_FAULT(name, label, text) [FLEET_FAULT_##name] = { (label), (text) },
#include "engine/fleet/fleet_faults.def"
#undef FLEET_FAULT
};

const char *fleet_fault_label(enum fleet_fault fault) { return faults[fault].label; }

const char *fleet_fault_text(enum fleet_fault fault) { return faults[fault].text; }

enum kiln_code fleet_signer_read(const char *secret_key_file, struct fleet_signer *ret_signer,
                                 struct kiln_err *err)
{
    uint8_t pub[ED25519_KEY_SIZE];
    char id[KEY_ID_SIZE];
    enum kiln_code rc = keys_read_secret(secret_key_file, ret_signer->secret, err);
    if (rc)
        return rc;
    ed25519_public_of(ret_signer->secret, pub);
    key_id_of(pub, id);
    /* cannot fail, because key_id_of wrote the digits */
    (void)hex_read(id, ret_signer->key_id, FLEET_KEY_ID_SIZE);
    return KILN_OK;
}

void fleet_revoked_name(const uint8_t key_id[FLEET_KEY_ID_SIZE], char name[FLEET_REVOKED_NAME_MAX])
{
    char id[KEY_ID_SIZE];
    hex_write(key_id, FLEET_KEY_ID_SIZE, id);
    snprintf(name, FLEET_REVOKED_NAME_MAX, "%s" REVOKED_ENDING, id);
}

bool fleet_key_is_revoked(const char *directory, const uint8_t key_id[FLEET_KEY_ID_SIZE])
{
    struct stat seen;
    char path[PATH_MAX], name[FLEET_REVOKED_NAME_MAX];
    fleet_revoked_name(key_id, name);
    int size = snprintf(path, sizeof(path), "%s/%s", directory, name);
    return size >= PATH_MAX || lstat(path, &seen) == 0 || errno != ENOENT;
}

static bool is_revoked(const struct fleet_trust *trust, const struct public_key *key)
{
    uint8_t id[FLEET_KEY_ID_SIZE];
    return !hex_read(key->id, id, sizeof(id)) || fleet_key_is_revoked(trust->directory, id);
}

static bool add_key(void *context, const struct public_key *key)
{
    struct fleet_trust *trust = context;
    if (is_revoked(trust, key)) {
        trust->revoked++;
        return true;
    }
    if (!key->targets[0] && !key->signs_index) {
        if (trust->useless++ == 0)
            snprintf(trust->first_useless, sizeof(trust->first_useless), "%s", key->name);
        return true;
    }
    trust->is_out_of_memory = !ARRAY_RESERVE(trust->keys, trust->count, trust->capacity, 8);
    if (!trust->is_out_of_memory)
        trust->keys[trust->count++] = *key;
    return !trust->is_out_of_memory;
}

/* Finds the newest file ID.revoked. Uses the time when the file arrived here: a copy may keep the
 * time of its content. */
static void find_revocations(struct fleet_trust *trust)
{
    struct stat seen;
    DIR *entries = opendir(trust->directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t size = strlen(entry->d_name);
        bool is_mark = size == KEY_ID_SIZE - 1 + strlen(REVOKED_ENDING) &&
                       strcmp(entry->d_name + KEY_ID_SIZE - 1, REVOKED_ENDING) == 0;
        if (is_mark && fstatat(dirfd(entries), entry->d_name, &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
            seen.st_ctime > (time_t)trust->revoked_at)
            trust->revoked_at = (uint64_t)seen.st_ctime;
    }
    if (entries)
        closedir(entries);
}

uint64_t fleet_trust_revoked_at(const struct fleet_trust *trust) { return trust->revoked_at; }

bool fleet_trust_has_revoked(const struct fleet_trust *trust,
                             const uint8_t key_id[FLEET_KEY_ID_SIZE])
{
    struct stat seen;
    char path[PATH_MAX], name[FLEET_REVOKED_NAME_MAX];
    fleet_revoked_name(key_id, name);
    int size = snprintf(path, sizeof(path), "%s/%s", trust->directory, name);
    return size < PATH_MAX && lstat(path, &seen) == 0;
}

enum kiln_code fleet_trust_read(const char *directory, struct fleet_trust **ret_trust,
                                struct kiln_err *err)
{
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = calloc(1, sizeof(*trust));
    if (!trust)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys in '%s'", directory);
    if (snprintf(trust->directory, PATH_MAX, "%s", directory) >= PATH_MAX)
        return kiln_fail(err, KILN_INVALID, "the path of the fleet's keys is too long");
    find_revocations(trust);
    enum kiln_code rc = keys_each(directory, add_key, trust, &trust->files, err);
    if (!rc && trust->is_out_of_memory)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys in '%s'", directory);
    if (!rc)
        *ret_trust = KILN_TAKE(trust);
    return rc;
}

void fleet_trust_destroy(struct fleet_trust *trust)
{
    if (trust)
        free(trust->keys);
    free(trust);
}

static bool is_same_key(const struct public_key *a, const struct public_key *b)
{
    return memcmp(a->key, b->key, sizeof(a->key)) == 0 && strcmp(a->id, b->id) == 0 &&
           strcmp(a->targets, b->targets) == 0 && a->signs_index == b->signs_index;
}

/* Compares the keys in order, because they are sorted by the names of their files. */
bool fleet_trust_equal(const struct fleet_trust *a, const struct fleet_trust *b)
{
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = is_same_key(&a->keys[i], &b->keys[i]);
    return is_equal;
}

unsigned fleet_trust_count(const struct fleet_trust *trust) { return (unsigned)trust->count; }

unsigned fleet_trust_index_keys(const struct fleet_trust *trust)
{
    unsigned count = 0;
    for (size_t i = 0; i < trust->count; i++)
        count += trust->keys[i].signs_index;
    return count;
}

unsigned fleet_trust_revoked(const struct fleet_trust *trust) { return trust->revoked; }

unsigned fleet_trust_bad(const struct fleet_trust *trust, const char **ret_first)
{
    *ret_first = trust->files.bad ? trust->files.first_bad : trust->first_useless;
    return trust->files.bad + trust->useless;
}

/* Finds the next key with this id. Two keys have the same id only if somebody made such a pair on
 * purpose; then the caller tries both. */
static const struct public_key *next_key(const struct fleet_trust *trust, size_t *at,
                                         const uint8_t key_id[FLEET_KEY_ID_SIZE])
{
    char id[KEY_ID_SIZE];
    hex_write(key_id, FLEET_KEY_ID_SIZE, id);
    while (*at < trust->count) {
        const struct public_key *key = &trust->keys[(*at)++];
        if (strcmp(key->id, id) == 0)
            return key;
    }
    return NULL;
}

bool fleet_trust_may_index(const struct fleet_trust *trust, const uint8_t key_id[FLEET_KEY_ID_SIZE])
{
    const struct public_key *key;
    for (size_t at = 0; (key = next_key(trust, &at, key_id));)
        if (key->signs_index)
            return true;
    return false;
}

static enum fleet_fault find_signer(const struct fleet_trust *trust,
                                    const struct fleet_signed *what,
                                    const struct public_key **ret_signer)
{
    size_t at = 0;
    const struct public_key *key = next_key(trust, &at, what->key_id);
    if (!key)
        return FLEET_FAULT_UNTRUSTED;
    for (; key; key = next_key(trust, &at, what->key_id)) {
        if (ed25519_verify(key->key, what->signed_text, what->signature)) {
            *ret_signer = key;
            return FLEET_FAULT_NONE;
        }
    }
    return FLEET_FAULT_SIGNATURE;
}

/* "gfx90a" covers gfx90a:sramecc+:xnack-, but not gfx90. */
static bool word_covers(struct bytes word, struct bytes target)
{
    if (bytes_equal_text(word, EVERY_TARGET) || bytes_equal(word, target))
        return true;
    return word.size > 0 && target.size > word.size && target.data[word.size] == ':' &&
           memcmp(word.data, target.data, word.size) == 0;
}

static bool may_sign_for(const struct public_key *key, struct bytes target)
{
    for (const char *at = key->targets; *at;) {
        size_t size = strcspn(at, " ");
        if (word_covers(bytes_of(at, size), target))
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

bool fleet_trust_may_claim(const struct fleet_trust *trust, const uint8_t key_id[FLEET_KEY_ID_SIZE],
                           struct bytes target)
{
    const struct public_key *key;
    for (size_t at = 0; (key = next_key(trust, &at, key_id));)
        if (may_sign_for(key, target))
            return true;
    return false;
}

enum fleet_fault fleet_trust_check_claim(const struct fleet_trust *trust,
                                         const struct fleet_signed *what, struct bytes target)
{
    const struct public_key *signer = NULL;
    enum fleet_fault fault = find_signer(trust, what, &signer);
    if (fault)
        return fault;
    return may_sign_for(signer, target) ? FLEET_FAULT_NONE : FLEET_FAULT_NOT_ALLOWED;
}

enum fleet_fault fleet_trust_check_index(const struct fleet_trust *trust,
                                         const struct fleet_signed *what)
{
    const struct public_key *signer = NULL;
    enum fleet_fault fault = find_signer(trust, what, &signer);
    if (fault)
        return fault;
    return signer->signs_index ? FLEET_FAULT_NONE : FLEET_FAULT_NOT_ALLOWED;
}

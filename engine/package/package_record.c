/* SPDX-License-Identifier: MIT */
#include "engine/package/package_record.h"

#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/whole_file.h"
#include "engine/manifest/manifest_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT "kiln-package-record-1"
#define RECORD_MAX 16384
#define PATH_LENGTH_MAX (PATH_TEXT_MAX + PACKAGE_NAME_MAX + 16)

struct stated {
    struct package_record record;
    struct file_identity identity;
};

struct candidates {
    const char *directory, *name;
    struct stated stated[2];
    size_t count;
};

static const char settled[] = "json", announced[] = "json.next";

static bool path_of(char path[PATH_LENGTH_MAX], const char *directory, const char *name,
                    const char *suffix)
{
    int size = snprintf(path, PATH_LENGTH_MAX, "%s/%s.%s", directory, name, suffix);
    return size > 0 && size < PATH_LENGTH_MAX;
}

static uint64_t number_of(const struct json *json, const char *member)
{
    uint64_t number = 0;
    return sscanf(json_get_text(json, member, ""), "%" SCNu64, &number) == 1 ? number : 0;
}

static bool parse_record(const struct json *json, struct stated *ret_stated)
{
    struct stated s = { 0 };
    const char *signer = json_get_text(json, "signer", "");
    if (strcmp(json_get_text(json, "format", ""), FORMAT) != 0 ||
        !digest_from_hex(json_get_text(json, "sha256", ""), &s.record.sha256) ||
        (signer[0] && !key_name_is_fine(signer)))
        return false;
    s.identity.size = json_get_u64(json, "size", 0);
    s.identity.inode = number_of(json, "inode");
    s.identity.modified_ns = (int64_t)number_of(json, "modified");
    s.record.rows = json_get_u64(json, "rows", 0);
    s.record.installed = json_get_u64(json, "installed", 0);
    s.record.edition.version = json_get_u64(json, "version", 0);
    s.record.edition.time = json_get_u64(json, "signed", 0);
    snprintf(s.record.signer, sizeof(s.record.signer), "%s", signer);
    snprintf(s.record.source, sizeof(s.record.source), "%s", json_get_text(json, "source", ""));
    *ret_stated = s;
    return true;
}

/* Loads one record into |candidates|. Ignores a malformed record. Fails only if a later attempt may
 * succeed. */
static enum kiln_code load_record(struct candidates *candidates, const char *suffix,
                                  struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX];
    struct kiln_err why = KILN_ERR_INIT;
    struct stated *stated = &candidates->stated[candidates->count];
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, RECORD_MAX);
    KILN_AUTO(json) struct json *json = NULL;
    if (!path_of(path, candidates->directory, candidates->name, suffix))
        return KILN_OK;
    enum kiln_code rc = fs_read_file(path, RECORD_MAX, &text, &why);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (!rc)
        rc = json_parse(buffer_view(&text), path, &json, &why);
    if (package_failure_is_temporary(rc)) {
        *err = why;
        return rc;
    }
    if (rc || !parse_record(json, stated))
        *stated = (struct stated){ 0 };
    candidates->count++;
    return KILN_OK;
}

static bool is_recorded(const struct stated *s, const struct file_identity *identity)
{
    return s->identity.inode == identity->inode && s->identity.size == identity->size &&
           s->identity.modified_ns == identity->modified_ns;
}

static enum kiln_code write_record(const char *directory, const char *name, const char *suffix,
                                   const struct stated *s, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    char hex[DIGEST_HEX_SIZE], inode[24], modified[24], file_name[PACKAGE_NAME_MAX + 16];
    digest_to_hex(&s->record.sha256, hex);
    snprintf(inode, sizeof(inode), "%" PRIu64, s->identity.inode);
    snprintf(modified, sizeof(modified), "%" PRId64, s->identity.modified_ns);
    snprintf(file_name, sizeof(file_name), "%s.%s", name, suffix);
    json_set_text(json, "format", FORMAT);
    json_set_text(json, "sha256", hex);
    json_set_u64(json, "size", s->identity.size);
    json_set_text(json, "inode", inode);
    json_set_text(json, "modified", modified);
    json_set_u64(json, "rows", s->record.rows);
    json_set_u64(json, "installed", s->record.installed);
    json_set_text(json, "signer", s->record.signer);
    json_set_u64(json, "version", s->record.edition.version);
    json_set_u64(json, "signed", s->record.edition.time);
    json_set_text(json, "source", s->record.source);
    KILN_AUTO(mem) char *text = json_print(json, /* indent= */ true);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the record of '%s'", name);
    struct whole_file file = { .directory = directory,
                               .name = file_name,
                               .content = bytes_of_text(text),
                               .mode = 0644,
                               .replace = true };
    return whole_file_write(&file, err);
}

static enum kiln_code hash_file(const char *directory, const char *name, struct digest *ret_sha256,
                                struct kiln_err *err)
{
    char path[PATH_LENGTH_MAX];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    enum kiln_code rc = sha256_of_file(fd, ret_sha256, /* ret_size= */ NULL, err);
    return rc ? kiln_while(err, "checking '%s'", path) : KILN_OK;
}

static const struct stated *find_by_digest(const struct candidates *candidates,
                                           const struct digest *sha256)
{
    for (size_t i = 0; i < candidates->count; i++) {
        if (digest_equal(&candidates->stated[i].record.sha256, sha256))
            return &candidates->stated[i];
    }
    return NULL;
}

/* Writes the file's present inode, size and modification time into the record, so that the next
 * start of kilnd need not hash the file again. */
static void update_record(const char *directory, const char *name, const struct stated *s)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (write_record(directory, name, settled, s, &ignored) == KILN_OK)
        package_record_withdraw(directory, name);
}

static enum kiln_code refuse_other_file(const char *directory, const char *name,
                                        struct kiln_err *err)
{
    return kiln_fail(
        err, KILN_DENIED,
        "'%s/%s' is not the file that was installed according to its record ('%s.json'): "
        "install it again with kilnctl pkg install, or remove it with kilnctl pkg rm",
        directory, name, name);
}

enum kiln_code package_record_settle(const char *directory, const char *name, struct kiln_err *err)
{
    char from[PATH_LENGTH_MAX], to[PATH_LENGTH_MAX];
    if (!path_of(from, directory, name, announced) || !path_of(to, directory, name, settled))
        return kiln_fail(err, KILN_INVALID, "the path of '%s' is too long", name);
    if (rename(from, to) != 0)
        return kiln_fail_errno(err, errno, "cannot make '%s'", to);
    return whole_file_sync_directory(directory, err);
}

/* Ignores a failure: the next read finds the record under its temporary name. */
static void try_to_settle(const char *directory, const char *name)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (package_record_settle(directory, name, &ignored))
        return;
}

static const struct stated *find_by_identity(const struct candidates *candidates,
                                             const struct file_identity *identity)
{
    for (size_t i = 0; i < candidates->count; i++) {
        if (is_recorded(&candidates->stated[i], identity))
            return &candidates->stated[i];
    }
    return NULL;
}

/* Finds the record by the file's SHA-256. Needed if no record states the file's inode, size and
 * modification time. */
static enum kiln_code read_by_content(const struct candidates *candidates,
                                      const struct file_identity *identity,
                                      struct package_record *ret_record, struct kiln_err *err)
{
    const char *directory = candidates->directory, *name = candidates->name;
    struct digest sha256;
    if (candidates->count == 0)
        return KILN_NOT_FOUND;
    enum kiln_code rc = hash_file(directory, name, &sha256, err);
    if (rc)
        return rc;
    const struct stated *found = find_by_digest(candidates, &sha256);
    if (!found)
        return refuse_other_file(directory, name, err);
    *ret_record = found->record;
    update_record(directory, name,
                  &(struct stated){ .record = found->record, .identity = *identity });
    return KILN_OK;
}

enum kiln_code package_record_read(const char *directory, const char *name,
                                   const struct file_identity *identity,
                                   struct package_record *ret_record, struct kiln_err *err)
{
    struct candidates candidates = { .directory = directory, .name = name };
    enum kiln_code rc = load_record(&candidates, settled, err);
    const struct stated *found = find_by_identity(&candidates, identity);
    if (!rc && !found) {
        rc = load_record(&candidates, announced, err);
        found = find_by_identity(&candidates, identity);
        if (found)
            try_to_settle(directory, name);
    }
    if (rc)
        return rc;
    if (!found)
        return read_by_content(&candidates, identity, ret_record, err);
    *ret_record = found->record;
    return KILN_OK;
}

enum kiln_code package_record_announce(const char *directory, const char *name,
                                       const struct file_identity *identity,
                                       const struct package_record *record, struct kiln_err *err)
{
    struct stated s = { .record = *record, .identity = *identity };
    return write_record(directory, name, announced, &s, err);
}

void package_record_withdraw(const char *directory, const char *name)
{
    char path[PATH_LENGTH_MAX];
    if (path_of(path, directory, name, announced))
        unlink(path);
}

void package_record_remove(const char *directory, const char *name)
{
    char path[PATH_LENGTH_MAX];
    if (path_of(path, directory, name, settled))
        unlink(path);
    package_record_withdraw(directory, name);
}

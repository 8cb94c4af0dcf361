/* SPDX-License-Identifier: MIT */
#include "engine/package/package_record.h"
#include "engine/package/package_set_parts.h"

#include "engine/manifest/manifest_keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct search {
    const char *name;
    bool found;
};

static bool compare_name(void *context, const struct public_key *key)
{
    struct search *search = context;
    search->found = strcmp(key->name, search->name) == 0;
    return !search->found;
}

enum kiln_code signer_check(const struct package_set *set, const char *signer, bool *ret_trusted,
                            struct kiln_err *err)
{
    struct search search = { .name = signer };
    struct trusted_keys keys;
    *ret_trusted = false;
    if (!signer[0])
        return KILN_OK;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = keys_each(set->keys_directory, compare_name, &search, &keys, &why);
    *ret_trusted = !rc && search.found;
    if (!package_failure_is_temporary(rc))
        return KILN_OK;
    *err = why;
    return rc;
}

/* Reads the record of a package. Only packages in kiln's own directory have records. Returns
 * KILN_NOT_FOUND, without a message, if there is no record. */
static enum kiln_code find_record(const struct package_set *set, const struct member *member,
                                  const char *name, struct package_record *ret_record,
                                  struct kiln_err *err)
{
    if (member->directory > 0)
        return KILN_NOT_FOUND;
    return package_record_read(set->directories[0], name, &member->identity, ret_record, err);
}

static enum kiln_code check_policy(const struct package_set *set, const char *path, bool trusted,
                                   const char *signer, struct kiln_err *err)
{
    if (trusted || !set->require_signature)
        return KILN_OK;
    if (signer[0])
        return kiln_fail(
            err, KILN_DENIED,
            "'%s' was signed by '%s', whose key is no longer in '%s': put the key back, "
            "or remove the package with kilnctl pkg rm",
            path, signer, set->keys_directory);
    return kiln_fail(
        err, KILN_DENIED,
        "'%s' is not signed, but require-signature is set: install it with its manifest "
        "(kilnctl pkg install), or unset require-signature",
        path);
}

static enum kiln_code check_permissions(const char *path, struct kiln_err *err)
{
    struct stat seen;
    if (stat(path, &seen) == 0 && (seen.st_mode & S_IWOTH))
        return kiln_fail(err, KILN_DENIED,
                         "'%s' is not used, because everybody can write to it: chmod o-w it", path);
    return KILN_OK;
}

enum kiln_code member_open(const struct package_set *set, size_t directory, const char *name,
                           struct member **ret_member, struct kiln_err *err)
{
    char path[PATH_TEXT_MAX];
    int size = snprintf(path, sizeof(path), "%s/%s", set->directories[directory], name);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "the path of '%s' is too long", name);
    KILN_AUTO(member) struct member *member = calloc(1, sizeof(*member));
    if (!member)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", path);
    member->directory = directory;
    if (!file_identity_at(AT_FDCWD, path, &member->identity))
        return kiln_fail(err, KILN_NOT_FOUND, "'%s' was removed", path);

    struct package_record record = { 0 };
    enum kiln_code rc = check_permissions(path, err);
    if (!rc)
        rc = find_record(set, member, name, &record, err);
    bool recorded = !rc;
    if (rc == KILN_NOT_FOUND)
        rc = KILN_OK;
    if (!rc)
        rc = signer_check(set, record.signer, &member->signature_counts, err);
    if (!rc)
        rc = check_policy(set, path, member->signature_counts, record.signer, err);
    struct package_options options = { .path = path,
                                       .readers = set->readers,
                                       .trusted = member->signature_counts,
                                       .record = recorded ? &record : NULL };
    if (!rc)
        rc = package_open(&options, &member->package, err);
    if (rc)
        return rc;
    database_id_write(&package_info(member->package)->database_id, member->id);
    *ret_member = KILN_TAKE(member);
    return KILN_OK;
}

/* Opens a built-in package. If its data is damaged, |ret_member| stays NULL. Fails if the data is
 * undamaged, but is not a package. */
static enum kiln_code open_built_in(const struct package_set *set, struct engine_item *item,
                                    struct member **ret_member, struct kiln_err *err)
{
    KILN_AUTO(member) struct member *member = calloc(1, sizeof(*member));
    if (!member)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", item->name);
    const struct package_options options = {
        .item = item, .path = item->name, .readers = set->readers, .trusted = true
    };
    enum kiln_code rc =
        engine_item_is_damaged(item) ? KILN_CORRUPT : package_open(&options, &member->package, err);
    if (rc && (rc == KILN_INVALID || rc == KILN_NO_MEMORY || engine_item_is_as_built(item)))
        return kiln_while(err, "opening '%s', which is built into this program", item->name);
    if (rc)
        return KILN_OK;
    *member = (struct member){ .refs = 1,
                               .package = member->package,
                               .identity = { .size = engine_item_view(item).size },
                               .directory = set->directory_count,
                               .signature_counts = true,
                               .is_built_in = true };
    database_id_write(&package_info(member->package)->database_id, member->id);
    *ret_member = KILN_TAKE(member);
    return KILN_OK;
}

enum kiln_code members_open_built_in(struct package_set *set, struct kiln_err *err)
{
    const struct engine_data *data = set->data;
    if (!data || data->count == 0)
        return KILN_OK;
    set->built_in = calloc(data->count, sizeof(struct member *));
    if (!set->built_in)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the packages");
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < data->count; i++) {
        if (data->items[i].kind != ENGINE_ITEM_PACKAGE)
            continue;
        struct member **member = &set->built_in[set->built_in_count];
        rc = open_built_in(set, &data->items[i], member, err);
        set->built_in_count += *member != NULL;
    }
    return rc;
}

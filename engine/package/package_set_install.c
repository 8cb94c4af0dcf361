/* SPDX-License-Identifier: MIT */
#include "engine/package/package_record.h"
#include "engine/package/package_set_parts.h"
#include "engine/package/whole_file.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OWN 0 /* the directory that kiln installs into */
#define PACKED_SUFFIX ".bz2"

/* ---- the file that arrived ---- */

/* Whoever made the file might still have it open for writing; a lease is refused then.
 * Filesystems without leases are left to the hash.  An opener in the moment of the lease makes the
 * kernel send a signal: one that does nothing, where SIGIO would end the process. */
static enum kiln_code refuse_writers(int fd, const char *path, struct kiln_err *err)
{
    if (fcntl(fd, F_SETSIG, SIGURG) != 0)
        return KILN_OK;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return errno == EAGAIN ? kiln_fail(err, KILN_BUSY, "somebody still writes to '%s'", path)
                               : KILN_OK;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return KILN_OK;
}

/* From here on no other user can change it. */
static enum kiln_code take_over(int fd, const char *path, struct kiln_err *err)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot look at '%s'", path);
    if (!S_ISREG(seen.st_mode) || seen.st_nlink != 1)
        return kiln_fail(err, KILN_INVALID, "'%s' is no plain file with one name", path);
    if (seen.st_uid != geteuid() && fchown(fd, geteuid(), getegid()) != 0)
        return kiln_fail_errno(err, errno, "cannot take over '%s'", path);
    if (fchmod(fd, 0644) != 0)
        return kiln_fail_errno(err, errno, "cannot set the permissions of '%s'", path);
    return refuse_writers(fd, path, err);
}

static enum kiln_code refuse_changed(const struct package_arrival *arrival, struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT,
                     "'%s' is not what was fetched: it changed since it was checked; try again",
                     arrival->path);
}

static enum kiln_code check_arrival(const struct package_arrival *arrival,
                                    struct file_identity *ret_identity, struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = open(arrival->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", arrival->path);
    enum kiln_code rc = take_over(fd, arrival->path, err);
    struct digest sha256;
    if (!rc)
        rc = package_file_hash(fd, &sha256, err);
    if (!rc && !digest_equal(&sha256, &arrival->sha256))
        rc = refuse_changed(arrival, err);
    if (!rc && fsync(fd) != 0)
        rc = kiln_fail_errno(err, errno, "cannot sync '%s'", arrival->path);
    if (!rc && !file_identity_at(AT_FDCWD, arrival->path, ret_identity))
        rc = kiln_fail(err, KILN_NOT_FOUND, "'%s' is gone", arrival->path);
    return rc;
}

static enum kiln_code check_name(const struct package_arrival *arrival, struct kiln_err *err)
{
    enum package_format format;
    struct database_id id;
    const char *name = arrival->name;
    if (strchr(name, '/') || name[0] == '.' || strlen(name) >= PACKAGE_NAME_MAX ||
        !package_format_of(name, &format))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' is no name for a package: gfx90a68.kdb, gfx90a68.ukdb or "
                         "gfx90a68.kpkg",
                         name);
    return database_id_of_file(name, &id, err);
}

/* ---- what it must be ---- */

static enum kiln_code refuse_other(const char *who, struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT,
                     "its SHA-256 is not the one that %s: fetch it again from where you trust; one "
                     "that is packed needs a name that ends in " PACKED_SUFFIX,
                     who);
}

static enum kiln_code check_wanted(const struct package_arrival *arrival, struct kiln_err *err)
{
    struct digest wanted;
    if (!arrival->wanted || arrival->may_be_packed)
        return KILN_OK;
    if (digest_from_hex(arrival->wanted, &wanted) && digest_equal(&wanted, &arrival->sha256))
        return KILN_OK;
    return refuse_other("was asked for", err);
}

/* Of |name| without the suffix; whether it had it. */
static bool unpacked_name(const char *name, char ret_name[PACKAGE_NAME_MAX])
{
    size_t suffix = strlen(PACKED_SUFFIX);
    int size = snprintf(ret_name, PACKAGE_NAME_MAX, "%s", name);
    if (size >= PACKAGE_NAME_MAX || (size_t)size <= suffix ||
        strcmp(ret_name + (size_t)size - suffix, PACKED_SUFFIX) != 0)
        return false;
    ret_name[(size_t)size - suffix] = '\0';
    return true;
}

static enum kiln_code check_manifest(const struct package_set *set,
                                     const struct package_arrival *arrival,
                                     char ret_signer[KEY_NAME_MAX], struct kiln_err *err)
{
    const struct manifest_trust trust = { .directory = set->keys_directory };
    char name[PACKAGE_NAME_MAX];
    struct manifest_file file;
    struct kiln_err ignored = KILN_ERR_INIT;
    bool packed = unpacked_name(arrival->fetched, name) && arrival->may_be_packed;
    enum kiln_code rc = manifest_check(arrival->manifest, &trust, arrival->fetched, &file, err);
    if (rc)
        return rc;
    memcpy(ret_signer, file.signer, KEY_NAME_MAX);
    rc = package_names_agree(name, arrival->name, err);
    if (rc || digest_equal(&file.sha256, &arrival->sha256))
        return rc;
    if (packed && (manifest_check(arrival->manifest, &trust, name, &file, &ignored) ||
                   digest_equal(&file.sha256, &arrival->sha256)))
        return KILN_OK;
    return refuse_other("its manifest states", err);
}

static enum kiln_code check_signature(const struct package_set *set,
                                      const struct package_arrival *arrival,
                                      char ret_signer[KEY_NAME_MAX], struct kiln_err *err)
{
    if (arrival->manifest.size > 0)
        return check_manifest(set, arrival, ret_signer, err);
    ret_signer[0] = '\0';
    if (!set->require_signature)
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "'%s' is not signed by a trusted key and require-signature is set: put its "
                     "manifest beside it and the signer's .pub file into '%s'",
                     arrival->name, set->keys_directory);
}

/* Opens it where it is, to see that it is a package. */
static enum kiln_code count_rows(const struct package_arrival *arrival, uint64_t *ret_rows,
                                 struct kiln_err *err)
{
    struct package_options options = { .path = arrival->path, .name = arrival->name, .readers = 1 };
    KILN_AUTO(package) struct package *package = NULL;
    enum kiln_code rc = package_open(&options, &package, err);
    return rc ? rc : package_rows(package, ret_rows, err);
}

enum kiln_code package_set_check(const struct package_set *set,
                                 const struct package_arrival *arrival,
                                 struct package_checked *ret_checked, struct kiln_err *err)
{
    struct package_checked checked = { .rows = 0 };
    enum kiln_code rc = need_own_directory(set, err);
    if (!rc)
        rc = check_name(arrival, err);
    if (!rc)
        rc = check_wanted(arrival, err);
    if (!rc)
        rc = check_signature(set, arrival, checked.signer, err);
    if (!rc)
        rc = check_arrival(arrival, &checked.identity, err);
    if (!rc)
        rc = count_rows(arrival, &checked.rows, err);
    if (rc)
        return kiln_while(err, "installing '%s'", arrival->name);
    *ret_checked = checked;
    return KILN_OK;
}

/* ---- into place ---- */

/* The record first, under its other name: at whatever moment the power fails, each file that is in
 * place has one. */
static enum kiln_code move_in(const struct package_set *set, const struct package_arrival *arrival,
                              const struct file_identity *identity,
                              const struct package_record *record, struct kiln_err *err)
{
    const char *directory = set->directories[OWN];
    char path[PATH_TEXT_MAX];
    int size = snprintf(path, sizeof(path), "%s/%s", directory, arrival->name);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "the path of '%s' is too long", arrival->name);
    enum kiln_code rc = package_record_announce(directory, arrival->name, identity, record, err);
    if (rc)
        return rc;
    if (rename(arrival->path, path) != 0) {
        rc = kiln_fail_errno(err, errno, "cannot move '%s' to '%s'", arrival->path, path);
        package_record_withdraw(directory, arrival->name);
        return rc;
    }
    return package_record_settle(directory, arrival->name, err);
}

/* All members but |without|, and |with| (each may be NULL). */
static enum kiln_code replace_member(struct package_set *set, const struct member *without,
                                     struct member *with, struct kiln_err *err)
{
    struct view *old = set->view;
    struct view *fresh = view_create(old->count + 1);
    if (!fresh)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the packages");
    for (size_t i = 0; i < old->count; i++) {
        if (old->members[i] != without)
            fresh->members[fresh->count++] = old->members[i];
    }
    if (with)
        fresh->members[fresh->count++] = with;
    view_replace(set, fresh);
    return KILN_OK;
}

static enum kiln_code is_still_what_was_checked(const struct package_arrival *arrival,
                                                const struct package_checked *checked,
                                                struct kiln_err *err)
{
    struct file_identity now;
    if (file_identity_at(AT_FDCWD, arrival->path, &now) &&
        file_identity_equal(&now, &checked->identity))
        return KILN_OK;
    return refuse_changed(arrival, err);
}

/* Whoever can bring a file under that name would else make a signature worth nothing. */
static enum kiln_code keep_signed(const struct package_set *set,
                                  const struct package_arrival *arrival,
                                  const struct package_checked *checked, struct kiln_err *err)
{
    const struct member *there = view_find(set->view, OWN, arrival->name);
    if (!there || !there->signature_counts || arrival->replace_signed ||
        signer_is_trusted(set, checked->signer))
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "the one that is installed is signed by '%s', what came is not signed by any "
                     "trusted key: install it with its manifest, or say that it may take the "
                     "signed one's place (kilnctl pkg install --replace-signed)",
                     package_info(there->package)->signer);
}

/* What is in place now, for all look-ups that begin from here on. */
static enum kiln_code show_it(struct package_set *set, const char *name,
                              struct package_info *ret_info, struct kiln_err *err)
{
    KILN_AUTO(member) struct member *member = NULL;
    enum kiln_code rc = member_open(set, OWN, name, &member, err);
    if (rc)
        return rc;
    struct package_info info = *package_info(member->package);
    rc = replace_member(set, view_find(set->view, OWN, name), member, err);
    if (rc)
        return rc;
    KILN_TAKE(member); /* the view has it */
    *ret_info = info;
    return KILN_OK;
}

enum kiln_code package_set_adopt(struct package_set *set, const struct package_arrival *arrival,
                                 const struct package_checked *checked,
                                 struct package_info *ret_info, struct kiln_err *err)
{
    struct package_record record = { .sha256 = arrival->sha256,
                                     .rows = checked->rows,
                                     .installed = clock_wall_s() };
    snprintf(record.signer, sizeof(record.signer), "%s", checked->signer);
    snprintf(record.source, sizeof(record.source), "%s", arrival->source);
    enum kiln_code rc = need_own_directory(set, err);
    if (!rc)
        rc = keep_signed(set, arrival, checked, err);
    if (!rc)
        rc = is_still_what_was_checked(arrival, checked, err);
    if (!rc)
        rc = move_in(set, arrival, &checked->identity, &record, err);
    if (!rc)
        rc = show_it(set, arrival->name, ret_info, err);
    if (rc)
        return kiln_while(err, "installing '%s'", arrival->name);
    refusal_forget(set, OWN, arrival->name);
    return KILN_OK;
}

/* ---- out of it ---- */

static enum kiln_code deny_foreign(const struct member *member, struct kiln_err *err)
{
    const char *path = package_info(member->package)->path;
    return kiln_fail(err, KILN_DENIED,
                     "'%s' was not installed by kiln: remove the distribution's package that it "
                     "belongs to (dpkg -S '%s' or rpm -qf '%s' names it), or the file",
                     path, path, path);
}

static enum kiln_code not_there(struct package_set *set, const char *name, struct kiln_err *err)
{
    for (size_t directory = 1; directory < set->directory_count; directory++) {
        const struct member *member = view_find(set->view, directory, name);
        if (member)
            return deny_foreign(member, err);
    }
    if (view_find(set->view, set->directory_count, name))
        return kiln_fail(err, KILN_UNSUPPORTED, "'%s' is built into this program", name);
    return kiln_fail(err, KILN_NOT_FOUND, "no package '%.80s' is installed in '%s'", name,
                     set->directories[OWN]);
}

enum kiln_code package_set_remove(struct package_set *set, const char *name,
                                  struct package_info *ret_info, struct kiln_err *err)
{
    enum package_format format;
    char path[PATH_TEXT_MAX];
    if (need_own_directory(set, err))
        return err->code;
    int size = snprintf(path, sizeof(path), "%s/%s", set->directories[OWN], name);
    struct member *member = view_find(set->view, OWN, name);
    bool named = !strchr(name, '/') && package_format_of(name, &format) && size > 0 &&
                 (size_t)size < sizeof(path);
    if (!named || access(path, F_OK) != 0)
        return not_there(set, name, err);
    struct package_info info = { .format = format };
    snprintf(info.name, sizeof(info.name), "%s", name);
    snprintf(info.path, sizeof(info.path), "%s", path);
    if (member)
        info = *package_info(member->package);
    if (unlink(path) != 0)
        return kiln_fail_errno(err, errno, "cannot remove '%s'", path);
    package_record_remove(set->directories[OWN], name);
    enum kiln_code rc = whole_file_sync_directory(set->directories[OWN], err);
    if (member) {
        struct kiln_err why = KILN_ERR_INIT;
        if (replace_member(set, member, NULL, &why) && !rc) {
            *err = why;
            rc = why.code;
        }
    }
    refusal_forget(set, OWN, name);
    if (!rc)
        *ret_info = info;
    return rc;
}

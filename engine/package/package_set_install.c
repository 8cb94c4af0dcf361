/* SPDX-License-Identifier: MIT */
#include "common/base/whole_file.h"
#include "engine/package/package_record.h"
#include "engine/package/package_set_parts.h"

#include "common/base/clock.h"
#include "common/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OWN 0
#define PACKED_SUFFIX ".bz2"

/* Fails if another process has the file open for writing: Linux then refuses a read lease. If
 * another process opens the file during the lease, Linux sends a signal. This function chooses
 * SIGURG, which is ignored by default, because the default signal SIGIO would end kilnd. */
static enum kiln_code refuse_writers(int fd, const char *path, struct kiln_err *err)
{
    if (fcntl(fd, F_SETSIG, SIGURG) != 0)
        return KILN_OK;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return errno == EAGAIN
                   ? kiln_fail(err, KILN_BUSY, "a process still has '%s' open for writing", path)
                   : KILN_OK;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return KILN_OK;
}

static enum kiln_code take_over_file(int fd, const char *path, struct kiln_err *err)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot examine '%s'", path);
    if (!S_ISREG(seen.st_mode) || seen.st_nlink != 1)
        return kiln_fail(err, KILN_INVALID, "'%s' is not a regular file with exactly one link",
                         path);
    if (seen.st_uid != geteuid() && fchown(fd, geteuid(), getegid()) != 0)
        return kiln_fail_errno(err, errno, "cannot take over '%s'", path);
    if (fchmod(fd, 0644) != 0)
        return kiln_fail_errno(err, errno, "cannot set the permissions of '%s'", path);
    return refuse_writers(fd, path, err);
}

static enum kiln_code refuse_changed(const struct package_upload *upload, struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT, "'%s' changed after it was checked; try again",
                     upload->path);
}

static enum kiln_code check_upload(const struct package_upload *upload,
                                   struct file_identity *ret_identity, struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = open(upload->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", upload->path);
    enum kiln_code rc = take_over_file(fd, upload->path, err);
    struct digest sha256;
    if (!rc)
        rc = sha256_of_file(fd, &sha256, /* ret_size= */ NULL, err);
    if (!rc && !digest_equal(&sha256, &upload->sha256))
        rc = refuse_changed(upload, err);
    if (!rc && fsync(fd) != 0)
        rc = kiln_fail_errno(err, errno, "cannot sync '%s'", upload->path);
    if (!rc && !file_identity_at(AT_FDCWD, upload->path, ret_identity))
        rc = kiln_fail(err, KILN_NOT_FOUND, "'%s' was removed", upload->path);
    return rc;
}

static enum kiln_code check_name(const struct package_upload *upload, struct kiln_err *err)
{
    const char *name = upload->name;
    if (strchr(name, '/') || name[0] == '.' || strlen(name) >= PACKAGE_NAME_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' is not a valid package name; valid are, for example, "
                         "gfx90a68.kdb, gfx90a68.ukdb and gfx90a68.kpkg",
                         name);
    return package_name_check(name, /* ret_id= */ NULL, err);
}

static enum kiln_code refuse_other(const char *expected, struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT,
                     "its SHA-256 is not %s: fetch it again from a source that you trust; the name "
                     "of a compressed package must end in " PACKED_SUFFIX,
                     expected);
}

static enum kiln_code check_wanted(const struct package_upload *upload, struct kiln_err *err)
{
    struct digest wanted;
    if (!upload->wanted || upload->may_be_packed)
        return KILN_OK;
    if (digest_from_hex(upload->wanted, &wanted) && digest_equal(&wanted, &upload->sha256))
        return KILN_OK;
    return refuse_other("the one given", err);
}

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

static enum kiln_code refuse_only_packed(const char *signer, const char *fetched,
                                         struct kiln_err *err)
{
    return kiln_fail(err, KILN_DENIED,
                     "the manifest of '%s' covers only the packed file '%.100s', not its content: "
                     "have the file signed again with kilnctl pkg sign",
                     signer, fetched);
}

static enum kiln_code check_manifest(const struct package_set *set,
                                     const struct package_upload *upload,
                                     struct package_checked *checked, struct kiln_err *err)
{
    const struct manifest_trust trust = { .directory = set->keys_directory };
    char name[PACKAGE_NAME_MAX];
    struct manifest_file file;
    bool is_packed = unpacked_name(upload->fetched, name);
    enum kiln_code rc = manifest_check(upload->manifest, &trust, upload->fetched, &file, err);
    if (!rc)
        rc = package_names_agree(name, upload->name, err);
    if (rc)
        return rc;
    bool is_same = digest_equal(&file.sha256, &upload->sha256) ||
                   (file.has_unpacked && digest_equal(&file.unpacked_sha256, &upload->sha256));
    checked->only_packed_signed = !is_same && is_packed && !file.has_unpacked;
    if (checked->only_packed_signed && set->require_signature)
        return refuse_only_packed(file.signer, upload->fetched, err);
    if (checked->only_packed_signed)
        return KILN_OK;
    memcpy(checked->signer, file.signer, KEY_NAME_MAX);
    checked->edition = file.edition;
    return is_same ? KILN_OK : refuse_other("the one in its manifest", err);
}

static enum kiln_code check_signature(const struct package_set *set,
                                      const struct package_upload *upload,
                                      struct package_checked *checked, struct kiln_err *err)
{
    if (upload->manifest.size > 0)
        return check_manifest(set, upload, checked, err);
    if (!set->require_signature)
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "'%s' is not signed by a trusted key, but require-signature is set: put its "
                     "manifest next to it and the signer's .pub file into '%s'",
                     upload->name, set->keys_directory);
}

/* Counts the file's rows, and thus verifies that the file is a package. */
static enum kiln_code count_rows(const struct package_upload *upload, uint64_t *ret_rows,
                                 struct kiln_err *err)
{
    struct package_options options = { .path = upload->path, .name = upload->name, .readers = 1 };
    KILN_AUTO(package) struct package *package = NULL;
    enum kiln_code rc = package_open(&options, &package, err);
    return rc ? rc : package_rows(package, ret_rows, err);
}

enum kiln_code package_set_check(const struct package_set *set, const struct package_upload *upload,
                                 struct package_checked *ret_checked, struct kiln_err *err)
{
    struct package_checked checked = { .rows = 0 };
    enum kiln_code rc = need_own_directory(set, err);
    if (!rc)
        rc = check_name(upload, err);
    if (!rc)
        rc = check_wanted(upload, err);
    if (!rc)
        rc = check_signature(set, upload, &checked, err);
    if (!rc)
        rc = check_upload(upload, &checked.identity, err);
    if (!rc)
        rc = count_rows(upload, &checked.rows, err);
    if (rc)
        return kiln_while(err, "installing '%s'", upload->name);
    *ret_checked = checked;
    return KILN_OK;
}

/* Writes the record first, under a temporary name. So each installed file has a record, even if
 * the power fails at any moment. */
static enum kiln_code move_into_place(const struct package_set *set,
                                      const struct package_upload *upload,
                                      const struct file_identity *identity,
                                      const struct package_record *record, struct kiln_err *err)
{
    const char *directory = set->directories[OWN];
    char path[PATH_TEXT_MAX];
    int size = snprintf(path, sizeof(path), "%s/%s", directory, upload->name);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "the path of '%s' is too long", upload->name);
    enum kiln_code rc = package_record_announce(directory, upload->name, identity, record, err);
    if (rc)
        return rc;
    if (rename(upload->path, path) != 0) {
        rc = kiln_fail_errno(err, errno, "cannot move '%s' to '%s'", upload->path, path);
        package_record_withdraw(directory, upload->name);
        return rc;
    }
    return package_record_settle(directory, upload->name, err);
}

/* Makes a new view, without the package |without| and with the package |with|. Both may be NULL. */
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

static enum kiln_code check_unchanged(const struct package_upload *upload,
                                      const struct package_checked *checked, struct kiln_err *err)
{
    struct file_identity now;
    if (file_identity_at(AT_FDCWD, upload->path, &now) &&
        file_identity_equal(&now, &checked->identity))
        return KILN_OK;
    return refuse_changed(upload, err);
}

static enum kiln_code refuse_older(const struct package_info *there,
                                   const struct package_checked *checked, struct kiln_err *err)
{
    char old_time[UNITS_TEXT_MAX], new_time[UNITS_TEXT_MAX];
    return kiln_fail(err, KILN_DENIED,
                     "the installed package '%s' is newer: '%s' signed it as version %llu at %s, "
                     "and '%s' signed the new file as version %llu at %s: get a newer file, or "
                     "allow the downgrade with kilnctl pkg install --allow-downgrade",
                     there->name, there->signer, (unsigned long long)there->edition.version,
                     units_when(there->edition.time, old_time), checked->signer,
                     (unsigned long long)checked->edition.version,
                     units_when(checked->edition.time, new_time));
}

/* Compares the file with all signed packages of the same database id and format, because they
 * answer the same requests. An old file with known faults must not answer instead of a newer
 * one. */
static enum kiln_code refuse_downgrade(const struct package_set *set,
                                       const struct package_upload *upload,
                                       const struct package_checked *checked, struct kiln_err *err)
{
    for (size_t i = 0; i < set->view->count; i++) {
        const struct member *there = set->view->members[i];
        const struct package_info *info = package_info(there->package);
        struct kiln_err ignored = KILN_ERR_INIT;
        if (there->directory == OWN && there->signature_counts &&
            package_names_agree(info->name, upload->name, &ignored) == KILN_OK &&
            manifest_edition_compare(&checked->edition, &info->edition) < 0)
            return refuse_older(info, checked, err);
    }
    return KILN_OK;
}

static enum kiln_code protect_signed(const struct package_set *set,
                                     const struct package_upload *upload,
                                     const struct package_checked *checked, struct kiln_err *err)
{
    bool trusted = false;
    enum kiln_code rc = signer_check(set, checked->signer, &trusted, err);
    if (rc)
        return rc;
    if (trusted)
        return upload->allow_downgrade ? KILN_OK : refuse_downgrade(set, upload, checked, err);
    const struct member *there = view_find(set->view, OWN, upload->name);
    if (!there || !there->signature_counts || upload->replace_signed)
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "the installed package is signed by '%s', but %s: install it with a manifest "
                     "made by kilnctl pkg sign, or allow the replacement with kilnctl pkg install "
                     "--replace-signed",
                     package_info(there->package)->signer,
                     checked->only_packed_signed
                         ? "the new file's manifest does not state its content"
                         : "the new file is not signed by a trusted key");
}

static enum kiln_code publish_member(struct package_set *set, const char *name,
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
    KILN_TAKE(member);
    *ret_info = info;
    return KILN_OK;
}

enum kiln_code package_set_adopt(struct package_set *set, const struct package_upload *upload,
                                 const struct package_checked *checked,
                                 struct package_info *ret_info, struct kiln_err *err)
{
    struct package_record record = { .sha256 = upload->sha256,
                                     .edition = checked->edition,
                                     .rows = checked->rows,
                                     .installed = clock_wall_s() };
    snprintf(record.signer, sizeof(record.signer), "%s", checked->signer);
    snprintf(record.source, sizeof(record.source), "%s", upload->source);
    enum kiln_code rc = need_own_directory(set, err);
    if (!rc)
        rc = protect_signed(set, upload, checked, err);
    if (!rc)
        rc = check_unchanged(upload, checked, err);
    if (!rc)
        rc = move_into_place(set, upload, &checked->identity, &record, err);
    if (!rc)
        rc = publish_member(set, upload->name, ret_info, err);
    if (rc)
        return kiln_while(err, "installing '%s'", upload->name);
    refusal_forget(set, OWN, upload->name);
    return KILN_OK;
}

static enum kiln_code deny_foreign(const struct member *member, struct kiln_err *err)
{
    const char *path = package_info(member->package)->path;
    return kiln_fail(err, KILN_DENIED,
                     "'%s' was not installed by kiln: remove the distribution's package that owns "
                     "it (shown by dpkg -S '%s' or rpm -qf '%s'), or the file itself",
                     path, path, path);
}

static enum kiln_code refuse_absent(struct package_set *set, const char *name, struct kiln_err *err)
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
        return refuse_absent(set, name, err);
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

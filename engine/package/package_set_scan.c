/* SPDX-License-Identifier: MIT */
#include "engine/package/package_set_parts.h"

#include "common/base/array.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The maximum number of packages of one directory that are used. A directory with more files is not
 * meant for packages. */
#define FILES_MAX 4096

struct file {
    size_t directory;
    char name[PACKAGE_NAME_MAX];
    struct file_identity identity;
};

struct scan {
    struct package_set *set;
    void (*changed)(void *context, const struct package_change *change);
    void (*refused)(void *context, const char *text);
    void *context;
    struct file *files;
    size_t count, capacity;
    bool keys_changed;
};

static void report_refused(struct scan *s, const char *text)
{
    if (s->refused)
        s->refused(s->context, text);
}

static void report_changed(struct scan *s, const struct member *member, bool appeared)
{
    struct package_change change = { .appeared = appeared, .info = *package_info(member->package) };
    if (s->changed)
        s->changed(s->context, &change);
}

static bool ends_in(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size > end_size && strcmp(name + size - end_size, end) == 0;
}

static bool is_candidate(const char *name)
{
    enum package_format format;
    return name[0] != '.' && strlen(name) < PACKAGE_NAME_MAX &&
           (package_format_of(name, &format) || ends_in(name, ".kdb.bz2"));
}

static bool add(struct scan *s, const struct file *file)
{
    if (!ARRAY_RESERVE(s->files, s->count, s->capacity, 16))
        return false;
    s->files[s->count++] = *file;
    return true;
}

static bool add_file(struct scan *s, size_t directory, int directory_fd, const char *name)
{
    struct file file = { .directory = directory };
    if (!is_candidate(name) || !file_identity_at(directory_fd, name, &file.identity))
        return true;
    snprintf(file.name, sizeof(file.name), "%s", name);
    return add(s, &file);
}

/* Reports why the directory cannot be read. Reports this again only after the directory was
 * readable. */
static void note_unreadable(struct scan *s, size_t directory, const struct kiln_err *why)
{
    if (!s->set->unreadable[directory])
        report_refused(s, why->text);
    s->set->unreadable[directory] = true;
}

/* Returns KILN_NOT_FOUND, without a message, if there is no directory. Rejects a directory that
 * everybody can write to: any user could put code there, which other users' jobs would run. */
static enum kiln_code open_directory(const char *path, DIR **ret_dir, struct kiln_err *err)
{
    DIR *dir = opendir(path);
    struct stat seen;
    if (!dir && (errno == ENOENT || errno == ENOTDIR))
        return KILN_NOT_FOUND;
    if (!dir)
        return kiln_fail_errno(err, errno, "cannot search '%s' for packages", path);
    if (fstat(dirfd(dir), &seen) == 0 && !(seen.st_mode & S_IWOTH)) {
        *ret_dir = dir;
        return KILN_OK;
    }
    closedir(dir);
    return kiln_fail(
        err, KILN_DENIED,
        "packages in '%s' are not used, because everybody can write to it: chmod o-w it", path);
}

/* Returns KILN_NOT_FOUND, without a message, if there is no directory. */
static enum kiln_code read_directory(struct scan *s, size_t directory, bool *ret_added,
                                     struct kiln_err *err)
{
    DIR *dir = NULL;
    struct dirent *e = NULL;
    size_t before = s->count;
    const char *path = s->set->directories[directory];
    enum kiln_code rc = open_directory(path, &dir, err);
    if (rc)
        return rc;
    while (*ret_added && s->count - before < FILES_MAX && (e = fs_next_entry(dir)))
        *ret_added = add_file(s, directory, dirfd(dir), e->d_name);
    if (!e && errno)
        rc = kiln_fail_errno(err, errno, "cannot search '%s' for packages", path);
    closedir(dir);
    return rc;
}

/* Keeps the packages that were found before, for a directory that cannot be read now. */
static bool add_known_files(struct scan *s, size_t directory)
{
    const struct view *known = s->set->view;
    for (size_t i = 0; i < known->count; i++) {
        const struct member *member = known->members[i];
        struct file file = { .directory = directory, .identity = member->identity };
        if (member->directory != directory)
            continue;
        snprintf(file.name, sizeof(file.name), "%s", package_info(member->package)->name);
        if (!add(s, &file))
            return false;
    }
    return true;
}

static enum kiln_code list_directory(struct scan *s, size_t directory, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    size_t before = s->count;
    bool added = true;
    enum kiln_code rc = read_directory(s, directory, &added, &why);
    if (rc && rc != KILN_NOT_FOUND)
        note_unreadable(s, directory, &why);
    else
        s->set->unreadable[directory] = false;
    if (package_failure_is_temporary(rc)) {
        s->count = before;
        added = add_known_files(s, directory);
    }
    return added ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory to list packages");
}

/* Checks whether keys were added or removed, because that also affects packages whose files did not
 * change. */
static void check_keys_changed(struct scan *s)
{
    struct stat seen;
    int64_t changed = 0;
    if (s->set->keys_directory[0] && stat(s->set->keys_directory, &seen) == 0)
        changed = seen.st_mtim.tv_sec * INT64_C(1000000000) + seen.st_mtim.tv_nsec;
    s->keys_changed = changed != s->set->keys_changed_ns;
    s->set->keys_changed_ns = changed;
}

static struct refusal *refusal_find(struct package_set *set, size_t directory, const char *name)
{
    for (size_t i = 0; i < set->refusal_count; i++) {
        struct refusal *refusal = &set->refusals[i];
        if (refusal->directory == directory && strcmp(refusal->name, name) == 0)
            return refusal;
    }
    return NULL;
}

static void refusal_drop(struct package_set *set, struct refusal *refusal)
{
    pthread_mutex_lock(&set->refusals_mutex);
    free(refusal->name);
    *refusal = set->refusals[--set->refusal_count];
    pthread_mutex_unlock(&set->refusals_mutex);
}

void refusal_forget(struct package_set *set, size_t directory, const char *name)
{
    struct refusal *refusal = refusal_find(set, directory, name);
    if (refusal)
        refusal_drop(set, refusal);
}

/* The caller holds refusals_mutex. */
static struct refusal *refusal_add(struct package_set *set, const struct file *file)
{
    struct refusal *grown =
        realloc(set->refusals, (set->refusal_count + 1) * sizeof(*set->refusals));
    if (!grown)
        return NULL;
    set->refusals = grown;
    char *name = strdup(file->name);
    if (!name)
        return NULL;
    struct refusal *refusal = &set->refusals[set->refusal_count++];
    *refusal = (struct refusal){ .directory = file->directory, .name = name };
    return refusal;
}

static bool refusal_note(struct package_set *set, const struct file *file,
                         const struct kiln_err *why)
{
    struct refusal *refusal = refusal_find(set, file->directory, file->name);
    bool temporary = package_failure_is_temporary(why->code);
    bool is_new = !refusal || !temporary || !refusal->temporary ||
                  !file_identity_equal(&refusal->identity, &file->identity);
    if (!refusal)
        refusal = refusal_add(set, file);
    if (!refusal)
        return true;
    refusal->identity = file->identity;
    refusal->temporary = temporary;
    refusal->reported = why->code != KILN_BUSY;
    refusal->seen = true;
    snprintf(refusal->text, sizeof(refusal->text), "%.500s", why->text);
    return is_new;
}

/* Reports a file that cannot be opened. An incomplete file (KILN_BUSY) may be a copy in progress,
 * so it is reported only if the next rescan finds it unchanged. */
static void refuse_file(struct scan *s, const struct file *file, const struct kiln_err *why)
{
    pthread_mutex_lock(&s->set->refusals_mutex);
    bool is_new = refusal_note(s->set, file, why);
    pthread_mutex_unlock(&s->set->refusals_mutex);
    if (is_new && why->code != KILN_BUSY)
        report_refused(s, why->text);
}

/* Returns whether |file| was rejected before for its content, and has not changed since. */
static bool is_refused(struct scan *s, const struct file *file)
{
    struct refusal *refusal = refusal_find(s->set, file->directory, file->name);
    if (!refusal || refusal->temporary || s->keys_changed ||
        !file_identity_equal(&refusal->identity, &file->identity))
        return false;
    refusal->seen = true;
    if (!refusal->reported)
        report_refused(s, refusal->text);
    refusal->reported = true;
    return true;
}

static void forget_vanished(struct package_set *set)
{
    for (size_t i = set->refusal_count; i-- > 0;) {
        if (!set->refusals[i].seen)
            refusal_drop(set, &set->refusals[i]);
        else
            set->refusals[i].seen = false;
    }
}

/* Returns whether a check of the package's signer gives the same result as before. If the keys
 * cannot be read now, returns true, and the next rescan checks the signer. */
static bool is_trusted_as_before(const struct scan *s, const struct member *member)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    bool trusted = false;
    if (!signer_check(s->set, package_info(member->package)->signer, &trusted, &ignored))
        return trusted == member->signature_counts;
    s->set->keys_changed_ns = KEYS_UNKNOWN;
    return true;
}

static bool is_unchanged(const struct scan *s, const struct member *member, const struct file *file)
{
    return member && file_identity_equal(&member->identity, &file->identity) &&
           (!s->keys_changed || is_trusted_as_before(s, member));
}

static enum kiln_code open_file(struct scan *s, const struct file *file, struct member **ret_member,
                                struct kiln_err *err)
{
    const char *directory = s->set->directories[file->directory];
    if (ends_in(file->name, ".bz2"))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "'%s/%s' must be unpacked: kilnctl pkg install '%s/%s'", directory,
                         file->name, directory, file->name);
    return member_open(s->set, file->directory, file->name, ret_member, err);
}

/* Returns the open package if the file is unchanged, otherwise opens the file. Returns NULL if the
 * file is rejected. */
static struct member *member_for_file(struct scan *s, const struct view *old,
                                      const struct file *file)
{
    struct member *member = view_find(old, file->directory, file->name);
    if (is_unchanged(s, member, file))
        return member;
    if (is_refused(s, file))
        return NULL;
    struct kiln_err why = KILN_ERR_INIT;
    struct member *opened = NULL;
    enum kiln_code rc = open_file(s, file, &opened, &why);
    if (rc) {
        if (rc != KILN_NOT_FOUND) /* KILN_NOT_FOUND: the file was removed during the scan */
            refuse_file(s, file, &why);
        return NULL;
    }
    refusal_forget(s->set, file->directory, file->name);
    return opened;
}

static bool has_member(const struct view *view, const struct member *member)
{
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i] == member)
            return true;
    }
    return false;
}

/* Reports the packages that are in only one of the views, and returns whether there are any. */
static bool report_difference(struct scan *s, const struct view *old, const struct view *fresh)
{
    bool differ = false;
    for (size_t i = 0; i < old->count; i++) {
        if (has_member(fresh, old->members[i]))
            continue;
        report_changed(s, old->members[i], /* appeared= */ false);
        differ = true;
    }
    for (size_t i = 0; i < fresh->count; i++) {
        if (has_member(old, fresh->members[i]))
            continue;
        report_changed(s, fresh->members[i], /* appeared= */ true);
        differ = true;
    }
    return differ;
}

static enum kiln_code update_view(struct scan *s, struct kiln_err *err)
{
    struct view *fresh = view_create(s->count + s->set->built_in_count);
    if (!fresh)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to list packages");
    /* Safe without the mutex, because only the write queue replaces |set->view|. */
    struct view *old = s->set->view;
    for (size_t i = 0; i < s->count; i++) {
        struct member *member = member_for_file(s, old, &s->files[i]);
        if (member)
            fresh->members[fresh->count++] = member;
    }
    for (size_t i = 0; i < s->set->built_in_count; i++)
        fresh->members[fresh->count++] = s->set->built_in[i];
    forget_vanished(s->set);
    if (report_difference(s, old, fresh))
        view_replace(s->set, fresh);
    else
        free(fresh);
    return KILN_OK;
}

enum kiln_code package_set_rescan(struct package_set *set,
                                  void (*changed)(void *context, const struct package_change *),
                                  void (*refused)(void *context, const char *text), void *context,
                                  struct kiln_err *err)
{
    struct scan s = { .set = set, .changed = changed, .refused = refused, .context = context };
    check_keys_changed(&s);
    enum kiln_code rc = KILN_OK;
    for (size_t directory = 0; !rc && directory < set->directory_count; directory++)
        rc = list_directory(&s, directory, err);
    if (!rc)
        rc = update_view(&s, err);
    if (rc)
        set->keys_changed_ns = KEYS_UNKNOWN; /* the next rescan must check the signatures */
    free(s.files);
    return rc;
}

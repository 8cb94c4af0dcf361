/* SPDX-License-Identifier: MIT */
#include "engine/package/package_set_parts.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct view *view_create(size_t count)
{
    struct view *view = calloc(1, sizeof(*view) + count * sizeof(view->members[0]));
    if (view)
        view->refs = 1;
    return view;
}

struct view *view_take(struct package_set *set)
{
    pthread_mutex_lock(&set->mutex);
    struct view *view = set->view;
    view->refs++;
    pthread_mutex_unlock(&set->mutex);
    return view;
}

void member_destroy(struct member *member)
{
    if (!member)
        return;
    package_destroy(member->package);
    free(member);
}

/* Drops the references of a view that has no users left. Moves the members that no other view has
 * to the front of |view| and returns their number, so that the caller can close their files without
 * holding the mutex. */
static size_t unref_members(struct view *view)
{
    size_t gone = 0;
    for (size_t i = 0; i < view->count; i++) {
        if (--view->members[i]->refs == 0)
            view->members[gone++] = view->members[i];
    }
    return gone;
}

void view_return(struct package_set *set, struct view *view)
{
    if (!view)
        return;
    pthread_mutex_lock(&set->mutex);
    bool last = --view->refs == 0;
    size_t gone = last ? unref_members(view) : 0;
    pthread_mutex_unlock(&set->mutex);
    if (!last)
        return;
    for (size_t i = 0; i < gone; i++)
        member_destroy(view->members[i]);
    free(view);
}

enum rank { RANK_SIGNED, RANK_UNSIGNED, RANK_BUILT_IN };

static enum rank rank_of(const struct member *member)
{
    return member->is_built_in        ? RANK_BUILT_IN
           : member->signature_counts ? RANK_SIGNED
                                      : RANK_UNSIGNED;
}

/* Sorts signed packages first, because their origin is known. Sorts newer editions before older
 * ones, because a new edition may correct faults of an old one. */
static int by_trust(const void *left, const void *right)
{
    const struct member *a = *(struct member *const *)left, *b = *(struct member *const *)right;
    const struct package_info *x = package_info(a->package), *y = package_info(b->package);
    int order = (int)rank_of(a) - (int)rank_of(b);
    if (!order && rank_of(a) == RANK_SIGNED)
        order = manifest_edition_compare(&y->edition, &x->edition);
    if (!order)
        order = (a->directory > b->directory) - (a->directory < b->directory);
    return order ? order : strcmp(x->name, y->name);
}

void view_replace(struct package_set *set, struct view *view)
{
    if (view->count)
        qsort(view->members, view->count, sizeof(view->members[0]), by_trust);
    pthread_mutex_lock(&set->mutex);
    for (size_t i = 0; i < view->count; i++)
        view->members[i]->refs++;
    struct view *old = set->view;
    set->view = view;
    pthread_mutex_unlock(&set->mutex);
    view_return(set, old);
}

struct member *view_find(const struct view *view, size_t directory, const char *name)
{
    for (size_t i = 0; i < view->count; i++) {
        struct member *member = view->members[i];
        if (member->directory == directory &&
            strcmp(package_info(member->package)->name, name) == 0)
            return member;
    }
    return NULL;
}

#define BUILT_IN "built into this program"

enum kiln_code need_own_directory(const struct package_set *set, struct kiln_err *err)
{
    if (set->directory_count > 0)
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "this program has no package directory, only built-in packages");
}

/* Creates the directory if it is absent. Refuses a directory that other users can write to: these
 * users could decide which code runs on the GPUs. */
static enum kiln_code prepare_directory(const char *path, struct kiln_err *err)
{
    bool fresh = access(path, F_OK) != 0;
    enum kiln_code rc = fs_make_directories(path, err);
    struct stat seen;
    if (rc)
        return rc;
    if (fresh && chmod(path, 0755) != 0)
        return kiln_fail_errno(err, errno, "cannot set the permissions of the directory '%s'",
                               path);
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot examine the directory '%s'", path);
    if ((seen.st_mode & (S_IWGRP | S_IWOTH)) || (seen.st_uid != geteuid() && seen.st_uid != 0))
        return kiln_fail(
            err, KILN_DENIED,
            "other users can write to the package directory '%s': chown it to this user and "
            "chmod 755 it, or configure another directory",
            path);
    return KILN_OK;
}

static enum kiln_code copy_options(struct package_set *set,
                                   const struct package_set_options *options, struct kiln_err *err)
{
    size_t count = options->own_directory ? 1 : 0;
    while (count && options->other_directories && options->other_directories[count - 1])
        count++;
    set->directories = calloc(count + 1, sizeof(*set->directories));
    set->unreadable = calloc(count + 1, sizeof(*set->unreadable));
    set->keys_directory =
        strdup(options->trusted_keys_directory ? options->trusted_keys_directory : "");
    set->readers = options->readers;
    set->require_signature = options->require_signature;
    set->data = options->data;
    bool whole = set->directories && set->unreadable && set->keys_directory;
    set->directory_count = whole ? count : 0;
    for (size_t i = 0; whole && i <= count; i++) {
        set->directories[i] = strdup(i == count ? BUILT_IN
                                     : i        ? options->other_directories[i - 1]
                                                : options->own_directory);
        whole = set->directories[i];
    }
    return whole ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory for the packages");
}

enum kiln_code package_set_create(const struct package_set_options *options,
                                  struct package_set **ret_set, struct kiln_err *err)
{
    KILN_AUTO(package_set) struct package_set *set = calloc(1, sizeof(*set));
    if (!set)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the packages");
    pthread_mutex_init(&set->mutex, NULL);
    pthread_mutex_init(&set->refusals_mutex, NULL);
    enum kiln_code rc = copy_options(set, options, err);
    if (!rc && !(set->view = view_create(0)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the packages");
    if (!rc && options->own_directory)
        rc = prepare_directory(options->own_directory, err);
    if (!rc)
        rc = members_open_built_in(set, err);
    if (!rc)
        *ret_set = KILN_TAKE(set);
    return rc;
}

void package_set_destroy(struct package_set *set)
{
    if (!set)
        return;
    view_return(set, set->view);
    for (size_t i = 0; i < set->refusal_count; i++)
        free(set->refusals[i].name);
    free(set->refusals);
    for (size_t i = 0; i < set->built_in_count; i++)
        member_destroy(set->built_in[i]);
    free(set->built_in);
    for (size_t i = 0; set->directories && i <= set->directory_count; i++)
        free(set->directories[i]);
    free(set->directories);
    free(set->unreadable);
    free(set->keys_directory);
    pthread_mutex_destroy(&set->mutex);
    pthread_mutex_destroy(&set->refusals_mutex);
    free(set);
}

void package_set_list(struct package_set *set,
                      void (*each)(void *context, const struct package_info *info,
                                   const struct package_signature *signature),
                      void *context)
{
    struct view *view = view_take(set);
    for (size_t i = 0; i < view->count; i++) {
        struct package *package = view->members[i]->package;
        struct package_info info = *package_info(package);
        struct kiln_err why = KILN_ERR_INIT;
        if (package_rows(package, &info.rows, &why))
            info.rows = 0; /* the file is damaged; look-ups report that, and `pkg verify` shows
                            * details */
        struct package_signature signature;
        package_set_signature(set, package, &signature);
        each(context, &info, &signature);
    }
    view_return(set, view);
}

void package_set_list_refused(struct package_set *set,
                              void (*each)(void *context, const char *directory, const char *name,
                                           const char *why),
                              void *context)
{
    pthread_mutex_lock(&set->refusals_mutex);
    for (size_t i = 0; i < set->refusal_count; i++) {
        const struct refusal *refusal = &set->refusals[i];
        each(context, set->directories[refusal->directory], refusal->name, refusal->text);
    }
    pthread_mutex_unlock(&set->refusals_mutex);
}

static void list_names(const struct view *view, char names[256])
{
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < view->count && used < 255; i++) {
        const char *name = package_info(view->members[i]->package)->name;
        int put = snprintf(names + used, 256 - used, "%s%.64s", used ? ", " : "", name);
        used += put > 0 ? (size_t)put : 0;
    }
}

enum kiln_code package_set_use(struct package_set *set, const char *name,
                               enum kiln_code (*use)(void *context, struct package *package,
                                                     struct kiln_err *err),
                               void *context, struct kiln_err *err)
{
    struct view *view = view_take(set);
    struct member *member = NULL;
    for (size_t directory = 0; !member && directory <= set->directory_count; directory++)
        member = view_find(view, directory, name);
    char names[256];
    list_names(view, names);
    enum kiln_code rc = member
                            ? use(context, member->package, err)
                            : kiln_fail(err, KILN_NOT_FOUND,
                                        "no package '%.80s' is installed; installed packages: %s",
                                        name, names[0] ? names : "none");
    view_return(set, view);
    return rc;
}

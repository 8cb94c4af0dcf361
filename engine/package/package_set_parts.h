/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of the package set. Not for other directories.
 *
 * A view is an immutable list of all packages at one moment. A lookup keeps the view with which it
 * started, even if the write queue installs a new one.  A member (one open package) is destroyed
 * with the last view that contains it.
 *
 * Ownership  the set owns its current view, and views own their members; both are counted
 * Threading  see package_set.h; the mutex protects the view and all counts
 */
#include "engine/package/package_set.h"

#include <pthread.h>

struct member {
    /* Number of views that contain the member; protected by the set's mutex. */
    unsigned refs;
    struct package *package; /* owned */
    struct file_identity identity;
    size_t directory; /* index of the member's directory; directory_count if the package is built
                       * into the program */
    bool signature_counts, is_built_in;
    char id[DATABASE_ID_MAX];
};

struct view {
    unsigned refs; /* protected by the set's mutex */
    size_t count;
    struct member *members[]; /* counted references; in the order of the search */
};

struct refusal { /* a file that was rejected as a package */
    size_t directory;
    char *name; /* owned */
    struct file_identity identity;
    char text[512];
    bool temporary; /* every rescan tries the file again */
    bool reported;
    bool seen; /* the current rescan has found the file */
};

#define KEYS_UNKNOWN INT64_MIN /* no modification time */

struct package_set {
    pthread_mutex_t mutex; /* protects the view and all counts */
    struct view *view;     /* counted */

    /* The members below are only used on the write queue, or never change. */
    /* Owned; the first is kiln's own, and one more entry at the end is for built-in packages. */
    char **directories;
    size_t directory_count;
    const struct engine_data *data; /* borrowed; may be NULL */
    struct member *
        *built_in; /* owned; each member has one permanent reference; damaged items are left out */
    size_t built_in_count;
    char *keys_directory;    /* owned */
    int64_t keys_changed_ns; /* KEYS_UNKNOWN: the next rescan checks all signatures again */
    unsigned readers;
    bool require_signature;
    struct refusal *refusals; /* owned; only the write queue changes it, with refusals_mutex locked;
                               * other threads lock this mutex to read it */
    size_t refusal_count;
    pthread_mutex_t refusals_mutex;
    bool *unreadable; /* owned; whether an unreadable directory has been reported */
};

/* Returns the current view; release it with view_return. */
struct view *view_take(struct package_set *set);
void view_return(struct package_set *set, struct view *view);
/* Takes ownership of |view|, sorts it and takes references to its members. */
void view_replace(struct package_set *set, struct view *view);
/* Allocates a view for |count| members; NULL if out of memory. */
struct view *view_create(size_t count);
/* Returns the member |name| of |directory|, or NULL if there is none. */
struct member *view_find(const struct view *view, size_t directory, const char *name);

void member_destroy(struct member *member);
KILN_DEFINE_AUTO(member)
/* Opens the file |name| of |directory| and does all checks that it needs. */
KILN_MUST_CHECK enum kiln_code member_open(const struct package_set *set, size_t directory,
                                           const char *name, struct member **ret_member,
                                           struct kiln_err *err);
/* Opens the built-in packages that are not damaged. */
KILN_MUST_CHECK enum kiln_code members_open_built_in(struct package_set *set, struct kiln_err *err);
/* Checks that the set has a directory for installed packages.  Returns KILN_UNSUPPORTED if not. */
KILN_MUST_CHECK enum kiln_code need_own_directory(const struct package_set *set,
                                                  struct kiln_err *err);
/* Removes |name| of |directory| from the rejected files. */
void refusal_forget(struct package_set *set, size_t directory, const char *name);
/* Finds out whether a key named |signer| is trusted now.  No key has the name "".  Fails only if a
 * later attempt may succeed. */
KILN_MUST_CHECK enum kiln_code signer_check(const struct package_set *set, const char *signer,
                                            bool *ret_trusted, struct kiln_err *err);

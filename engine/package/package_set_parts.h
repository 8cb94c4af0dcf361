/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of the package set. Not for other directories.
 *
 * A view is an immutable list of all packages at one moment. A lookup keeps the view it started
 * with, while the write queue installs a new one. A member is destroyed with the last view that
 * contains it.
 *
 * Ownership  the set owns its current view, and views own their members; both are counted
 * Threading  as in package_set.h; the mutex guards the view and all counts
 */
#include "engine/package/package_set.h"

#include <pthread.h>

struct member {
    unsigned refs;           /* number of views that contain it; guarded by the set's mutex */
    struct package *package; /* owned */
    struct file_identity identity;
    size_t directory; /* index in the set; directory_count: built into the program */
    bool signature_counts, is_built_in;
    char id[DATABASE_ID_MAX];
};

struct view {
    unsigned refs; /* guarded by the set's mutex */
    size_t count;
    struct member *members[]; /* references counted; in search order */
};

struct refusal { /* a file that was refused as a package */
    size_t directory;
    char *name; /* owned */
    struct file_identity identity;
    char text[512];
    bool reported;
    bool seen; /* by the current rescan */
};

struct package_set {
    pthread_mutex_t mutex; /* guards view and all refs */
    struct view *view;     /* reference counted */

    /* The rest is used only on the write queue, or never changes. */
    char **directories; /* owned; the first is kiln's own; the entry after the last one stands for
                           built-in packages */
    size_t directory_count;
    const struct engine_data *data; /* borrowed; may be NULL */
    struct member *
        *built_in; /* owned; each has one permanent reference; damaged items are left out */
    size_t built_in_count;
    char *keys_directory; /* owned */
    int64_t keys_changed_ns;
    unsigned readers;
    bool require_signature;
    struct refusal
        *refusals; /* owned; written under refusals_mutex, so that any thread may read it there */
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
/* Member |name| of |directory|; NULL if there is none. */
struct member *view_find(const struct view *view, size_t directory, const char *name);

void member_destroy(struct member *member);
KILN_DEFINE_AUTO(member)
/* Opens the file |name| of |directory| and does all checks that it needs. */
KILN_MUST_CHECK enum kiln_code member_open(const struct package_set *set, size_t directory,
                                           const char *name, struct member **ret_member,
                                           struct kiln_err *err);
/* Opens the built-in packages that are not damaged. */
KILN_MUST_CHECK enum kiln_code members_open_built_in(struct package_set *set, struct kiln_err *err);
/* KILN_UNSUPPORTED if the set has no directory for installing packages. */
KILN_MUST_CHECK enum kiln_code need_own_directory(const struct package_set *set,
                                                  struct kiln_err *err);
/* Forgets that |name| of |directory| was refused. */
void refusal_forget(struct package_set *set, size_t directory, const char *name);
/* Whether a key of that name is trusted now. */
bool signer_is_trusted(const struct package_set *set, const char *signer);

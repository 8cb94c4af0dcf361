/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of the package set. Not for other directories.
 *
 * A view is an immutable list of all packages at one moment. A look-up keeps the view with which it
 * started, even if the write queue installs a new one. A member (one open package) is destroyed
 * with the last view that contains it.
 *
 * Ownership  the set owns its current view, and views own their members; both are reference-counted
 * Threading  see package_set.h; the mutex protects the view and all reference counts
 */
#include "engine/package/package_set.h"

#include <pthread.h>

struct member {
    unsigned refs;
    struct package *package;
    struct file_identity identity;
    size_t directory; /* index in the set's |directories|; directory_count if the package is
                       * built into the program */
    bool signature_counts, is_built_in;
    char id[DATABASE_ID_MAX];
};

struct view {
    unsigned refs;
    size_t count;
    struct member *members[];
};

struct refusal {
    size_t directory;
    char *name;
    struct file_identity identity;
    char text[512];
    bool temporary;
    bool reported;
    bool seen;
};

#define KEYS_UNKNOWN INT64_MIN

struct package_set {
    pthread_mutex_t mutex; /* protects the view and all reference counts */
    struct view *view;

    /* The members from here on are only used on the write queue, or never change. */
    /* The first directory is kiln's own. The last entry is for built-in packages. */
    char **directories;
    size_t directory_count;
    const struct engine_data *data;
    struct member **built_in; /* only undamaged packages; the set holds a reference to each */
    size_t built_in_count;
    char *keys_directory;
    int64_t keys_changed_ns; /* KEYS_UNKNOWN: the next rescan checks all signatures again */
    unsigned readers;
    bool require_signature;
    struct refusal *refusals; /* the write queue changes it; other threads must hold refusals_mutex
                               * to read it */
    size_t refusal_count;
    pthread_mutex_t refusals_mutex;
    bool *unreadable; /* by directory; true: a message has said that the directory is unreadable */
};

/* Must be followed by view_return. */
struct view *view_take(struct package_set *set);
void view_return(struct package_set *set, struct view *view);
/* Takes ownership of |view|, sorts it and takes references to its members. */
void view_replace(struct package_set *set, struct view *view);
/* Returns NULL if memory runs out. */
struct view *view_create(size_t count);
struct member *view_find(const struct view *view, size_t directory, const char *name);

void member_destroy(struct member *member);
KILN_DEFINE_AUTO(member)
KILN_MUST_CHECK enum kiln_code member_open(const struct package_set *set, size_t directory,
                                           const char *name, struct member **ret_member,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code members_open_built_in(struct package_set *set, struct kiln_err *err);
/* Returns KILN_UNSUPPORTED if there is no directory for installed packages. */
KILN_MUST_CHECK enum kiln_code need_own_directory(const struct package_set *set,
                                                  struct kiln_err *err);
void refusal_forget(struct package_set *set, size_t directory, const char *name);
/* Finds out whether a trusted key has the name |signer|; no key has the name "". Fails only if a
 * later attempt may succeed. */
KILN_MUST_CHECK enum kiln_code signer_check(const struct package_set *set, const char *signer,
                                            bool *ret_trusted, struct kiln_err *err);

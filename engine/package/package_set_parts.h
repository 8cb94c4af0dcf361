/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of the package set share.  Not for other directories.
 *
 * A view is all packages at one moment.  Look-ups hold the one they began with; the write lane puts
 * another in its place.  A member goes with the last view that has it.
 */
#include "engine/package/package_set.h"

#include <pthread.h>

struct member {
    unsigned refs;           /* views that have it; guarded by the set's mutex */
    struct package *package; /* owned */
    struct file_identity identity;
    size_t directory; /* of the set; its directory_count: built into the program */
    bool signature_counts;
    char id[DATABASE_ID_MAX];
};

struct view {
    unsigned refs; /* guarded by the set's mutex */
    size_t count;
    struct member *members[]; /* counted; by directory, then by name */
};

struct refusal { /* a file that is no package */
    size_t directory;
    char *name; /* owned */
    struct file_identity identity;
    char text[512];
    bool reported;
    bool seen; /* by the rescan under way */
};

struct package_set {
    pthread_mutex_t mutex; /* guards view and all refs */
    struct view *view;     /* counted */

    /* The rest is the write lane's, or never changes. */
    char **directories; /* owned; the first is kiln's own; behind the last one's what built-in ones
                       have for a directory */
    size_t directory_count;
    const struct engine_data *data; /* borrowed; may be NULL */
    struct member **built_in;       /* owned; each counted once for ever; none of a damaged item */
    size_t built_in_count;
    char *keys_directory; /* owned */
    int64_t keys_changed_ns;
    unsigned readers;
    bool require_signature;
    struct refusal *refusals; /* owned; written under refusals_mutex, so that all may read there */
    size_t refusal_count;
    pthread_mutex_t refusals_mutex;
    bool *unreadable; /* owned; a directory that could not be read, and that was told */
};

/* The view of now; view_return it. */
struct view *view_take(struct package_set *set);
void view_return(struct package_set *set, struct view *view);
/* Takes |view|, which is sorted here and counts its members from now on. */
void view_replace(struct package_set *set, struct view *view);
/* Room for |count| members; NULL when out of memory. */
struct view *view_create(size_t count);
/* Member |name| of |directory|, NULL when there is none. */
struct member *view_find(const struct view *view, size_t directory, const char *name);

void member_destroy(struct member *member);
KILN_DEFINE_AUTO(member)
/* Opens file |name| of |directory|, with all that must be checked of it. */
KILN_MUST_CHECK enum kiln_code member_open(const struct package_set *set, size_t directory,
                                           const char *name, struct member **ret_member,
                                           struct kiln_err *err);
/* Opens what is built in and not damaged. */
KILN_MUST_CHECK enum kiln_code members_open_built_in(struct package_set *set, struct kiln_err *err);
/* KILN_UNSUPPORTED where there is no directory that packages could be put into. */
KILN_MUST_CHECK enum kiln_code need_own_directory(const struct package_set *set,
                                                  struct kiln_err *err);
/* Forgets that |name| of |directory| was refused. */
void refusal_forget(struct package_set *set, size_t directory, const char *name);
/* Whether a key of that name is trusted now. */
bool signer_is_trusted(const struct package_set *set, const char *signer);

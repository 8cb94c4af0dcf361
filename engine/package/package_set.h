/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All packages of this host.
 *
 * Role       looks into folders for packages, opens what appeared, lets go of what went, answers by
 *            MIOpen's rule: the database id with its compute units first, then the plain arch
 * Ownership  owns the packages; one that is in use by a look-up goes when that ends
 * Threading  find, list: any thread, several at once.  rescan, adopt, remove: one thread at a time
 *            (the write lane)
 *
 * The first folder is kiln's own (installed packages, FILE and FILE.json with what was checked);
 * others (a distribution's) are only read.  A file that is no package is told once and left alone.
 */
#include "engine/package/package.h"

struct package_set;

struct package_set_options {
    const char *own_folder;           /* made if absent, mode 0755 */
    const char *const *other_folders; /* NULL-terminated; may be absent, may appear later */
    const char *trusted_keys_folder;  /* *.pub */
    unsigned readers;                 /* threads that find at once */
    bool require_signature;           /* unsigned packages are not opened */
};

KILN_MUST_CHECK enum kiln_code package_set_create(const struct package_set_options *options,
                                                  struct package_set **ret_set,
                                                  struct kiln_err *err);
void package_set_destroy(struct package_set *set);
KILN_DEFINE_AUTO(package_set)

struct package_change {
    bool appeared; /* else it went */
    struct package_info info;
};
/* Looks at the folders again.  |changed| is told of each package that came or went, |refused| of
 * each file that is none, once (again when the file changes). */
KILN_MUST_CHECK enum kiln_code package_set_rescan(
    struct package_set *set, void (*changed)(void *context, const struct package_change *),
    void (*refused)(void *context, const char *text), void *context, struct kiln_err *err);

struct package_found {
    char package[PACKAGE_NAME_MOST]; /* which one had it */
    struct package_hit hit;
    char damaged[PACKAGE_NAME_MOST]; /* one whose row failed its check on the way; "" when none */
    char damage[256];                /* the sentence about it */
};
/* KILN_NOT_FOUND without a sentence.  A damaged row is as if it were not there: the next package
 * that fits is asked, and |ret_found| tells of it in either case. */
KILN_MUST_CHECK enum kiln_code package_set_find_named(struct package_set *set,
                                                      struct bytes database_id, struct bytes name,
                                                      struct bytes args, struct buffer *ret_raw,
                                                      struct package_found *ret_found,
                                                      struct kiln_err *err);
/* Only signed kiln packages are asked. */
KILN_MUST_CHECK enum kiln_code package_set_find_key(struct package_set *set,
                                                    const struct digest *key,
                                                    struct buffer *ret_raw,
                                                    struct package_found *ret_found,
                                                    struct kiln_err *err);
/* Whether any package could answer for this database id. */
bool package_set_covers(struct package_set *set, struct bytes database_id);

void package_set_list(struct package_set *set,
                      void (*each)(void *context, const struct package_info *info), void *context);
/* Calls |use| with the package of that file name, which stays open meanwhile.  KILN_NOT_FOUND
 * naming what is installed. */
KILN_MUST_CHECK enum kiln_code package_set_use(struct package_set *set, const char *name,
                                               enum kiln_code (*use)(void *context,
                                                                     struct package *package,
                                                                     struct kiln_err *err),
                                               void *context, struct kiln_err *err);

struct package_arrival { /* a file that kiln-transfer has fetched, unpacked and checked */
    const char *path;    /* in own_folder/incoming: on the same filesystem */
    const char *name;    /* "gfx90a68.kdb" */
    struct digest sha256;
    const char *signer; /* "" when unsigned */
    const char *source; /* URL or path, for show */
};
/* Moves it into place (rename, synced) and opens it; one of the same name is replaced in the same
 * step. */
KILN_MUST_CHECK enum kiln_code package_set_adopt(struct package_set *set,
                                                 const struct package_arrival *arrival,
                                                 struct package_info *ret_info,
                                                 struct kiln_err *err);
/* KILN_DENIED for a package of another folder: it says how to remove that. */
KILN_MUST_CHECK enum kiln_code package_set_remove(struct package_set *set, const char *name,
                                                  struct package_info *ret_info,
                                                  struct kiln_err *err);

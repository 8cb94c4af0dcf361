/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All packages of this host.
 *
 * Role       looks into directories for packages, opens what appeared, lets go of what went,
 * answers by MIOpen's rule: the database id with its compute units first, then the plain arch
 * Ownership  owns the packages; one that is in use by a look-up goes when that ends
 * Threading  find, covers, list, list_refused, use, coverage, check: any thread, several at once.
 * rescan, adopt, remove: one thread at a time (the write lane)
 *
 * The first directory is kiln's own (installed packages, FILE and FILE.json with what was checked);
 * others (a distribution's) are only read.  Packages of one id are asked in the order of their
 * directories, then of their names; those that are built into the program come last.
 */
#include "engine/package/manifest.h"
#include "engine/package/package.h"
#include "engine/package/package_file.h"

struct package_set;

struct package_set_options {
    const char *own_directory; /* made if absent, mode 0755; KILN_DENIED when others may write to
                               it. NULL: there are none but those of |data| */
    const struct engine_data *data;       /* borrowed: packages that are built in; believed, as the
                                             program   is.  May be NULL */
    const char *const *other_directories; /* NULL-terminated (or NULL); may be absent, may appear
                                         later; not looked into while everybody may write to them */
    const char *trusted_keys_directory;   /* *.pub: a signature counts while its key is there; NULL:
                                          none is trusted */
    unsigned readers;                     /* threads that find at once */
    bool require_signature;               /* unsigned packages are not opened */
};

/* Empty until the first rescan. */
KILN_MUST_CHECK enum kiln_code package_set_create(const struct package_set_options *options,
                                                  struct package_set **ret_set,
                                                  struct kiln_err *err);
void package_set_destroy(struct package_set *set);
KILN_DEFINE_AUTO(package_set)

struct package_change {
    bool appeared; /* else it went */
    struct package_info info;
};
/* Looks at the directories again; only at names, sizes and times where nothing changed.  |changed|
 * is told of each package that came or went (of one that was replaced: went, then appeared),
 * |refused| of each file that could not be opened, once until it changes.  A file that is not whole
 * is told when it did not change from one rescan to the next: while it is being copied, nothing is
 * said. */
KILN_MUST_CHECK enum kiln_code package_set_rescan(
    struct package_set *set, void (*changed)(void *context, const struct package_change *),
    void (*refused)(void *context, const char *text), void *context, struct kiln_err *err);

#define PACKAGE_ROW_TEXT 160 /* longer names are cut */

struct package_found {
    char package[PACKAGE_NAME_MAX]; /* which one had it */
    struct package_hit hit;
    char damaged[PACKAGE_NAME_MAX]; /* one whose row failed its check on the way; "" when none */
    char damage[256];               /* the sentence about it */
    char damaged_row[PACKAGE_ROW_TEXT]; /* which one: its kernel's name, or its key; "" when the
                                           package itself found nothing wrong */
};
/* KILN_NOT_FOUND without a sentence.  A damaged row is as if it were not there: the next package
 * that fits is asked, and |ret_found| tells of it in either case (it is always written). */
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
/* The first package for the same arch but other compute units that has such a row, right: MIOpen's
 * rule asks none of them.  KILN_NOT_FOUND without a sentence. */
KILN_MUST_CHECK enum kiln_code package_set_find_elsewhere(struct package_set *set,
                                                          struct bytes database_id,
                                                          struct bytes name, struct bytes args,
                                                          char ret_package[PACKAGE_NAME_MAX],
                                                          char ret_id[DATABASE_ID_MAX]);
/* As package_shun, of every package with that file name. */
void package_set_shun(struct package_set *set, const char *package, struct bytes name,
                      struct bytes args);
/* Whether any package could answer for this database id. */
bool package_set_covers(struct package_set *set, struct bytes database_id);
/* Whether a package that is built into the program and could answer for this database id is
 * damaged: as a whole, or in a row that was asked for.  |ret_name| is the first one's. */
bool package_set_built_in_is_damaged(struct package_set *set, struct bytes database_id,
                                     char ret_name[PACKAGE_NAME_MAX]);
/* Whether any signed kiln package is there: find_key is a miss otherwise. */
bool package_set_has_keys(struct package_set *set);

/* In the order in which they are asked.  Rows are counted where they were not: not for the loop. */
void package_set_list(struct package_set *set,
                      void (*each)(void *context, const struct package_info *info), void *context);
/* Files named like packages that are not used, in no order: |directory| and name, and the sentence
 * that says why not and what to do.  |each| must not call the set. */
void package_set_list_refused(struct package_set *set,
                              void (*each)(void *context, const char *directory, const char *name,
                                           const char *why),
                              void *context);
/* Calls |use| with the package of that file name, which stays open meanwhile.  KILN_NOT_FOUND
 * naming what is installed. */
KILN_MUST_CHECK enum kiln_code package_set_use(struct package_set *set, const char *name,
                                               enum kiln_code (*use)(void *context,
                                                                     struct package *package,
                                                                     struct kiln_err *err),
                                               void *context, struct kiln_err *err);

struct package_arrival { /* a file that kiln-transfer has fetched, unpacked and checked */
    const char *path;    /* in own_directory/incoming: on the same filesystem */
    const char *name;    /* "gfx90a68.kdb" */
    struct digest sha256;
    struct bytes manifest; /* empty: none */
    const char *fetched;   /* what the manifest calls the file, packed perhaps */
    const char *wanted;    /* the SHA-256 that who installs it gave, in digits; NULL */
    bool may_be_packed;    /* |wanted| and the manifest speak of a .bz2 */
    const char *source;    /* URL or path, for show */
    bool replace_signed;   /* also one that a trusted key signed, where none signed this */
};

struct package_checked { /* a file that was found to be the arrival, and nobody else may change */
    struct file_identity identity;
    uint64_t rows;
    char signer[KEY_NAME_MAX]; /* "" when unsigned */
};
/* All of an arrival's checks that read the whole file: takes it over, hashes it once more, compares
 * that with what was asked for and with the manifest, whose signature it checks, opens it and
 * counts its rows.  A packed file is gone: it is the manifest's as far as kiln-transfer says,
 * unless the manifest names the unpacked one, too.  Any thread: gigabytes must not hold up the
 * write lane. */
KILN_MUST_CHECK enum kiln_code package_set_check(const struct package_set *set,
                                                 const struct package_arrival *arrival,
                                                 struct package_checked *ret_checked,
                                                 struct kiln_err *err);
/* Moves what was checked into place (rename, synced) and opens it; one of the same name is replaced
 * in the same step.  KILN_CORRUPT when the file is no longer the one that was checked.  What was
 * there before stays untouched on failure, and the arrival stays where it is.  KILN_DENIED where it
 * would take the place of one that a trusted key signed without being signed itself. */
KILN_MUST_CHECK enum kiln_code package_set_adopt(struct package_set *set,
                                                 const struct package_arrival *arrival,
                                                 const struct package_checked *checked,
                                                 struct package_info *ret_info,
                                                 struct kiln_err *err);
/* KILN_DENIED for a package of another directory: it says how to remove that.  A file of kiln's own
 * directory that could not be opened can be removed, too; |ret_info| then holds name and path. */
KILN_MUST_CHECK enum kiln_code package_set_remove(struct package_set *set, const char *name,
                                                  struct package_info *ret_info,
                                                  struct kiln_err *err);

/* How a package fits a GPU, best first. */
enum package_fit {
    PACKAGE_FIT_EXACT,     /* its database id is the GPU's */
    PACKAGE_FIT_ARCH,      /* it is for the plain arch: asked where the exact ones have nothing */
    PACKAGE_FIT_OTHER_CUS, /* for the same arch with other compute units: never asked, as MIOpen
                              asks none either */
    PACKAGE_FIT_NONE,
};
const char *package_fit_name(enum package_fit fit); /* "exact", "arch", "other-cus", "none" */
/* |each| (may be NULL) is told of all packages for the arch of |database_id|, in the order of the
 * fits; the best fit is returned, PACKAGE_FIT_NONE for what is no database id. */
enum package_fit package_set_coverage(struct package_set *set, const char *database_id,
                                      void (*each)(void *context, enum package_fit fit,
                                                   const struct package_info *info),
                                      void *context);

#define PACKAGE_MISSING_TEXT 512
/* The line for a GPU that no package answers for, in MIOpen's own wording, with what to do next;
 * false (and nothing written) when one does. */
bool package_set_missing(struct package_set *set, const char *database_id,
                         char ret_text[PACKAGE_MISSING_TEXT]);

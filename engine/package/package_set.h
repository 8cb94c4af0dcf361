/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All packages of this host.
 *
 * Role       scans directories for packages, opens new ones and closes removed ones. Searches them
 *            by MIOpen's rule: first packages for the exact database id (arch and compute units),
 *            then those for the arch alone
 * Ownership  owns the packages; a removed package that a lookup still uses is closed when the
 *            lookup ends
 * Threading  rescan, adopt and remove: one thread at a time (the write queue).  All other calls:
 *            any thread, concurrently
 *
 * The first directory is kiln's own: installed packages FILE and their records FILE.json. Others (a
 * distribution's) are only read. Packages of one id are searched in this order: first those that a
 * trusted key signed, the newest edition first; then the others, in the order of their directories
 * and, within a directory, of their names; then those built into the program.
 */
#include "engine/manifest/manifest.h"
#include "engine/package/package.h"
#include "engine/package/package_file.h"

struct package_set;

struct package_set_options {
    /* kiln's own directory. Created with mode 0755 if it does not exist; KILN_DENIED if other users
     * may write to it. NULL: there are only the packages of |data|. */
    const char *own_directory;
    /* Borrowed: built-in packages, which are trusted like the program. May be NULL. */
    const struct engine_data *data;
    /* NULL-terminated, or NULL. A directory may be absent and appear later. A directory that
     * everybody may write to is skipped. */
    const char *const *other_directories;
    /* Contains *.pub; a signature is valid as long as its key is in this directory; NULL: no key is
     * trusted. */
    const char *trusted_keys_directory;
    unsigned readers;       /* number of threads that may search concurrently */
    bool require_signature; /* do not open unsigned packages */
};

/* Creates a set.  It is empty until the first rescan. */
KILN_MUST_CHECK enum kiln_code package_set_create(const struct package_set_options *options,
                                                  struct package_set **ret_set,
                                                  struct kiln_err *err);
void package_set_destroy(struct package_set *set);
KILN_DEFINE_AUTO(package_set)

struct package_change {
    bool appeared; /* true: the package appeared; false: it was removed */
    struct package_info info;
};
/* Scans the directories again, reading only names, sizes and times of unchanged files. |changed| is
 * called for each package that appeared or was removed.  A replaced package is reported twice:
 * first as removed, then as appeared. |refused| is called for each file that could not be opened,
 * once until the file changes. An incomplete file is reported only if it has not changed since the
 * previous scan, because it may still be being copied. */
KILN_MUST_CHECK enum kiln_code package_set_rescan(
    struct package_set *set, void (*changed)(void *context, const struct package_change *),
    void (*refused)(void *context, const char *text), void *context, struct kiln_err *err);

#define PACKAGE_ROW_TEXT 160 /* longer names are truncated */

struct package_query { /* a kernel and the device that it is for */
    struct bytes database_id;
    struct kern_name kernel;
};

struct package_found {
    char package[PACKAGE_NAME_MAX]; /* the package that had the kernel */
    /* A package with a row that failed its check during the search; "" if there is none. */
    char damaged[PACKAGE_NAME_MAX];
    char damage[256]; /* message about that damage */
    /* Kernel name or key of the damaged row; "" if the package itself found no damage. */
    char damaged_row[PACKAGE_ROW_TEXT];
};
/* Searches for a kernel by name.  Returns KILN_NOT_FOUND, without a message, if no package has it.
 * If the kernel's row in a package is damaged, the next matching package is searched, and
 * |ret_found| reports the damage. |ret_found| is always set. */
KILN_MUST_CHECK enum kiln_code package_set_find_named(struct package_set *set,
                                                      const struct package_query *query,
                                                      struct buffer *ret_raw,
                                                      struct package_found *ret_found,
                                                      struct kiln_err *err);
/* Searches for a kernel by key, only in signed packages of kiln's own format. */
KILN_MUST_CHECK enum kiln_code package_set_find_key(struct package_set *set,
                                                    const struct digest *key,
                                                    struct buffer *ret_raw,
                                                    struct package_found *ret_found,
                                                    struct kiln_err *err);
/* Finds the first package for the same arch but other compute units that has an intact row of this
 * name. Look-ups do not use such packages (MIOpen's rule), but a message can mention them.  Returns
 * KILN_NOT_FOUND, without a message, if there is no such package. */
KILN_MUST_CHECK enum kiln_code package_set_find_elsewhere(struct package_set *set,
                                                          const struct package_query *query,
                                                          char ret_package[PACKAGE_NAME_MAX],
                                                          char ret_id[DATABASE_ID_MAX]);
/* Calls package_shun for every package whose file name is |package|. */
void package_set_shun(struct package_set *set, const char *package, const struct kern_name *name);
/* Returns whether any package could answer for this database id. */
bool package_set_covers(struct package_set *set, struct bytes database_id);
/* Returns whether a built-in package for this database id is damaged, as a whole or in a requested
 * row.  |ret_name| is the name of the first such package. */
bool package_set_built_in_is_damaged(struct package_set *set, struct bytes database_id,
                                     char ret_name[PACKAGE_NAME_MAX]);

struct package_signature {
    char signer[KEY_NAME_MAX]; /* name of the key; "" if unsigned */
    struct manifest_edition edition;
    /* True if look-ups by key trust the signature. False for a package that kiln did not install,
     * because its file may change after the check. */
    bool counts;
    /* Why the manifest next to the file is not accepted; "" if it is, or if there is none. */
    char refused[256];
};
/* Finds out who signed the package. If kiln did not install the package, checks the manifest next
 * to the file, if there is one.  The first call reads the whole file, so do not call it on the
 * daemon's loop. */
void package_set_signature(const struct package_set *set, struct package *package,
                           struct package_signature *ret_signature);

/* Lists the packages in the order of the search.  Counts rows and checks signatures where
 * necessary, so do not call it on the daemon's loop. */
void package_set_list(struct package_set *set,
                      void (*each)(void *context, const struct package_info *info,
                                   const struct package_signature *signature),
                      void *context);
/* Lists files that are named like packages but are not used, in no particular order. |why| is a
 * message that says why, and what to do. |each| must not call the set. */
void package_set_list_refused(struct package_set *set,
                              void (*each)(void *context, const char *directory, const char *name,
                                           const char *why),
                              void *context);
/* Calls |use| with the package whose file name is |name|. The package stays open during the call.
 * If no package has that name, returns KILN_NOT_FOUND; the message lists the installed packages. */
KILN_MUST_CHECK enum kiln_code package_set_use(struct package_set *set, const char *name,
                                               enum kiln_code (*use)(void *context,
                                                                     struct package *package,
                                                                     struct kiln_err *err),
                                               void *context, struct kiln_err *err);

struct package_upload { /* a file that kiln-transfer has fetched, unpacked and checked */
    const char *path;   /* in own_directory/incoming, and thus on the same filesystem */
    const char *name;   /* file name of the package, such as "gfx90a68.kdb" */
    struct digest sha256;
    struct bytes manifest; /* the signed manifest; empty: there is none */
    const char *fetched;   /* the file's name in the manifest; it may be that of the packed file */
    const char *wanted;    /* the SHA-256 that the user gave, in hexadecimal; NULL: none */
    bool may_be_packed;    /* |wanted| may be the SHA-256 of the .bz2 file */
    const char *source;    /* URL or path, for messages */
    bool replace_signed;   /* let an unsigned file replace one that a trusted key signed */
    /* Allow a signed file that is older than an installed one that answers the same requests. */
    bool allow_downgrade;
};

struct package_checked { /* a checked file that nobody else can change */
    struct file_identity identity;
    uint64_t rows;
    char signer[KEY_NAME_MAX]; /* name of the key; "" if unsigned */
    struct manifest_edition edition;
    /* The manifest states the hash of the packed file only, so the content counts as unsigned. */
    bool only_packed_signed;
};
/* Does all checks of an upload that read the whole file. Makes kilnd the owner of the file and
 * hashes it again. Compares the hash with |wanted| and with the manifest, and checks the manifest's
 * signature. Then opens the package and counts its rows. A file counts as signed only if the
 * manifest states the SHA-256 of its content.  The SHA-256 of a packed file is not enough: that
 * file no longer exists, and kiln-transfer may have unpacked another one.  Any thread may call it,
 * because reading gigabytes must not block the write queue. */
KILN_MUST_CHECK enum kiln_code package_set_check(const struct package_set *set,
                                                 const struct package_upload *upload,
                                                 struct package_checked *ret_checked,
                                                 struct kiln_err *err);
/* Moves the checked file into place (rename and sync) and opens it. It atomically replaces a
 * package of the same name. If it cannot be moved, the old package and the upload stay where they
 * are. If a later step fails, the new file stays in place, and package_set_rescan uses it.  Returns
 * KILN_CORRUPT if the file is no longer the one that was checked.  Returns KILN_DENIED if an
 * unsigned file would replace one that a trusted key signed, or if the file is older than a signed
 * package of its database id and format. */
KILN_MUST_CHECK enum kiln_code package_set_adopt(struct package_set *set,
                                                 const struct package_upload *upload,
                                                 const struct package_checked *checked,
                                                 struct package_info *ret_info,
                                                 struct kiln_err *err);
/* Removes a package.  Returns KILN_DENIED for a package in another directory than kiln's own; the
 * message says how to remove it. A file in kiln's own directory that could not be opened can be
 * removed too; |ret_info| then has only name and path. */
KILN_MUST_CHECK enum kiln_code package_set_remove(struct package_set *set, const char *name,
                                                  struct package_info *ret_info,
                                                  struct kiln_err *err);

/* How a package fits a GPU, best first. */
enum package_fit {
    PACKAGE_FIT_EXACT, /* its database id is the GPU's */
    PACKAGE_FIT_ARCH,  /* it is for the plain arch; searched after the exact ones */
    /* It is for the same arch with other compute units; never searched, as in MIOpen. */
    PACKAGE_FIT_OTHER_CUS,
    PACKAGE_FIT_NONE,
};
const char *package_fit_name(enum package_fit fit); /* "exact", "arch", "other-cus" or "none" */
/* Calls |each| (may be NULL) for all packages for the arch of |database_id|, best fit first.
 * Returns the best fit; PACKAGE_FIT_NONE if |database_id| is not valid. */
enum package_fit package_set_coverage(struct package_set *set, const char *database_id,
                                      void (*each)(void *context, enum package_fit fit,
                                                   const struct package_info *info),
                                      void *context);

#define PACKAGE_MISSING_TEXT 512
/* Writes the message for a GPU without any matching package, in MIOpen's own wording, with what to
 * do next. Returns false, and writes nothing, if a package matches. */
bool package_set_missing(struct package_set *set, const char *database_id,
                         char ret_text[PACKAGE_MISSING_TEXT]);

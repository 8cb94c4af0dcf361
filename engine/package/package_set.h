/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All packages of this host.
 *
 * Role       scans directories for packages, opens new ones and closes removed ones. Searches them
 *            by MIOpen's rule: first packages for the exact database id (arch and compute units),
 *            then those for the arch alone
 * Ownership  owns the packages; a removed package that a look-up still uses is closed when the
 *            look-up ends
 * Threading  rescan, adopt and remove: one thread at a time (the write queue). All other calls: any
 *            thread, concurrently
 *
 * The first directory is kiln's own: installed packages FILE and their records FILE.json. The other
 * directories (a distribution's) are only read. Packages of one id are searched in this order:
 * first those that a trusted key signed, the newest edition first; then the others, in the order of
 * their directories and, within a directory, of their names; then those built into the program.
 */
#include "engine/manifest/manifest.h"
#include "engine/package/package.h"
#include "engine/package/package_file.h"

struct package_set;

struct package_set_options {
    /* Created with mode 0755 if absent. Must not be writable by other users. NULL: only built-in
     * packages. */
    const char *own_directory;
    /* Built-in packages, which are trusted like the program; may be NULL. */
    const struct engine_data *data;
    /* A NULL-terminated list, or NULL. A directory need not exist yet. A directory that everybody
     * may write to is skipped. */
    const char *const *other_directories;
    /* Contains the trusted keys (*.pub). A signature is valid as long as its key is in this
     * directory. May be NULL. */
    const char *trusted_keys_directory;
    unsigned readers;
    bool require_signature;
};

/* The set is empty until the first rescan. */
KILN_MUST_CHECK enum kiln_code package_set_create(const struct package_set_options *options,
                                                  struct package_set **ret_set,
                                                  struct kiln_err *err);
void package_set_destroy(struct package_set *set);
KILN_DEFINE_AUTO(package_set)

struct package_change {
    bool appeared;
    struct package_info info;
};
/* Scans the directories for new, changed and removed packages. Of unchanged files, reads only
 * names, sizes and times. A replaced package is reported twice: first as removed, then as appeared.
 * Calls |refused| for each file that cannot be opened, but not again until the file changes. An
 * incomplete file is reported only if it has not changed since the previous scan, because it may
 * still be being copied. */
KILN_MUST_CHECK enum kiln_code package_set_rescan(
    struct package_set *set, void (*changed)(void *context, const struct package_change *),
    void (*refused)(void *context, const char *text), void *context, struct kiln_err *err);

#define PACKAGE_ROW_TEXT 160 /* longer names are truncated */

struct package_query {
    struct bytes database_id;
    struct kern_name kernel;
};

struct package_found {
    char package[PACKAGE_NAME_MAX];
    /* Name of a package whose row failed its check during the search; may be "". */
    char damaged[PACKAGE_NAME_MAX];
    char damage[256];
    /* Kernel name or key of the damaged row; "" if no package found a damaged row. */
    char damaged_row[PACKAGE_ROW_TEXT];
};
/* Returns KILN_NOT_FOUND, without a message, if no package has the kernel. If the kernel's row
 * in a package is damaged, the next matching package is searched, and |ret_found| reports the
 * damage. |ret_found| is always set. */
KILN_MUST_CHECK enum kiln_code package_set_find_named(struct package_set *set,
                                                      const struct package_query *query,
                                                      struct buffer *ret_raw,
                                                      struct package_found *ret_found,
                                                      struct kiln_err *err);
/* Searches only packages of kiln's own format that are signed or built in. */
KILN_MUST_CHECK enum kiln_code package_set_find_key(struct package_set *set,
                                                    const struct digest *key,
                                                    struct buffer *ret_raw,
                                                    struct package_found *ret_found,
                                                    struct kiln_err *err);
/* Finds a package for the same arch but other compute units. Look-ups do not use such packages
 * (MIOpen's rule), but a message can mention them. Returns KILN_NOT_FOUND, without a message, if
 * there is none. */
KILN_MUST_CHECK enum kiln_code package_set_find_elsewhere(struct package_set *set,
                                                          const struct package_query *query,
                                                          char ret_package[PACKAGE_NAME_MAX],
                                                          char ret_id[DATABASE_ID_MAX]);
/* Calls package_shun for every package whose file name is |package|. */
void package_set_shun(struct package_set *set, const char *package, const struct kern_name *name);
bool package_set_covers(struct package_set *set, struct bytes database_id);
/* Returns whether a built-in package is damaged, as a whole or in a requested row. |ret_name| is
 * the name of the first such package. */
bool package_set_built_in_is_damaged(struct package_set *set, struct bytes database_id,
                                     char ret_name[PACKAGE_NAME_MAX]);

struct package_signature {
    char signer[KEY_NAME_MAX];
    struct manifest_edition edition;
    /* true: look-ups by key use the package. Either the package is built in, or it was signed when
     * kiln installed it and the key is still trusted. */
    bool counts;
    /* Why the manifest next to the file is not accepted; may be "". */
    char refused[256];
};
/* Returns who signed the package. May read the whole file, so do not call this function on the
 * daemon's loop. */
void package_set_signature(const struct package_set *set, struct package *package,
                           struct package_signature *ret_signature);

/* Lists the packages in the order of the search. May read all files, so do not call this
 * function on the daemon's loop. */
void package_set_list(struct package_set *set,
                      void (*each)(void *context, const struct package_info *info,
                                   const struct package_signature *signature),
                      void *context);
/* Lists files that are named like packages but not used. |each| must not call the set. */
void package_set_list_refused(struct package_set *set,
                              void (*each)(void *context, const char *directory, const char *name,
                                           const char *why),
                              void *context);
/* Calls |use| with the package |name|, which stays open during the call. The message of
 * KILN_NOT_FOUND lists the installed packages. */
KILN_MUST_CHECK enum kiln_code package_set_use(struct package_set *set, const char *name,
                                               enum kiln_code (*use)(void *context,
                                                                     struct package *package,
                                                                     struct kiln_err *err),
                                               void *context, struct kiln_err *err);

struct package_upload {
    const char *path; /* in own_directory/incoming, so on the same filesystem as installed
                       * packages */
    const char *name;
    struct digest sha256;
    struct bytes manifest; /* the signed manifest; empty: there is none */
    const char *fetched;   /* the file's name in the manifest, such as "gfx90a68.kdb.bz2" */
    const char *wanted;    /* the SHA-256 that the user gave, in hexadecimal; may be NULL */
    bool may_be_packed;    /* |wanted| may be the SHA-256 of the .bz2 file */
    const char *source;
    bool replace_signed; /* let an unsigned file replace one that a trusted key signed */
    /* Let a signed file replace a newer one that answers the same requests. */
    bool allow_downgrade;
};

struct package_checked {
    struct file_identity identity;
    uint64_t rows;
    char signer[KEY_NAME_MAX];
    struct manifest_edition edition;
    /* The manifest states only the hash of the packed file, so the content counts as unsigned. */
    bool only_packed_signed;
};
/* Makes kilnd the owner of the file, hashes it again, and compares the hash with |wanted| and
 * the manifest. Then opens the package and counts its rows. A file counts as signed only if the
 * manifest states the SHA-256 of its content. The SHA-256 of a packed file is not enough: that
 * file no longer exists, and kiln-transfer may have unpacked another one. Any thread may call
 * this function, because reading gigabytes must not block the write queue. */
KILN_MUST_CHECK enum kiln_code package_set_check(const struct package_set *set,
                                                 const struct package_upload *upload,
                                                 struct package_checked *ret_checked,
                                                 struct kiln_err *err);
/* Moves the checked file into place (rename and sync) and opens it. Atomically replaces a
 * package of the same name. If the file cannot be moved, nothing changes. If a later step fails,
 * the new file stays in place, and package_set_rescan uses it. Returns KILN_CORRUPT if the file
 * is no longer the one that was checked. Returns KILN_DENIED if an unsigned file would replace
 * one that a trusted key signed, or if the file is older than a signed package of its database
 * id and format. */
KILN_MUST_CHECK enum kiln_code package_set_adopt(struct package_set *set,
                                                 const struct package_upload *upload,
                                                 const struct package_checked *checked,
                                                 struct package_info *ret_info,
                                                 struct kiln_err *err);
/* Returns KILN_DENIED for a package in another directory than kiln's own; the message says how
 * to remove it. For a file that could not be opened, |ret_info| has only name and path. */
KILN_MUST_CHECK enum kiln_code package_set_remove(struct package_set *set, const char *name,
                                                  struct package_info *ret_info,
                                                  struct kiln_err *err);

/* The values are ordered: the best fit comes first. */
enum package_fit {
    PACKAGE_FIT_EXACT, /* for the GPU's database id */
    PACKAGE_FIT_ARCH,  /* for the plain arch; searched after the exact ones */
    /* for the same arch with other compute units; never searched, as in MIOpen */
    PACKAGE_FIT_OTHER_CUS,
    PACKAGE_FIT_NONE,
};
const char *package_fit_name(enum package_fit fit);
/* Calls |each| (may be NULL) for packages of the arch, best fit first. Returns the best fit. */
enum package_fit package_set_coverage(struct package_set *set, const char *database_id,
                                      void (*each)(void *context, enum package_fit fit,
                                                   const struct package_info *info),
                                      void *context);

#define PACKAGE_MISSING_TEXT 512
/* Writes a message about missing packages, in MIOpen's own wording. Returns false, and writes
 * nothing, if a package matches. */
bool package_set_missing(struct package_set *set, const char *database_id,
                         char ret_text[PACKAGE_MISSING_TEXT]);

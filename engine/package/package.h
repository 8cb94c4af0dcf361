/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One installed package of precompiled kernels, opened read-only.
 *
 *   PACKAGE_KDB   MIOpen's kernel database (.kdb, .ukdb). It can be searched by (kernel name,
 *                 kernel arguments)
 *   PACKAGE_KILN  kiln's own format (.kpkg, docs/formats/kpkg.md). It states the source and
 *                 toolchain of each object, so a signed package can also be searched by kernel key
 *
 * Role       serves kernels from a file that anybody may have written or damaged.  So it checks
 *            every object against its stored digest, and every row against the request
 * Ownership  the caller owns what is appended to its buffers
 * Threading  package_find_..., package_each, package_rows and package_check: any number of threads;
 *            open and destroy: one thread
 *
 * The file must not be modified while it is open. It may be removed, or replaced by a rename as
 * package managers do: the open package continues to serve the old file.
 */
#include "common/base/digest.h"
#include "common/base/paths.h"
#include "engine/data/engine_data.h"
#include "engine/manifest/manifest.h"
#include "engine/miopen/kern_db.h"
#include "engine/miopen/names/database_id.h"

enum package_format { PACKAGE_KDB, PACKAGE_KILN };

/* Maximum bytes of a package's file name, with the terminating NUL. */
#define PACKAGE_NAME_MAX 256
/* Maximum bytes of the origin, with the NUL; longer ones are truncated. */
#define PACKAGE_SOURCE_MAX 256

/* Finds the format that a file's name indicates.  Returns false for other files. */
bool package_format_of(const char *file_name, enum package_format *ret_format);
const char *package_format_name(enum package_format format); /* "kdb" or "kiln" */

/* Checks a package's file name.  Returns KILN_INVALID if it is not the name of a package.  |ret_id|
 * (may be NULL) receives the database id that the name states. */
KILN_MUST_CHECK enum kiln_code package_name_check(const char *file_name, struct database_id *ret_id,
                                                  struct kiln_err *err);

/* Checks that a file that was signed as |signed_name| may be installed as |name|: both names must
 * state the same database id and format.  Returns KILN_DENIED if they do not, because a signature
 * is valid only for the device that |signed_name| states. */
KILN_MUST_CHECK enum kiln_code package_names_agree(const char *signed_name, const char *name,
                                                   struct kiln_err *err);

struct package_record { /* the results of the checks at installation (FILE.json) */
    struct digest sha256;
    /* Zeros if the package is unsigned, or if its manifest states no edition. */
    struct manifest_edition edition;
    uint64_t rows;
    uint64_t installed;              /* seconds since the epoch */
    char signer[KEY_NAME_MAX];       /* name of the key that signed it; "" if unsigned */
    char source[PACKAGE_SOURCE_MAX]; /* the URL or path that it came from */
};

struct package_info {
    char name[PACKAGE_NAME_MAX]; /* name of the file, such as "gfx90a68.kdb" */
    char path[PATH_TEXT_MAX];
    enum package_format format;
    struct database_id database_id;
    uint64_t size; /* bytes */
    uint64_t rows; /* 0: not counted yet (package_rows) */
    /* SHA-256 of the file, as checked at installation; zeros if kiln did not install it (a
     * distribution's directory). */
    struct digest sha256;
    char signer[KEY_NAME_MAX];       /* name of the trusted key that signed it; "" if unsigned */
    struct manifest_edition edition; /* see struct package_record */
    char source[PACKAGE_SOURCE_MAX];
    uint64_t installed; /* seconds since the epoch; 0 if kiln did not install it */
};

struct package_options {
    /* Borrowed: a package that is built into the program. NULL: |path| is a file. */
    struct engine_item *item;
    const char *path; /* path of the file; if |item| is set, the item's name */
    const char *name; /* the package's file name; NULL: the last part of |path| */
    unsigned readers; /* number of threads that may search concurrently */
    /* The signature is valid, so look-ups by kernel key are also allowed, not only those by
     * name. */
    bool trusted;
    /* Record of the installation; NULL: kiln did not install it. */
    const struct package_record *record;
};

struct package;

/* Opens a package.  Returns KILN_INVALID if the name is not that of a package; KILN_BUSY if the
 * file is incomplete, for example because it is still being copied; KILN_CORRUPT if it is not a
 * package; and KILN_UNSUPPORTED if it has a newer format or a write-ahead log. */
KILN_MUST_CHECK enum kiln_code package_open(const struct package_options *options,
                                            struct package **ret_package, struct kiln_err *err);
void package_destroy(struct package *package);
KILN_DEFINE_AUTO(package)

const struct package_info *package_info(const struct package *package);
/* Returns the number of rows.  The first call counts them, because MIOpen's files do not state the
 * number. */
KILN_MUST_CHECK enum kiln_code package_rows(struct package *package, uint64_t *ret_rows,
                                            struct kiln_err *err);

/* Look up an object by name or by key, and append it in its unpacked form.  They return
 * KILN_NOT_FOUND if the package has no such object.  If the row failed its check, KILN_NOT_FOUND
 * has a message, and |ret_damaged| is set.  Such a row is reported once, and not unpacked again
 * while the package is open, except by package_check. */
KILN_MUST_CHECK enum kiln_code package_find_named(struct package *package,
                                                  const struct kern_name *name,
                                                  struct buffer *ret_raw, bool *ret_damaged,
                                                  struct kiln_err *err);
/* Returns KILN_NOT_FOUND unless the package is trusted. */
KILN_MUST_CHECK enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                                struct buffer *ret_raw, bool *ret_damaged,
                                                struct kiln_err *err);
/* Excludes a row from later look-ups. Call it if the row's object turns out to be wrong. */
void package_shun(struct package *package, const struct kern_name *name);
/* Returns whether a requested row has failed its check since the package was opened. A row that was
 * only excluded by package_shun does not count. */
bool package_has_damaged_rows(struct package *package);

/* Returns the SHA-256 of the whole file.  The first call reads the file.  Returns KILN_BUSY if the
 * file was replaced. */
KILN_MUST_CHECK enum kiln_code package_sha256(struct package *package, struct digest *ret_sha256,
                                              struct kiln_err *err);
/* Returns whether the package is trusted because of its signature, so that it may answer requests
 * by key. */
bool package_is_trusted(const struct package *package);

struct package_row { /* borrowed during the call; fields that the format does not have are empty or
                        0 */
    uint64_t id;
    struct bytes name, args;
    uint64_t stored_size, raw_size;          /* bytes */
    struct bytes md5;                        /* KDB only: the stored MD5, in hexadecimal */
    struct digest key, object, toolchain_id; /* kiln's format only; zeros for a KDB */
    const char *target, *toolchain, *program, *options;
};
struct package_listing { /* which rows to list, and the callback for each of them */
    uint64_t after;      /* lists only rows with a higher id */
    uint64_t count;      /* lists at most this many */
    bool (*each)(void *context, const struct package_row *row); /* returns false to stop */
    void *context;
};
/* Lists rows in the order of their ids, as stored and without any check. */
KILN_MUST_CHECK enum kiln_code package_each(struct package *package,
                                            const struct package_listing *listing,
                                            struct kiln_err *err);

struct package_report { /* the result of a check of the whole package */
    uint64_t rows, good, damaged;
    bool file_changed; /* the file's SHA-256 differs from the one recorded at installation */
    char first[256];   /* message about the first damage that was found; "" if there is none */
};
/* Unpacks and checks every row, including its source, and compares the whole file with its record.
 * If |progress| (may be NULL) returns false, the check stops with KILN_CANCELLED. */
KILN_MUST_CHECK enum kiln_code package_check(
    struct package *package, bool (*progress)(void *context, uint64_t done, uint64_t rows),
    void *context, struct package_report *ret_report, struct kiln_err *err);

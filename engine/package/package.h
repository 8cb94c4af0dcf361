/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One installed package of precompiled kernels, opened read-only.
 *
 *   PACKAGE_KDB   MIOpen's kernel database (.kdb, .ukdb): lookup by (kernel name, kernel arguments)
 *   PACKAGE_KILN  kiln's own format (.kpkg, docs/formats/kpkg.md): lookup by name, and by key if
 *                 the package is signed, because it states the source and toolchain of each object
 *
 * Role       serves a file that anybody may have written or damaged: every object is checked
 *            against its stored digest, and every row against the request
 * Ownership  the caller owns what is appended to its buffers
 * Threading  find, each, rows, check: any thread, several at once; open and destroy: one thread
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

#define PACKAGE_NAME_MAX 256   /* bytes of the file name, with the terminating NUL */
#define PACKAGE_SOURCE_MAX 256 /* of the origin, with the NUL; longer ones are truncated */

/* The format that a file's name indicates; false for other files. */
bool package_format_of(const char *file_name, enum package_format *ret_format);
const char *package_format_name(enum package_format format); /* "kdb", "kiln" */

/* KILN_INVALID if no package can have that file name. |ret_id| (may be NULL): its device. */
KILN_MUST_CHECK enum kiln_code package_name_check(const char *file_name, struct database_id *ret_id,
                                                  struct kiln_err *err);

/* Whether a file that was signed as |signed_name| may be installed as |name|: both must state
 * the same database id and format. KILN_DENIED otherwise, because the signature covers the
 * choice of device. */
KILN_MUST_CHECK enum kiln_code package_names_agree(const char *signed_name, const char *name,
                                                   struct kiln_err *err);

struct package_record { /* results of the checks at installation (FILE.json) */
    struct digest sha256;
    struct manifest_edition edition; /* zeros when unsigned, or if the manifest states none */
    uint64_t rows;
    uint64_t installed;              /* seconds since the epoch */
    char signer[KEY_NAME_MAX];       /* name of the key; "" when unsigned */
    char source[PACKAGE_SOURCE_MAX]; /* URL or path */
};

struct package_info {
    char name[PACKAGE_NAME_MAX]; /* of the file: "gfx90a68.kdb" */
    char path[PATH_TEXT_MAX];
    enum package_format format;
    struct database_id database_id;
    uint64_t size;        /* bytes */
    uint64_t rows;        /* 0: not yet counted (package_rows) */
    struct digest sha256; /* of the file, as checked at installation; zeros if kiln did not install
                             it (a distribution's directory) */
    char signer[KEY_NAME_MAX];       /* name of the trusted key; "" when unsigned */
    struct manifest_edition edition; /* as in the record */
    char source[PACKAGE_SOURCE_MAX];
    uint64_t installed; /* seconds since the epoch; 0 if kiln did not install it */
};

struct package_options {
    struct engine_item
        *item; /* borrowed; set for a package built into the program; NULL: |path| is a file */
    const char *path; /* with |item|: the item's name */
    const char *name; /* the package's name; NULL: the last part of |path| */
    unsigned readers; /* threads that may search concurrently */
    bool trusted; /* the signature is valid: look-ups by kernel key are allowed, not only by name */
    const struct package_record *record; /* NULL: kiln did not install it */
};

struct package;

/* KILN_INVALID: the name is not that of a package; KILN_BUSY: the file is incomplete, perhaps
 * still being copied; KILN_CORRUPT: the file is not a package; KILN_UNSUPPORTED: a newer format,
 * or the file has a write-ahead log. */
KILN_MUST_CHECK enum kiln_code package_open(const struct package_options *options,
                                            struct package **ret_package, struct kiln_err *err);
void package_destroy(struct package *package);
KILN_DEFINE_AUTO(package)

const struct package_info *package_info(const struct package *package);
/* The first call counts the rows, because MIOpen's files do not state the number. */
KILN_MUST_CHECK enum kiln_code package_rows(struct package *package, uint64_t *ret_rows,
                                            struct kiln_err *err);

/* Both append the raw object. KILN_NOT_FOUND on a miss. If a row was found but failed its check,
 * KILN_NOT_FOUND has a message, and |ret_damaged| is set. Such a row is reported once and not
 * unpacked again while the package is open, except by package_check. */
KILN_MUST_CHECK enum kiln_code package_find_named(struct package *package,
                                                  const struct kern_name *name,
                                                  struct buffer *ret_raw, bool *ret_damaged,
                                                  struct kiln_err *err);
/* Always a miss unless the package is trusted. */
KILN_MUST_CHECK enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                                struct buffer *ret_raw, bool *ret_damaged,
                                                struct kiln_err *err);
/* Treats the row as a miss from now on. For callers that find its object to be wrong. */
void package_shun(struct package *package, const struct kern_name *name);
/* Whether a requested row has failed its check since the package was opened. A row that was only
 * shunned does not count. */
bool package_has_damaged_rows(struct package *package);

/* Of the whole file. The first call reads it; a file that was replaced is KILN_BUSY. */
KILN_MUST_CHECK enum kiln_code package_sha256(struct package *package, struct digest *ret_sha256,
                                              struct kiln_err *err);
/* Whether its signature counts: it answers requests by key. */
bool package_is_trusted(const struct package *package);

struct package_row { /* borrowed for the call; fields that the format lacks are empty or 0 */
    uint64_t id;
    struct bytes name, args;
    uint64_t stored_size, raw_size;          /* bytes */
    struct bytes md5;                        /* KDB: as stored, hexadecimal */
    struct digest key, object, toolchain_id; /* KILN; zeros in a KDB */
    const char *target, *toolchain, *program, *options;
};
struct package_listing { /* which rows to list, and the callback for each of them */
    uint64_t after;      /* only rows with a higher id */
    uint64_t count;      /* lists at most this many */
    bool (*each)(void *context, const struct package_row *row); /* returns false to stop */
    void *context;
};
/* Lists rows in the order of their ids, as stored and without any check. */
KILN_MUST_CHECK enum kiln_code package_each(struct package *package,
                                            const struct package_listing *listing,
                                            struct kiln_err *err);

struct package_report { /* result of a check of the whole package */
    uint64_t rows, good, damaged;
    bool file_changed; /* its SHA-256 differs from the one recorded at installation */
    char first[256];   /* message about the first damage; "" if there is none */
};
/* Unpacks and checks every row including its source, and compares the whole file with its
 * record. |progress| (may be NULL) returns false to stop (KILN_CANCELLED). */
KILN_MUST_CHECK enum kiln_code package_check(
    struct package *package, bool (*progress)(void *context, uint64_t done, uint64_t rows),
    void *context, struct package_report *ret_report, struct kiln_err *err);

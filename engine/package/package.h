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
 * Role       serves kernels from a file that anybody may have written or damaged. So it checks
 *            every object against its stored digest, and every row against the request
 * Ownership  the caller owns what is appended to its buffers
 * Threading  package_find_..., package_each, package_rows and package_check: any number of threads;
 *            open and destroy: one thread
 *
 * The file must not be modified while it is open. The file may be removed, or replaced by a rename
 * as package managers do. The open package then continues to serve the old file.
 */
#include "common/base/digest.h"
#include "common/base/paths.h"
#include "engine/data/engine_data.h"
#include "engine/manifest/manifest.h"
#include "engine/miopen/kern_db.h"
#include "engine/miopen/names/database_id.h"

enum package_format { PACKAGE_KDB, PACKAGE_KILN };

/* in bytes, with the NUL */
#define PACKAGE_NAME_MAX 256
/* in bytes, with the NUL; longer texts are truncated */
#define PACKAGE_SOURCE_MAX 256

/* The beginning of the name of a row that contains a tuning file as its object. The rest of the
 * name is the name of the tuning file (tuning_file_name.h). A .kpkg file may have such rows; they
 * come first. */
#define PACKAGE_RECORDS "!records/"

bool package_format_of(const char *file_name, enum package_format *ret_format);
const char *package_format_name(enum package_format format);

/* Returns KILN_INVALID if the name is not that of a package. |ret_id| may be NULL. */
KILN_MUST_CHECK enum kiln_code package_name_check(const char *file_name, struct database_id *ret_id,
                                                  struct kiln_err *err);

/* Returns KILN_DENIED if the names do not state the same database id and format: a signature is
 * valid only for the device that |signed_name| states. */
KILN_MUST_CHECK enum kiln_code package_names_agree(const char *signed_name, const char *name,
                                                   struct kiln_err *err);

struct package_record { /* the results of the checks at installation (FILE.json) */
    struct digest sha256;
    /* Zeros if the package is unsigned, or if its manifest states no edition. */
    struct manifest_edition edition;
    uint64_t rows;
    uint64_t installed;
    char signer[KEY_NAME_MAX];
    char source[PACKAGE_SOURCE_MAX];
};

struct package_info {
    char name[PACKAGE_NAME_MAX];
    char path[PATH_TEXT_MAX];
    enum package_format format;
    struct database_id database_id;
    uint64_t size;
    uint64_t rows; /* 0: not counted yet (package_rows) */
    /* As checked at installation; zeros if kiln did not install the package. */
    struct digest sha256;
    char signer[KEY_NAME_MAX];
    struct manifest_edition edition;
    char source[PACKAGE_SOURCE_MAX];
    uint64_t installed; /* seconds since the epoch; 0 if kiln did not install the package */
};

struct package_options {
    struct engine_item *item;
    const char *path; /* path of the package file; if |item| is set, its name */
    const char *name; /* the package's file name; NULL: the last part of |path| */
    unsigned readers;
    /* The package is signed or built in, so look-ups by kernel key are also allowed. */
    bool trusted;
    const struct package_record *record;
};

struct package;

/* Returns KILN_INVALID if the name is not that of a package; KILN_BUSY if the file is
 * incomplete, for example because it is still being copied; KILN_CORRUPT if it is not a package;
 * and KILN_UNSUPPORTED if it has a newer format or a write-ahead log. */
KILN_MUST_CHECK enum kiln_code package_open(const struct package_options *options,
                                            struct package **ret_package, struct kiln_err *err);
void package_destroy(struct package *package);
KILN_DEFINE_AUTO(package)

const struct package_info *package_info(const struct package *package);
/* Returns the number of rows. The first call counts them, because MIOpen's files do not state the
 * number. */
KILN_MUST_CHECK enum kiln_code package_rows(struct package *package, uint64_t *ret_rows,
                                            struct kiln_err *err);

/* Both functions append the unpacked object to |ret_raw|, or return KILN_NOT_FOUND. If the row
 * failed its check, KILN_NOT_FOUND has a message, and |ret_damaged| is set. A damaged row is
 * reported only once. Afterwards, only package_check unpacks it again. */
KILN_MUST_CHECK enum kiln_code package_find_named(struct package *package,
                                                  const struct kern_name *name,
                                                  struct buffer *ret_raw, bool *ret_damaged,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                                struct buffer *ret_raw, bool *ret_damaged,
                                                struct kiln_err *err);
/* Excludes a row from later look-ups, because its object turned out to be wrong. */
void package_shun(struct package *package, const struct kern_name *name);
/* Returns whether a requested row failed its check. Rows that package_shun excluded do not
 * count. */
bool package_has_damaged_rows(struct package *package);

/* Returns the file's SHA-256. The first call reads the whole file. Returns KILN_BUSY if the file
 * was replaced. */
KILN_MUST_CHECK enum kiln_code package_sha256(struct package *package, struct digest *ret_sha256,
                                              struct kiln_err *err);
bool package_is_trusted(const struct package *package);

struct package_row { /* borrowed during the call; absent members are empty or 0 */
    uint64_t id;
    struct bytes name, args;
    uint64_t stored_size, raw_size;
    struct bytes md5;                        /* in hexadecimal; only for a KDB */
    struct digest key, object, toolchain_id; /* zeros for a KDB */
    const char *target, *toolchain, *program, *options;
};
struct package_listing {
    uint64_t after; /* lists only rows with a higher id */
    uint64_t count;
    bool (*each)(void *context, const struct package_row *row); /* returns false to stop */
    void *context;
};
/* Lists rows in the order of their ids, without any check. */
KILN_MUST_CHECK enum kiln_code package_each(struct package *package,
                                            const struct package_listing *listing,
                                            struct kiln_err *err);

struct package_report {
    uint64_t rows, good, damaged;
    bool file_changed; /* the file's SHA-256 differs from the recorded one */
    char first[256];
};
/* Checks all rows and sources, and compares the file with its record. |progress| (may be NULL)
 * returns false to stop the check with KILN_CANCELLED. */
KILN_MUST_CHECK enum kiln_code package_check(
    struct package *package, bool (*progress)(void *context, uint64_t done, uint64_t rows),
    void *context, struct package_report *ret_report, struct kiln_err *err);

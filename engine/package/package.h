/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One installed package of precompiled kernels, opened read-only.
 *
 *   PACKAGE_KDB   MIOpen's kernel database (.kdb, .ukdb): finds by (kernel name, kernel arguments)
 *   PACKAGE_KILN  this project's own (.kpkg, docs/formats/kpkg.md): finds by name too, and by key
 *                 where the package is signed, for it states the source and toolchain of each
 *                 object
 *
 * Role       answers from a file that anybody may have written or damaged: every object is checked
 *            against the digest beside it, every row against what was asked for
 * Ownership  the caller owns what is appended to its buffers
 * Threading  find, each, rows, check: any thread, several at once; open and destroy: one thread
 *
 * The file is opened as one that nobody changes.  It may be removed or replaced by another while it
 * is open (a rename, as package managers do): what was opened goes on answering.
 */
#include "common/digest.h"
#include "common/paths.h"
#include "engine/data/engine_data.h"
#include "engine/miopen/database_id.h"
#include "engine/package/manifest.h"

enum package_format { PACKAGE_KDB, PACKAGE_KILN };

#define PACKAGE_NAME_MAX 256   /* of the file, with the terminating NUL */
#define PACKAGE_SOURCE_MAX 256 /* where it came from, likewise; longer ones are cut */

/* The format that a file's name states; false for other files. */
bool package_format_of(const char *file_name, enum package_format *ret_format);
const char *package_format_name(enum package_format format); /* "kdb", "kiln" */

/* Whether a file that was signed as |signed_name| may be installed as |name|: they tell one
 * database id and one format.  KILN_DENIED, for whoever signs packages says for which device they
 * are. */
KILN_MUST_CHECK enum kiln_code package_names_agree(const char *signed_name, const char *name,
                                                   struct kiln_err *err);

struct package_record { /* what was checked when kiln installed it (FILE.json) */
    struct digest sha256;
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
    uint64_t rows;        /* 0: not counted yet (package_rows) */
    struct digest sha256; /* of the file, as checked when it was installed; zeros where it was not
                             installed by kiln (a distribution's directory) */
    char signer[KEY_NAME_MAX]; /* name of the trusted key; "" when unsigned */
    char source[PACKAGE_SOURCE_MAX];
    uint64_t installed; /* seconds since the epoch; 0 where it was not installed by kiln */
};

struct package_options {
    struct engine_item *item; /* borrowed: it is built into the program; NULL: |path| is a file */
    const char *path;         /* with |item|: its name */
    const char *name;         /* what it is called; NULL: as its path ends */
    unsigned readers;         /* threads that find at once */
    bool trusted;             /* its signature was checked: what it says of keys is believed */
    const struct package_record *record; /* NULL: not installed by kiln */
};

struct package;

/* KILN_INVALID: its name is not that of a package; KILN_BUSY: it is not whole (yet); KILN_CORRUPT:
 * it is none; KILN_UNSUPPORTED: a newer format, or a write-ahead log lies beside it. */
KILN_MUST_CHECK enum kiln_code package_open(const struct package_options *options,
                                            struct package **ret_package, struct kiln_err *err);
void package_destroy(struct package *package);
KILN_DEFINE_AUTO(package)

const struct package_info *package_info(const struct package *package);
/* Counted when first asked for: MIOpen's files do not say. */
KILN_MUST_CHECK enum kiln_code package_rows(struct package *package, uint64_t *ret_rows,
                                            struct kiln_err *err);

struct package_hit {
    uint64_t compile_ns; /* 0 when the package does not say */
};

/* Both append the raw object.  KILN_NOT_FOUND without a sentence on a miss; with a sentence and
 * |ret_damaged| when something was there and failed its check.  A row that failed is told once: it
 * is not unpacked again while the package is open (package_check looks at it again). */
KILN_MUST_CHECK enum kiln_code package_find_named(struct package *package, struct bytes name,
                                                  struct bytes args, struct buffer *ret_raw,
                                                  struct package_hit *ret_hit, bool *ret_damaged,
                                                  struct kiln_err *err);
/* From now on that row is a miss, and not looked at: for whoever finds that the object under it is
 * not what it should be. */
void package_shun(struct package *package, struct bytes name, struct bytes args);
/* Whether a row that was asked for failed its check since the package was opened; one that is
 * shunned alone did not. */
bool package_has_damaged_rows(struct package *package);
/* A miss unless the package is trusted. */
KILN_MUST_CHECK enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                                struct buffer *ret_raw, struct package_hit *ret_hit,
                                                bool *ret_damaged, struct kiln_err *err);

struct package_row { /* borrowed for the call; fields a format does not have are empty or 0 */
    uint64_t id;
    struct bytes name, args;
    uint64_t stored_size, raw_size;          /* bytes */
    struct bytes md5;                        /* KDB: as stored, hexadecimal */
    struct digest key, object, toolchain_id; /* KILN; zeros in a KDB */
    const char *target, *toolchain, *program, *options;
    uint64_t compile_ns;
};
/* At most |count| rows after id |after|, by id.  As stored: nothing of a row is checked here. */
KILN_MUST_CHECK enum kiln_code package_each(struct package *package, uint64_t after, uint64_t count,
                                            bool (*each)(void *context,
                                                         const struct package_row *row),
                                            void *context, struct kiln_err *err);

/* Appends the source that row |id| states, and its headers as |ret_count| x message_header.
 * KILN_NOT_FOUND without a sentence when there is no such row; KILN_UNSUPPORTED for a KDB. */
KILN_MUST_CHECK enum kiln_code package_source_of(struct package *package, uint64_t id,
                                                 struct buffer *ret_source, uint32_t *ret_count,
                                                 struct buffer *ret_headers, struct kiln_err *err);

struct package_report { /* of a check of everything in it */
    uint64_t rows, good, damaged;
    bool file_changed; /* its SHA-256 is not the one recorded when it was installed */
    char first[256];   /* the first damage, as a sentence; "" when there is none */
};
/* Unpacks and checks every row, its source too, and the whole file against its record; |progress|
 * (may be NULL) returns false to stop (KILN_CANCELLED). */
KILN_MUST_CHECK enum kiln_code package_check(
    struct package *package, bool (*progress)(void *context, uint64_t done, uint64_t rows),
    void *context, struct package_report *ret_report, struct kiln_err *err);

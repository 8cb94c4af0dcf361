/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One installed package of precompiled kernels, opened read-only.
 *
 *   PACKAGE_KDB   MIOpen's kernel database: finds by (kernel name, kernel arguments)
 *   PACKAGE_KILN  this project's own (docs/formats/kpkg.md): finds by name too, and by key where
 * the package is signed, for it states the source and toolchain of each object
 *
 * Ownership  the caller owns what is appended to its buffers
 * Threading  find: any thread, several at once; open and destroy: one thread
 */
#include "common/digest.h"
#include "engine/miopen/database_id.h"

enum package_format { PACKAGE_KDB, PACKAGE_KILN };

#define PACKAGE_NAME_MOST 256 /* of the file, with the terminating NUL */

struct package_info {
    char name[PACKAGE_NAME_MOST]; /* of the file: "gfx90a68.kdb" */
    const char *path;             /* borrowed from the package */
    enum package_format format;
    struct database_id database_id;
    uint64_t size; /* bytes */
    uint64_t rows;
    struct digest sha256; /* of the file, as checked when it was installed; zeros where it was not
                             installed by kiln (a distribution's folder) */
    char signer[64];      /* name of the trusted key; "" when unsigned */
    uint64_t installed;   /* seconds since the epoch */
};

struct package_options {
    const char *path;
    unsigned readers; /* threads that find at once */
    bool trusted;     /* its signature was checked: what it says of keys is believed */
};

struct package;

KILN_MUST_CHECK enum kiln_code package_open(const struct package_options *options,
                                            struct package **ret_package, struct kiln_err *err);
void package_destroy(struct package *package);
KILN_DEFINE_AUTO(package)

const struct package_info *package_info(const struct package *package);

struct package_hit {
    uint64_t compile_ns; /* 0 when the package does not say */
};

/* Both append the raw object.  KILN_NOT_FOUND without a sentence on a miss; with a sentence and
 * |ret_damaged| when something was there and failed its check. */
KILN_MUST_CHECK enum kiln_code package_find_named(struct package *package, struct bytes name,
                                                  struct bytes args, struct buffer *ret_raw,
                                                  struct package_hit *ret_hit, bool *ret_damaged,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                                struct buffer *ret_raw, struct package_hit *ret_hit,
                                                bool *ret_damaged, struct kiln_err *err);

struct package_row { /* borrowed for the call; fields a format does not have are empty or 0 */
    uint64_t id;
    struct bytes name, args;
    uint64_t stored_size, raw_size;          /* bytes */
    struct bytes md5;                        /* KDB: as stored, hexadecimal */
    struct digest key, object, toolchain_id; /* KILN; zeros in a KDB */
    const char *target, *toolchain, *program;
    uint64_t compile_ns;
};
/* At most |count| rows after id |after|, by id. */
KILN_MUST_CHECK enum kiln_code package_each(struct package *package, uint64_t after, uint64_t count,
                                            bool (*each)(void *context,
                                                         const struct package_row *row),
                                            void *context, struct kiln_err *err);

struct package_report { /* of a check of everything in it */
    uint64_t rows, good, damaged;
    char first[256]; /* the first damage, as a sentence; "" when there is none */
};
/* Unpacks and checks every row; |progress| (may be NULL) returns false to stop (KILN_CANCELLED). */
KILN_MUST_CHECK enum kiln_code package_check(
    struct package *package, bool (*progress)(void *context, uint64_t done, uint64_t rows),
    void *context, struct package_report *ret_report, struct kiln_err *err);

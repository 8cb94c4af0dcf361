/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files that read .kpkg. Not for other directories.
 *
 * Threading  one thread at a time for each connection
 */
#include "engine/codec/codec_zstd.h"
#include "engine/db/query.h"
#include "engine/package/package_format.h"

enum kpkg_statement {
#define STATEMENT(name, text) KPKG_##name,
#include "engine/package/kpkg_statements.def"
#undef STATEMENT
    KPKG_STATEMENT_COUNT
};

enum kpkg_column {
    KPKG_NAME,
    KPKG_ARGS,
    KPKG_KEY,
    KPKG_TARGET,
    KPKG_TOOLCHAIN,
    KPKG_TOOLCHAIN_ID,
    KPKG_PROGRAM,
    KPKG_OPTIONS,
    KPKG_SOURCE,
    KPKG_HEADERS,
    KPKG_OBJECT,
    KPKG_CLAIM,
    KPKG_ID,
    KPKG_CODEC,
    KPKG_RAW_SIZE,
    KPKG_BYTES, /* the stored bytes; in KPKG_EACH, only their number */
};

struct kpkg {
    struct db *db;
    struct codec *codec;
};

/* Returns KILN_CORRUPT if the claim of the current row does not match its columns. */
KILN_MUST_CHECK enum kiln_code kpkg_check_claim(const struct query *q, struct kiln_err *err);
/* Returns KILN_UNSUPPORTED if only a newer kiln knows the object's codec. */
KILN_MUST_CHECK enum kiln_code kpkg_unpack(struct kpkg *kpkg, const struct packed_object *stored,
                                           struct bytes *ret_raw, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kpkg_take_object(struct kpkg *kpkg, const struct query *q,
                                                struct buffer *ret_raw, struct kiln_err *err);
/* Sets |latest| to |id|, or returns KILN_CORRUPT if |id| is not larger than |latest|. Without this
 * check, a crafted file whose pages form a ring, or are shared, could return rows for ever. */
KILN_MUST_CHECK enum kiln_code kpkg_next_id(uint64_t id, uint64_t *latest, struct kiln_err *err);
bool kpkg_is_digest(struct bytes stored, const struct digest *digest);

KILN_MUST_CHECK enum kiln_code kpkg_check_all(void *connection,
                                              const struct package_progress *progress,
                                              struct package_report *report, struct kiln_err *err);

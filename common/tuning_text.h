/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The values of MIOpen's text databases: what stands behind '=' in a record.
 *
 *   find, new    solver:time_ms,workspace,algorithm;...
 *   find, old    algorithm:solver,time_ms,workspace,algorithm,<unused>;...
 *   perf         solver:params;...
 *
 * Role       read on both ends of the socket: the daemon sends values as they stand in their source
 * Ownership  entries borrow from the text
 * Threading  pure functions; nothing here depends on the process's locale
 */
#include "common/bytes.h"
#include "common/err.h"

/* AMD's longest: keys of 72 bytes, values of 637, 10 entries. */
#define TUNING_KEY_MAX 1024u
#define TUNING_VALUE_MAX (64u << 10) /* all entries of a record */
#define TUNING_ENTRIES_MAX 256u
#define TUNING_WORD_MAX 1024u

enum tuning_kind { TUNING_FIND, TUNING_PERF };
const char *tuning_kind_name(enum tuning_kind kind); /* "find", "perf" */

enum find_dialect { FIND_OLD, FIND_NEW }; /* five fields behind the id, or three */

struct tuning_entry { /* one ID:VALUES */
    struct bytes id;  /* tells the entries of a record apart: solver, or algorithm (old dialect) */
    struct bytes values; /* verbatim */
    struct bytes solver; /* of find and perf */
    struct bytes
        algorithm; /* of find; in the old dialect the id: its fourth field may name a library */
    struct bytes params; /* of perf: as |values| */
    double time_ms;      /* of find */
    uint64_t workspace;  /* of find, bytes */
    enum find_dialect dialect;
};

/* The first entry of |*text|, which is cut to what follows it.  KILN_NOT_FOUND without a sentence
 * when there is none left; KILN_INVALID with what is wrong, and |*text| stays.  Dialects are told
 * apart by the number of fields.  Texts are printable ASCII, times finite decimals; |params| may be
 * empty. */
KILN_MUST_CHECK enum kiln_code tuning_entry_next(enum tuning_kind kind, struct bytes *text,
                                                 struct tuning_entry *ret_entry,
                                                 struct kiln_err *err);
/* The entry of these two parts, as they stand on both sides of its ':'. */
KILN_MUST_CHECK enum kiln_code tuning_entry_of(enum tuning_kind kind, struct bytes id,
                                               struct bytes values, struct tuning_entry *ret_entry,
                                               struct kiln_err *err);
/* KILN_INVALID unless it is a solver's name: letters, digits and _ < > - alone, at most
 * TUNING_WORD_MAX of them.  The rule for whatever comes in: files, measurements, leases. */
KILN_MUST_CHECK enum kiln_code tuning_solver_check(struct bytes solver, struct kiln_err *err);
/* KILN_INVALID unless all MIOpen's: tuning_solver_check, and an algorithm of find is
 * miopenConvolution<Fwd|BwdData|BwdWeights>Algo<name>; of |direction| 'F', 'B' or 'W', of any when
 * it is 0. */
KILN_MUST_CHECK enum kiln_code tuning_entry_check(enum tuning_kind kind,
                                                  const struct tuning_entry *entry, char direction,
                                                  struct kiln_err *err);
/* "ID:VALUES" with a ';' in front where |to| holds something already.  |time| is written as MIOpen
 * does: six significant digits, shortest form. */
void tuning_entry_write_find(struct buffer *to, enum find_dialect dialect,
                             const struct tuning_entry *e);
void tuning_entry_write_perf(struct buffer *to, struct bytes solver, struct bytes params);
/* Whether all of it is printable ASCII, as whatever stands in a record. */
bool tuning_is_printable(struct bytes text);
/* KILN_INVALID unless it can stand in a record: not empty, at most 1 KiB, printable ASCII, none of
 * ; : = and the comma (which |commas| allows: |params| may hold it). */
KILN_MUST_CHECK enum kiln_code tuning_word_check(const char *what, struct bytes word, bool commas,
                                                 struct kiln_err *err);
/* KILN_INVALID, naming those there are, unless it is a backend: HIP, CUDA or OpenCL. */
KILN_MUST_CHECK enum kiln_code tuning_backend_check(struct bytes backend, struct kiln_err *err);

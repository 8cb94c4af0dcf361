/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The values of MIOpen's text databases: the part of a record after '='.
 *
 *   find, new    solver:time_ms,workspace,algorithm;...
 *   find, old    algorithm:solver,time_ms,workspace,algorithm,<unused>;...
 *   perf         solver:params;...
 *
 * Role       parses and writes entries, in kilnd and in libkiln, because kilnd sends values
 *            verbatim
 * Ownership  entries borrow from the text
 * Threading  pure functions; nothing depends on the process's locale
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* Limits.  In AMD's databases, the longest key has 72 bytes, the longest value has 637 bytes, and a
 * record has up to 10 entries. */
#define TUNING_KEY_MAX 1024u
#define TUNING_VALUE_MAX (64u << 10)
#define TUNING_ENTRIES_MAX 256u
#define TUNING_WORD_MAX 1024u

enum tuning_kind { TUNING_FIND, TUNING_PERF };
const char *tuning_kind_name(enum tuning_kind kind);

/* The old dialect has five fields after the id, the new one three. */
enum find_dialect { FIND_OLD, FIND_NEW };

struct tuning_entry {
    /* The solver's name; in the old dialect, the algorithm. */
    struct bytes id;
    struct bytes values;
    struct bytes solver;
    /* The algorithm, only for FindDb entries.  In the old dialect, it is a copy of |id|, because
     * the entry's fourth field may name a library instead. */
    struct bytes algorithm;
    struct bytes params;
    double time_ms;
    uint64_t workspace;
    enum find_dialect dialect;
};

/* Parses the first entry of |*text| and removes it.  The number of fields determines the dialect.
 * Returns KILN_NOT_FOUND without a message if |*text| is empty.  Returns KILN_INVALID, and leaves
 * |*text| unchanged, if the entry is invalid.  In a valid entry, texts are printable ASCII and
 * times are finite decimals; |params| may be empty. */
KILN_MUST_CHECK enum kiln_code tuning_entry_next(enum tuning_kind kind, struct bytes *text,
                                                 struct tuning_entry *ret_entry,
                                                 struct kiln_err *err);
/* Parses an entry.  |id| and |values| are the parts of the entry before and after its ':'. */
KILN_MUST_CHECK enum kiln_code tuning_entry_of(enum tuning_kind kind, struct bytes id,
                                               struct bytes values, struct tuning_entry *ret_entry,
                                               struct kiln_err *err);
/* Returns KILN_INVALID unless |solver| is a valid name: only letters, digits and _ < > -, at most
 * TUNING_WORD_MAX of them. kiln checks the names in all input in this way. */
KILN_MUST_CHECK enum kiln_code tuning_solver_check(struct bytes solver, struct kiln_err *err);
/* Returns KILN_INVALID unless the entry has MIOpen's names: tuning_solver_check accepts the solver,
 * and a find algorithm is miopenConvolution<Fwd|BwdData|BwdWeights>Algo<name>.  |direction| is 'F',
 * 'B' or 'W'; 0 allows any. */
KILN_MUST_CHECK enum kiln_code tuning_entry_check(enum tuning_kind kind,
                                                  const struct tuning_entry *entry, char direction,
                                                  struct kiln_err *err);
/* Appends "ID:VALUES", and a ';' before it if |to| is not empty.  Writes times as MIOpen does, with
 * six significant digits and in the shortest form. */
void tuning_entry_write_find(struct buffer *to, enum find_dialect dialect,
                             const struct tuning_entry *e);
void tuning_entry_write_perf(struct buffer *to, struct bytes solver, struct bytes params);
bool tuning_is_printable(struct bytes text);
/* Returns KILN_INVALID unless |word| is printable ASCII of 1 to 1024 bytes, without ';', ':', '='
 * and ','.  If |commas| is true, ',' is allowed, as in a solver's parameters. */
KILN_MUST_CHECK enum kiln_code tuning_word_check(const char *what, struct bytes word, bool commas,
                                                 struct kiln_err *err);
/* MIOpen keeps the FindDb of fusions and the PerfDb of batch normalisation in separate files. Their
 * records have the backends "HIP.fusion" and "batchnorm"; other PerfDb records have none. */
#define TUNING_FUSION ".fusion"
#define TUNING_BATCHNORM "batchnorm"
struct bytes tuning_backend_base(struct bytes backend);
/* Returns KILN_INVALID unless |backend| is HIP, CUDA, OpenCL or one of the special backends
 * above. */
KILN_MUST_CHECK enum kiln_code tuning_backend_check(struct bytes backend, struct kiln_err *err);

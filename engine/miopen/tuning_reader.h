/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads a tuning file in short steps.
 *
 * Role       keeps the caller responsive, because a file of 256 MiB takes seconds to read.  A step
 *            ends after TUNING_READ_BYTES or at its |end_ns|, but reads at least one line or row
 * Ownership  a reader owns the open file; a text is borrowed until its reader is destroyed
 * Threading  one thread at a time for each reader
 */
#include "engine/miopen/names/tuning_file_name.h"
#include "engine/miopen/tuning_file.h"

#define TUNING_READ_BYTES (4 << 20)

struct tuning_reader;
/* Opens a tuning file. Nobody may change it while it is open. */
KILN_MUST_CHECK enum kiln_code tuning_reader_open(const char *path, enum tuning_kind kind,
                                                  enum tuning_format format,
                                                  struct tuning_reader **ret_reader,
                                                  struct kiln_err *err);
/* Reads until |end_ns| (monotonic clock).  Sets |ret_more| if another step is needed. */
KILN_MUST_CHECK enum kiln_code tuning_reader_step(struct tuning_reader *reader,
                                                  const struct tuning_reader_events *events,
                                                  uint64_t end_ns, bool *ret_more,
                                                  struct kiln_err *err);
/* Returns how many bytes of memory the reader uses between two steps, including the mapping of a
 * text file. Returns 0 for NULL. */
uint64_t tuning_reader_bytes(const struct tuning_reader *reader);
void tuning_reader_destroy(struct tuning_reader *reader);
KILN_DEFINE_AUTO(tuning_reader)

/* Follows MIOpen's rules: reads from front to back, skips blank lines, and ends a key at the first
 * '='.  The first record of a repeated key counts, and the later ones are reported as |bad|.  If an
 * id is repeated in a record, the later entries are reported as |bad| and left out of |value|.  A
 * byte order mark and a '\r' before '\n' are accepted and stay in |raw|.  The last line may lack
 * its '\n'. */
struct tuning_text_reader;
KILN_MUST_CHECK enum kiln_code tuning_text_reader_create(enum tuning_kind kind, struct bytes text,
                                                         struct tuning_text_reader **ret_reader,
                                                         struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_text_reader_step(struct tuning_text_reader *reader,
                                                       const struct tuning_reader_events *events,
                                                       uint64_t end_ns, bool *ret_more,
                                                       struct kiln_err *err);
uint64_t tuning_text_reader_bytes(const struct tuning_text_reader *reader);
void tuning_text_reader_destroy(struct tuning_text_reader *reader);
KILN_DEFINE_AUTO(tuning_text_reader)

/* Reads a PerfDb with MIOpen's schema 1.1.0.  Nobody may change the file meanwhile.  Records come
 * in the order of config ids, entries in the order of perf_db ids; all ids are at least 1.  An
 * invalid row is reported with its own id, and |why| names its table.  Returns KILN_CORRUPT if the
 * file is not such a database. */
struct perf_db_reader;
KILN_MUST_CHECK enum kiln_code perf_db_reader_open(const char *path,
                                                   struct perf_db_reader **ret_reader,
                                                   struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_db_reader_step(struct perf_db_reader *reader,
                                                   const struct tuning_reader_events *events,
                                                   uint64_t end_ns, bool *ret_more,
                                                   struct kiln_err *err);
uint64_t perf_db_reader_bytes(const struct perf_db_reader *reader);
void perf_db_reader_destroy(struct perf_db_reader *reader);
KILN_DEFINE_AUTO(perf_db_reader)

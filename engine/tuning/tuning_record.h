/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What stands in a row of tuning.db: a whole record, or an imported system database, with a
 * checksum over that and its key.
 *
 * Role       the one place that writes and checks these bytes (docs/formats/tuning-db.md)
 * Ownership  what is unpacked borrows from the packed bytes and from the place
 * Threading  pure functions
 */
#include "engine/tuning/tuning_db.h"

/* TUNING_KEY_MAX and TUNING_ENTRIES_MAX are those of common/tuning_text.h. */
#define TUNING_ID_MAX TUNING_WORD_MAX
#define TUNING_VALUES_MAX TUNING_VALUE_MAX
#define TUNING_NAME_MAX 128u   /* database id, backend */
#define TUNING_ORIGIN_MAX 256u /* each of its texts */
#define TUNING_FILE_NAME_MAX 1024u
/* In memory, of an entry beside its texts: part of what a user's records count as. */
#define TUNING_ENTRY_COST 176u
/* Of what one row holds. */
#define TUNING_CONTENT_MAX \
    (TUNING_ENTRIES_MAX * (TUNING_VALUES_MAX + TUNING_ID_MAX + 6 * TUNING_ORIGIN_MAX))

/* KILN_INVALID unless a record may stand there. */
KILN_MUST_CHECK enum kiln_code tuning_place_check(const struct tuning_place *place,
                                                  struct kiln_err *err);
/* Appends |rows| to |to|; KILN_INVALID, naming it, for one that cannot be stored. */
KILN_MUST_CHECK enum kiln_code tuning_record_pack(const struct tuning_place *place,
                                                  const struct tuning_row *rows, size_t count,
                                                  struct buffer *to, struct kiln_err *err);
/* False unless |packed| is what tuning_record_pack made for this very place. */
bool tuning_record_unpack(const struct tuning_place *place, struct bytes packed,
                          struct tuning_row ret_rows[TUNING_ENTRIES_MAX], size_t *ret_count);

KILN_MUST_CHECK enum kiln_code tuning_system_check(const struct tuning_system_file *file,
                                                   struct kiln_err *err);
/* Of a file that passed the check. */
void tuning_system_pack(const struct tuning_system_file *file, struct buffer *to);
/* Fills all but kind, database id and backend, which |file| has already. */
bool tuning_system_unpack(struct tuning_system_file *file, struct bytes packed);

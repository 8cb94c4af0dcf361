/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The content of a row of tuning.db: a whole record or an imported system database, with a checksum
 * over content and key.
 *
 * Role       the only code that writes and checks these bytes (docs/formats/tuning-db.md)
 * Ownership  unpacked rows borrow from the packed bytes and from the place
 * Threading  pure functions
 */
#include "engine/tuning/tuning_db.h"

#define TUNING_ID_MAX TUNING_WORD_MAX
#define TUNING_VALUES_MAX TUNING_VALUE_MAX
#define TUNING_NAME_MAX 128u
#define TUNING_ORIGIN_MAX 256u
#define TUNING_FILE_NAME_MAX 1024u
/* Bytes of memory that an entry takes in addition to its texts. They count toward the user's
 * limit. */
#define TUNING_ENTRY_COST 176u
#define TUNING_CONTENT_MAX \
    (TUNING_ENTRIES_MAX * (TUNING_VALUES_MAX + TUNING_ID_MAX + 6 * TUNING_ORIGIN_MAX))

KILN_MUST_CHECK enum kiln_code tuning_place_check(const struct tuning_place *place,
                                                  struct kiln_err *err);
/* If the function returns KILN_INVALID, the message names a row that cannot be stored. */
KILN_MUST_CHECK enum kiln_code tuning_record_pack(const struct tuning_place *place,
                                                  const struct tuning_row *rows, size_t count,
                                                  struct buffer *to, struct kiln_err *err);
/* Returns false unless tuning_record_pack made |packed| for exactly this place. */
bool tuning_record_unpack(const struct tuning_place *place, struct bytes packed,
                          struct tuning_row ret_rows[TUNING_ENTRIES_MAX], size_t *ret_count);

KILN_MUST_CHECK enum kiln_code tuning_system_check(const struct tuning_system_file *file,
                                                   struct kiln_err *err);
/* |file| must have passed tuning_system_check. */
void tuning_system_pack(const struct tuning_system_file *file, struct buffer *to);
/* The caller sets kind, database id and backend before the call, because the checksum covers
 * them. */
bool tuning_system_unpack(struct tuning_system_file *file, struct bytes packed);

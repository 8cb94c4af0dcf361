/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A record: a signed claim with the compressed object that it describes. A loose file of the fleet
 * tree is one record, and a pack is a sequence of records (docs/formats/fleet.md).
 *
 * Ownership  a struct fleet_record borrows from the bytes that it was read from
 * Threading  pure functions; a codec belongs to one thread at a time
 */
#include "engine/codec/codec_zstd.h"
#include "engine/fleet/fleet_claim.h"

/* Maximum size of a record: the largest object, even if it does not compress, and its claim. */
#define FLEET_RECORD_MAX (FLEET_OBJECT_MAX + FLEET_CLAIM_MAX + 4096u)

struct fleet_record {
    struct fleet_claim claim;
    struct fleet_signed proof;
    struct packed_object packed;
    size_t size; /* size of the whole record; further records may follow */
};

/* Appends an unsigned record of |raw|. The record's claim is |claim| with the digest and the size
 * of |raw|, and with zeros as its builder. */
KILN_MUST_CHECK enum kiln_code fleet_record_write(struct codec *codec,
                                                  const struct fleet_claim *claim, struct bytes raw,
                                                  struct buffer *ret_records, struct kiln_err *err);
/* Sets the builder and the signature of |record|, which must be a valid record. */
void fleet_record_sign(const struct fleet_signer *signer, uint8_t *record);

/* Reads the first record of |bytes|, and verifies nothing. Returns false if the record is malformed
 * or truncated. */
bool fleet_record_read(struct bytes bytes, struct fleet_record *ret_record);

struct fleet_reader { /* borrowed */
    const struct fleet_trust *trust;
    struct codec *codec;
    struct fleet_shard shard; /* the claims must be for this target and toolchain */
    enum fleet_fault fault;   /* after KILN_CORRUPT: why a record is not used */
};
/* Verifies that a trusted builder signed |record| for |key|, and unpacks the object into |ret_raw|,
 * which is valid until the codec's next call. Returns KILN_CORRUPT if the record must not be used,
 * and KILN_NOT_FOUND if only a newer kiln can unpack the object. */
KILN_MUST_CHECK enum kiln_code fleet_record_open(struct fleet_reader *reader,
                                                 const struct fleet_record *record,
                                                 const struct digest *key, struct bytes *ret_raw,
                                                 struct kiln_err *err);

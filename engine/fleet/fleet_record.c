/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_record.h"

#include "engine/digest/sha256.h"

#include <string.h>

#define MAGIC "KILNREC1"
#define MAGIC_SIZE 8

static void put_record(struct bytes text, const struct packed_object *packed,
                       struct buffer *records)
{
    static const uint8_t unsigned_yet[ED25519_SIGNATURE_SIZE];
    buffer_put(records, MAGIC, MAGIC_SIZE);
    buffer_put_sized(records, text);
    buffer_put(records, unsigned_yet, sizeof(unsigned_yet));
    buffer_put_u32(records, (uint32_t)packed->codec);
    buffer_put_sized(records, packed->stored);
}

enum kiln_code fleet_record_write(struct codec *codec, const struct fleet_claim *claim,
                                  struct bytes raw, struct buffer *ret_records,
                                  struct kiln_err *err)
{
    struct fleet_claim own = *claim;
    struct packed_object packed = { .raw_size = raw.size };
    enum codec_id id = CODEC_RAW;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_CLAIM_MAX);
    own.object = sha256_of(raw);
    own.raw_size = raw.size;
    memset(own.builder, 0, FLEET_KEY_ID_SIZE);
    enum kiln_code rc = fleet_claim_encode(&own, &text, err);
    if (!rc)
        rc = codec_pack(codec, raw, &packed.stored, &id, err);
    if (rc)
        return rc;
    packed.codec = id;
    put_record(buffer_view(&text), &packed, ret_records);
    return ret_records->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a record") : KILN_OK;
}

void fleet_record_sign(const struct fleet_signer *signer, uint8_t *record)
{
    struct reader r = reader_of(bytes_of(record + MAGIC_SIZE, sizeof(uint32_t)));
    uint8_t *text = record + MAGIC_SIZE + sizeof(uint32_t);
    size_t size = reader_u32(&r);
    memcpy(text + FLEET_CLAIM_BUILDER_AT, signer->key_id, FLEET_KEY_ID_SIZE);
    ed25519_sign(signer->secret, bytes_of(text, size), text + size);
}

bool fleet_record_read(struct bytes bytes, struct fleet_record *ret_record)
{
    struct reader r = reader_of(bytes);
    struct bytes magic = reader_take(&r, MAGIC_SIZE), text = reader_sized(&r);
    struct bytes signature = reader_take(&r, ED25519_SIGNATURE_SIZE);
    struct fleet_record record = { .proof = { text, NULL, signature.data } };
    record.packed.codec = reader_u32(&r);
    record.packed.stored = reader_sized(&r);
    record.size = bytes.size - reader_left(&r);
    if (r.failed || record.size > FLEET_RECORD_MAX || memcmp(magic.data, MAGIC, MAGIC_SIZE) != 0 ||
        !fleet_claim_decode(text, &record.claim))
        return false;
    record.packed.raw_size = record.claim.raw_size;
    *ret_record = record;
    return true;
}

static enum fleet_fault check_claim(const struct fleet_reader *reader,
                                    const struct fleet_record *record, const struct digest *key)
{
    struct fleet_signed proof = record->proof;
    proof.key_id = record->claim.builder;
    enum fleet_fault fault =
        fleet_trust_check_claim(reader->trust, &proof, record->claim.shard.target);
    if (fault)
        return fault;
    bool is_wanted = digest_equal(&record->claim.key, key) &&
                     fleet_shard_equal(&record->claim.shard, &reader->shard);
    return is_wanted ? FLEET_FAULT_NONE : FLEET_FAULT_OTHER_THING;
}

static enum kiln_code refuse_record(struct fleet_reader *reader, enum fleet_fault fault,
                                    struct kiln_err *err)
{
    reader->fault = fault;
    return kiln_fail(err, KILN_CORRUPT, "a record of the fleet is not used: %s",
                     fleet_fault_text(fault));
}

enum kiln_code fleet_record_open(struct fleet_reader *reader, const struct fleet_record *record,
                                 const struct digest *key, struct bytes *ret_raw,
                                 struct kiln_err *err)
{
    struct bytes raw;
    enum fleet_fault fault = check_claim(reader, record, key);
    if (fault)
        return refuse_record(reader, fault, err);
    enum kiln_code rc = codec_unpack(reader->codec, &record->packed, &raw, err);
    if (rc == KILN_CORRUPT)
        return refuse_record(reader, FLEET_FAULT_WRONG_BYTES, err);
    if (rc)
        return rc;
    struct digest digest = sha256_of(raw);
    if (!digest_equal(&digest, &record->claim.object))
        return refuse_record(reader, FLEET_FAULT_WRONG_BYTES, err);
    *ret_raw = raw;
    return KILN_OK;
}

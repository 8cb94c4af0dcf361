/* SPDX-License-Identifier: MIT */
/* Tests readers of the fleet's files. Signs the input's records and indices with a trusted key,
 * because otherwise no input would pass the signature check and reach the code behind it. */
#include "tests/fuzz/fuzz.h"

#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_record.h"
#include "tests/support/fleet_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum kind { RECORD, INDEX, POINTER, EPOCHS, KINDS };

static struct fleet_signer us;

static const struct fleet_trust *trusted(void)
{
    static struct fleet_trust *trust;
    struct kiln_err err = KILN_ERR_INIT;
    if (trust)
        return trust;
    us = fleet_test_signer(1);
    const char *directory = fuzz_path("trusted");
    fuzz_expect(mkdir(directory, 0700) == 0, "a directory of keys");
    fleet_test_trust(directory, &us, &(struct fleet_test_key){ "us", "*", true });
    fuzz_expect(fleet_trust_read(directory, &trust, &err) == KILN_OK, "trusted keys");
    return trust;
}

static void open_record(const struct fleet_trust *trust, struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_record record;
    struct bytes raw;
    if (!fleet_record_read(content, &record))
        return;
    fuzz_expect(record.size <= content.size, "a record is within its file");
    KILN_AUTO(codec) struct codec *codec = NULL;
    fuzz_expect(codec_create(&codec, &err) == KILN_OK, "a codec");
    struct fleet_reader reader = { .trust = trust, .codec = codec, .shard = record.claim.shard };
    enum kiln_code rc = fleet_record_open(&reader, &record, &record.claim.key, &raw, &err);
    fuzz_expect(rc || raw.size == record.claim.raw_size, "an object has the signed size");
    fuzz_expect(rc != KILN_CORRUPT || reader.fault, "a reason why a record is refused");
}

/* Reads a codec, a claim and a stored object from the input, and signs them as a record. */
static void sign_record(const struct fleet_trust *trust, struct reader *r)
{
    BUFFER_AUTO struct buffer content;
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    uint8_t codec = reader_u8(r);
    struct bytes part = fuzz_part(r);
    KILN_AUTO(mem) uint8_t *text = fuzz_copy(part);
    /* The builder's key id, at offset 22, must be the signer's. */
    if (part.size >= 22 + FLEET_KEY_ID_SIZE)
        memcpy(text + 22, us.key_id, FLEET_KEY_ID_SIZE);
    ed25519_sign(us.secret, bytes_of(text, part.size), signature);
    buffer_init(&content, 1u << 20);
    buffer_put(&content, "KILNREC1", 8);
    buffer_put_sized(&content, bytes_of(text, part.size));
    buffer_put(&content, signature, sizeof(signature));
    buffer_put_u32(&content, codec);
    buffer_put_sized(&content, fuzz_rest(r));
    KILN_AUTO(mem) uint8_t *copy = fuzz_copy(buffer_view(&content));
    open_record(trust, bytes_of(copy, content.size));
}

static void use_index(const struct fleet_index *index)
{
    for (uint32_t i = 0; i < fleet_index_count(index) && i < 64; i++) {
        struct fleet_entry entry = fleet_index_entry(index, i);
        struct fleet_place place;
        fuzz_expect(fleet_index_find(index, &entry.key, &place), "every key is found");
        fuzz_expect(place.offset == entry.place.offset && place.size == entry.place.size &&
                        place.pack == entry.place.pack,
                    "at its place");
        struct fleet_pack pack = fleet_index_pack(index, place.pack);
        fuzz_expect((uint64_t)place.offset + place.size <= pack.size, "within its pack");
    }
}

static void sign_index(const struct fleet_trust *trust, struct bytes text)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(fleet_index) struct fleet_index *index = NULL;
    enum fleet_fault fault = FLEET_FAULT_NONE;
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct buffer content;
    buffer_init(&content, 1u << 20);
    ed25519_sign(us.secret, text, signature);
    buffer_put(&content, text.data, text.size);
    buffer_put(&content, us.key_id, FLEET_KEY_ID_SIZE);
    buffer_put(&content, signature, sizeof(signature));
    if (fleet_index_open(&content, trust, &index, &fault, &err) == KILN_OK)
        use_index(index);
    else
        fuzz_expect(fault != FLEET_FAULT_NONE, "a reason why an index is refused");
    buffer_done(&content);
}

static void read_pointer(struct bytes text)
{
    struct fleet_pointer pointer, again;
    char written[FLEET_POINTER_MAX];
    if (!fleet_pointer_read(text, &pointer))
        return;
    fleet_pointer_write(&pointer, written);
    fuzz_expect(fleet_pointer_read(bytes_of_text(written), &again), "a pointer is read again");
    fuzz_expect(pointer.epoch == again.epoch && digest_equal(&pointer.sha256, &again.sha256),
                "the same pointer");
}

static void read_epochs(struct bytes text)
{
    struct fleet_epochs epochs, again;
    BUFFER_AUTO struct buffer written;
    buffer_init(&written, FLEET_EPOCHS_TEXT_MAX);
    fleet_epochs_read(text, &epochs);
    fleet_epochs_write(&epochs, &written);
    fuzz_expect(!written.failed, "epochs fit into their limit");
    fuzz_expect(fleet_epochs_read(buffer_view(&written), &again) && again.count == epochs.count,
                "epochs are read again");
    fleet_epochs_done(&epochs);
    fleet_epochs_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fleet_trust *trust = trusted();
    struct reader r = reader_of(bytes_of(data, size));
    enum kind kind = (enum kind)(reader_u8(&r) % KINDS);
    if (kind == RECORD) {
        sign_record(trust, &r);
        return 0;
    }
    struct bytes part = fuzz_rest(&r);
    KILN_AUTO(mem) uint8_t *copy = fuzz_copy(part);
    struct bytes text = bytes_of(copy, part.size);
    if (kind == INDEX)
        sign_index(trust, text);
    else if (kind == POINTER)
        read_pointer(text);
    else
        read_epochs(text);
    return 0;
}

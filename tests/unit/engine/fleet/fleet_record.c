/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_record.h"
#include "tests/support/fleet_keys.h"

#include <string.h>
#include <unistd.h>

#define TARGET "gfx90a:sramecc+:xnack-"

static const char object[] = "an object that has the same words, the same words, the same words, "
                             "the same words and the same words again";

struct fixture {
    const char *keys;
    struct fleet_signer alice;
    struct fleet_trust *trust;
    struct codec *codec;
    struct fleet_claim claim;
    struct fleet_reader reader;
    struct buffer records;
    struct kiln_err err;
};

static void reread_keys(struct fixture *f)
{
    fleet_trust_destroy(f->trust);
    f->trust = NULL;
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
    f->reader.trust = f->trust;
}

static void trust_alice(struct fixture *f, const char *targets)
{
    fleet_test_trust(f->keys, &f->alice, &(struct fleet_test_key){ "alice", targets, true });
    reread_keys(f);
}

SET_UP(set_up)
{
    f->keys = test_directory();
    f->alice = fleet_test_signer(1);
    test_buffer(&f->records, 1u << 20);
    must(codec_create(&f->codec, &f->err), f->err);
    f->claim = (struct fleet_claim){
        .key = sha256_of(bytes_of_text("key")),
        .source_id = sha256_of(bytes_of_text("source")),
        .shard = { .target = bytes_of_text(TARGET),
                   .toolchain = bytes_of_text("clang"),
                   .toolchain_id = sha256_of(bytes_of_text("clang 19")) },
        .program = bytes_of_text("conv_direct_naive"),
        .options = bytes_of_text("-O3 -DN=1"),
        .version = bytes_of_text("0.9.0"),
        .compile_ns = 123456789,
        .time = 1764288000,
    };
    f->reader = (struct fleet_reader){ .codec = f->codec, .shard = f->claim.shard };
    trust_alice(f, "gfx90a");
}

TEAR_DOWN(tear_down)
{
    fleet_trust_destroy(f->trust);
    codec_destroy(f->codec);
}

FIXTURE(record, set_up, tear_down);

static enum kiln_code write_unsigned(struct fixture *f)
{
    return fleet_record_write(f->codec, &f->claim, bytes_of_text(object), &f->records, &f->err);
}

static void write_record(struct fixture *f)
{
    size_t before = f->records.size;
    must(write_unsigned(f), f->err);
    fleet_record_sign(&f->alice, f->records.data + before);
}

static enum fleet_fault open_bytes(struct fixture *f, struct bytes bytes)
{
    struct fleet_record record;
    struct bytes raw;
    f->reader.fault = FLEET_FAULT_NONE;
    if (!fleet_record_read(bytes, &record))
        return FLEET_FAULT_MALFORMED;
    enum kiln_code rc = fleet_record_open(&f->reader, &record, &f->claim.key, &raw, &f->err);
    if (rc == KILN_NOT_FOUND) /* an unknown codec */
        return FLEET_FAULTS;
    assert_int_equal(rc, f->reader.fault ? KILN_CORRUPT : KILN_OK);
    if (!rc)
        assert_true(bytes_equal_text(raw, object));
    return f->reader.fault;
}

static enum fleet_fault open_record(struct fixture *f)
{
    return open_bytes(f, buffer_view(&f->records));
}

TEST_F(record, a_record_keeps_claim_and_object)
{
    struct fleet_record record;
    write_record(f);
    assert_int_equal(open_record(f), FLEET_FAULT_NONE);
    assert_true(fleet_record_read(buffer_view(&f->records), &record));
    assert_int_equal(record.size, f->records.size);
    assert_true(digest_equal(&record.claim.key, &f->claim.key));
    assert_true(digest_equal(&record.claim.source_id, &f->claim.source_id));
    assert_true(fleet_shard_equal(&record.claim.shard, &f->claim.shard));
    assert_true(bytes_equal(record.claim.program, f->claim.program));
    assert_true(bytes_equal(record.claim.options, f->claim.options));
    assert_true(bytes_equal(record.claim.version, f->claim.version));
    assert_int_equal(record.claim.raw_size, strlen(object));
    assert_int_equal(record.claim.compile_ns, f->claim.compile_ns);
    assert_int_equal(record.claim.time, f->claim.time);
}

TEST_F(record, records_follow_each_other_in_a_pack)
{
    struct fleet_record first;
    write_record(f);
    write_record(f);
    assert_true(fleet_record_read(buffer_view(&f->records), &first));
    assert_int_equal(first.size * 2, f->records.size);
    struct bytes rest = bytes_of(f->records.data + first.size, f->records.size - first.size);
    assert_int_equal(open_bytes(f, rest), FLEET_FAULT_NONE);
}

TEST_F(record, a_truncated_record_is_malformed)
{
    write_record(f);
    for (size_t size = 0; size < f->records.size; size++)
        assert_int_equal(open_bytes(f, bytes_of(f->records.data, size)), FLEET_FAULT_MALFORMED);
}

TEST_F(record, no_flipped_bit_gives_another_object)
{
    write_record(f);
    for (size_t i = 0; i < f->records.size; i++) {
        f->records.data[i] ^= 1;
        /* open_record fails the test if it gets a wrong object. It may get the right one,
         * because zstd ignores some bits. */
        (void)open_record(f);
        f->records.data[i] ^= 1;
    }
}

TEST_F(record, a_claim_about_another_key_is_refused)
{
    write_record(f);
    f->claim.key = sha256_of(bytes_of_text("another key"));
    assert_int_equal(open_record(f), FLEET_FAULT_OTHER_THING);
}

TEST_F(record, a_claim_for_another_target_is_refused)
{
    write_record(f);
    f->reader.shard.target = bytes_of_text("gfx90a:sramecc+:xnack+");
    assert_int_equal(open_record(f), FLEET_FAULT_OTHER_THING);
}

TEST_F(record, a_claim_of_another_toolchain_is_refused)
{
    write_record(f);
    f->reader.shard.toolchain_id = sha256_of(bytes_of_text("clang 20"));
    assert_int_equal(open_record(f), FLEET_FAULT_OTHER_THING);
}

TEST_F(record, a_revoked_signer_is_not_believed)
{
    char path[512];
    write_record(f);
    snprintf(path, sizeof(path), "%s/alice.pub", f->keys);
    assert_int_equal(unlink(path), 0);
    reread_keys(f);
    assert_int_equal(open_record(f), FLEET_FAULT_UNTRUSTED);
}

TEST_F(record, a_signer_may_sign_only_for_its_targets)
{
    static const struct {
        const char *targets;
        enum fleet_fault fault;
    } cases[] = {
        { "*", FLEET_FAULT_NONE },
        { "gfx90a", FLEET_FAULT_NONE },
        { "gfx942 " TARGET, FLEET_FAULT_NONE },
        { "gfx90", FLEET_FAULT_NOT_ALLOWED },
        { "gfx942  sm_90", FLEET_FAULT_NOT_ALLOWED },
        { "gfx90a:sramecc+:xnack+", FLEET_FAULT_NOT_ALLOWED },
        { "", FLEET_FAULT_NOT_ALLOWED },
    };
    write_record(f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        trust_alice(f, cases[i].targets);
        assert_int_equal(open_record(f), cases[i].fault);
    }
}

TEST_F(record, a_package_key_counts_for_nothing)
{
    const char *bad;
    write_record(f);
    fleet_test_trust(f->keys, &f->alice, &(struct fleet_test_key){ "alice", NULL, false });
    reread_keys(f);
    assert_int_equal(fleet_trust_count(f->trust), 0);
    assert_int_equal(fleet_trust_bad(f->trust, &bad), 1);
    assert_string_equal(bad, "alice");
    assert_int_equal(open_record(f), FLEET_FAULT_UNTRUSTED);
}

TEST_F(record, a_signature_of_another_key_under_a_trusted_id_is_refused)
{
    struct fleet_signer liar = fleet_test_signer(2);
    memcpy(liar.key_id, f->alice.key_id, FLEET_KEY_ID_SIZE);
    must(write_unsigned(f), f->err);
    fleet_record_sign(&liar, f->records.data);
    assert_int_equal(open_record(f), FLEET_FAULT_SIGNATURE);
}

TEST_F(record, a_record_without_a_signature_is_refused)
{
    must(write_unsigned(f), f->err);
    assert_int_equal(open_record(f), FLEET_FAULT_UNTRUSTED);
}

TEST_F(record, a_record_of_a_newer_codec_is_a_miss)
{
    struct fleet_record record;
    struct bytes raw;
    write_record(f);
    assert_true(fleet_record_read(buffer_view(&f->records), &record));
    record.packed.codec = 77;
    assert_int_equal(fleet_record_open(&f->reader, &record, &f->claim.key, &raw, &f->err),
                     KILN_NOT_FOUND);
}

TEST_F(record, a_claim_with_control_characters_is_not_written)
{
    f->claim.program = bytes_of("a\0b", 3);
    assert_int_equal(write_unsigned(f), KILN_INVALID);
}

TEST_F(record, a_directory_without_keys_trusts_nobody)
{
    struct fleet_trust *trust = NULL;
    must(fleet_trust_read("/nonexistent/keys", &trust, &f->err), f->err);
    assert_int_equal(fleet_trust_count(trust), 0);
    fleet_trust_destroy(trust);
}

TEST_F(record, names_depend_on_target_and_toolchain)
{
    char id[FLEET_SHARD_ID_SIZE], other[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    struct fleet_shard shard = f->claim.shard;
    fleet_shard_id(&shard, id);
    assert_int_equal(strspn(id, "0123456789abcdef"), 32);
    shard.target = bytes_of_text("gfx90a");
    fleet_shard_id(&shard, other);
    assert_string_not_equal(id, other);
    fleet_name_loose("00112233445566778899aabbccddeeff", &(struct digest){ { 0xab } }, name);
    assert_string_equal(name, "v1/k/00112233445566778899aabbccddeeff/"
                              "ab00000000000000000000000000000000000000000000000000000000000000");
}

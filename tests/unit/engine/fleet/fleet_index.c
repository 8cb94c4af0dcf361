/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_index.h"
#include "tests/support/fleet_keys.h"

#include <string.h>

#define ENTRIES_MAX 100000u

struct fixture {
    const char *keys;
    struct fleet_signer carol;
    struct fleet_trust *trust;
    struct fleet_pack packs[2];
    struct fleet_entry *entries;
    struct fleet_index_draft draft;
    struct buffer content;
    struct fleet_index *index;
    enum fleet_fault fault;
    struct kiln_err err;
};

static struct digest key_of(uint32_t number) { return sha256_of(bytes_of(&number, 4)); }

static void free_entries(void *f) { free(((struct fixture *)f)->entries); }

SET_UP(set_up)
{
    f->keys = test_directory();
    f->carol = fleet_test_signer(3);
    fleet_test_trust(f->keys, &f->carol, &(struct fleet_test_key){ "carol", NULL, true });
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
    test_buffer(&f->content, FLEET_INDEX_MAX);
    f->entries = calloc(ENTRIES_MAX, sizeof(*f->entries));
    test_at_end(free_entries, f);
    for (size_t i = 0; i < 2; i++)
        f->packs[i] = (struct fleet_pack){ sha256_of(bytes_of(&i, sizeof(i))), UINT32_MAX };
    f->draft = (struct fleet_index_draft){
        .shard = { .target = bytes_of_text("gfx90a:xnack-"), .toolchain = bytes_of_text("clang") },
        .epoch = 7,
        .time = 1764288000,
        .packs = f->packs,
        .pack_count = 2,
        .entries = f->entries,
    };
}

TEAR_DOWN(tear_down)
{
    fleet_index_destroy(f->index);
    fleet_trust_destroy(f->trust);
}

FIXTURE(index, set_up, tear_down);

static void write_entries(struct fixture *f, uint32_t count)
{
    buffer_done(&f->content);
    buffer_init(&f->content, FLEET_INDEX_MAX);
    f->draft.entry_count = count;
    must(fleet_index_write(&f->draft, &f->carol, &f->content, &f->err), f->err);
}

static void fill(struct fixture *f, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        f->entries[i].key = key_of(i);
        f->entries[i].place = (struct fleet_place){ i % 2, 5000 * (i / 2), 100 + i % 4000 };
    }
    write_entries(f, count);
}

static enum fleet_fault open_index(struct fixture *f)
{
    f->fault = FLEET_FAULT_NONE;
    enum kiln_code rc = fleet_index_open(&f->content, f->trust, &f->index, &f->fault, &f->err);
    assert_int_equal(rc, f->fault ? KILN_CORRUPT : KILN_OK);
    return f->fault;
}

/* Signs the changed text again, so that only the later checks can refuse it. */
static void sign_again(struct fixture *f)
{
    size_t text = f->content.size - FLEET_KEY_ID_SIZE - ED25519_SIGNATURE_SIZE;
    ed25519_sign(f->carol.secret, bytes_of(f->content.data, text),
                 f->content.data + text + FLEET_KEY_ID_SIZE);
}

TEST_F(index, every_key_is_found_at_its_place_and_no_other_key)
{
    fill(f, 3000);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
    assert_int_equal(fleet_index_count(f->index), 3000);
    for (uint32_t i = 0; i < 6000; i++) {
        struct digest key = key_of(i);
        struct fleet_place place = { 0 };
        assert_int_equal(fleet_index_find(f->index, &key, &place), i < 3000);
        assert_true(i >= 3000 || (place.pack == i % 2 && place.offset == 5000 * (i / 2) &&
                                  place.size == 100 + i % 4000));
    }
}

static bool has_key(const struct fixture *f, const struct digest *key)
{
    struct fleet_place place;
    return fleet_index_find(f->index, key, &place);
}

TEST_F(index, uneven_keys_are_found)
{
    static const uint8_t first_bytes[] = { 0x00, 0x7f, 0xff };
    for (size_t end = 0; end < sizeof(first_bytes); end++) {
        for (uint32_t i = 0; i < 300; i++) {
            f->entries[i] = (struct fleet_entry){ .place = { 0, i, 1 } };
            memset(f->entries[i].key.bytes, first_bytes[end], 6);
            f->entries[i].key.bytes[6] = (uint8_t)(i >> 7);
            f->entries[i].key.bytes[7] = (uint8_t)(i << 1);
        }
        write_entries(f, 300);
        fleet_index_destroy(f->index);
        assert_int_equal(open_index(f), FLEET_FAULT_NONE);
        for (uint32_t i = 0; i < 300; i++) {
            struct digest key = fleet_index_entry(f->index, i).key;
            assert_true(has_key(f, &key));
            key.bytes[7] ^= 1;
            assert_false(has_key(f, &key));
        }
        assert_false(has_key(f, &(struct digest){ { 0x40 } }));
        assert_false(has_key(f, &(struct digest){ { 0xc0 } }));
    }
}

TEST_F(index, a_hundred_thousand_keys_take_less_than_two_megabytes)
{
    fill(f, ENTRIES_MAX);
    assert_in_range(f->content.size, 1, 2000000);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
}

TEST_F(index, an_index_keeps_its_header)
{
    fill(f, 10);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
    struct fleet_shard shard = fleet_index_shard(f->index);
    assert_true(fleet_shard_equal(&shard, &f->draft.shard));
    assert_int_equal(fleet_index_epoch(f->index), 7);
    assert_int_equal(fleet_index_time(f->index), 1764288000);
    assert_int_equal(fleet_index_packs(f->index), 2);
    struct fleet_pack pack = fleet_index_pack(f->index, 1);
    assert_true(digest_equal(&pack.sha256, &f->packs[1].sha256) && pack.size == f->packs[1].size);
    assert_memory_equal(fleet_index_signer(f->index), f->carol.key_id, FLEET_KEY_ID_SIZE);
}

TEST_F(index, an_empty_index_has_no_key)
{
    struct fleet_place place;
    struct digest key = key_of(1);
    fill(f, 0);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
    assert_false(fleet_index_find(f->index, &key, &place));
}

TEST_F(index, an_index_is_rewritten_from_its_entries)
{
    BUFFER_AUTO struct buffer again;
    buffer_init(&again, FLEET_INDEX_MAX);
    fill(f, 500);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
    for (uint32_t i = 0; i < 500; i++)
        f->entries[499 - i] = fleet_index_entry(f->index, i);
    must(fleet_index_write(&f->draft, &f->carol, &again, &f->err), f->err);
    fill(f, 500);
    assert_true(bytes_equal(buffer_view(&again), buffer_view(&f->content)));
}

TEST_F(index, the_first_of_two_equal_prefixes_is_kept)
{
    f->entries[0].key = f->entries[1].key = key_of(1);
    f->entries[0].key.bytes[31] ^= 1;
    f->entries[0].place = (struct fleet_place){ 1, 0, 10 };
    f->entries[1].place = (struct fleet_place){ 0, 20, 30 };
    f->draft.entry_count = 2;
    must(fleet_index_write(&f->draft, &f->carol, &f->content, &f->err), f->err);
    assert_int_equal(open_index(f), FLEET_FAULT_NONE);
    assert_int_equal(fleet_index_count(f->index), 1);
    assert_int_equal(fleet_index_entry(f->index, 0).place.offset, 20);
}

TEST_F(index, no_flipped_bit_is_accepted)
{
    fill(f, 20);
    for (size_t i = 0; i < f->content.size; i++) {
        f->content.data[i] ^= 1;
        if (open_index(f) == FLEET_FAULT_NONE)
            fail_msg("byte %zu was changed unnoticed", i);
        f->content.data[i] ^= 1;
    }
}

TEST_F(index, a_truncated_index_is_refused)
{
    fill(f, 20);
    for (size_t size = f->content.size; size-- > 0;) {
        f->content.size = size;
        assert_int_not_equal(open_index(f), FLEET_FAULT_NONE);
    }
}

TEST_F(index, a_builder_of_kernels_cannot_sign_an_index)
{
    struct fleet_signer alice = fleet_test_signer(1);
    fleet_test_trust(f->keys, &alice, &(struct fleet_test_key){ "alice", "*", false });
    fleet_trust_destroy(f->trust);
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
    must(fleet_index_write(&f->draft, &alice, &f->content, &f->err), f->err);
    assert_int_equal(open_index(f), FLEET_FAULT_NOT_ALLOWED);
}

TEST_F(index, an_unknown_signer_is_not_believed)
{
    struct fleet_signer mallory = fleet_test_signer(9);
    must(fleet_index_write(&f->draft, &mallory, &f->content, &f->err), f->err);
    assert_int_equal(open_index(f), FLEET_FAULT_UNTRUSTED);
}

TEST_F(index, places_outside_of_their_pack_are_refused)
{
    static const struct fleet_place bad[] = { { 2, 0, 10 }, { 0, 0, 0 }, { 0, 990, 11 } };
    f->packs[0].size = 1000;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        f->entries[0] = (struct fleet_entry){ key_of(1), bad[i] };
        f->draft.entry_count = 1;
        must(fleet_index_write(&f->draft, &f->carol, &f->content, &f->err), f->err);
        assert_int_equal(open_index(f), FLEET_FAULT_MALFORMED);
    }
}

TEST_F(index, keys_out_of_order_are_refused)
{
    uint8_t swapped[8];
    fill(f, 2);
    uint8_t *prefixes =
        f->content.data + f->content.size - FLEET_KEY_ID_SIZE - ED25519_SIGNATURE_SIZE - 2 * 18u;
    memcpy(swapped, prefixes, 8);
    memmove(prefixes, prefixes + 8, 8);
    memcpy(prefixes + 8, swapped, 8);
    sign_again(f);
    assert_int_equal(open_index(f), FLEET_FAULT_MALFORMED);
}

TEST_F(index, too_many_packs_do_not_fit)
{
    f->draft.pack_count = FLEET_PACKS_MAX + 1;
    assert_int_equal(fleet_index_write(&f->draft, &f->carol, &f->content, &f->err), KILN_FULL);
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_collect.h"
#include "engine/fleet/fleet_compact.h"
#include "engine/fleet/fleet_directory.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_push.h"
#include "engine/fleet/fleet_series.h"
#include "engine/fleet/fleet_tree.h"
#include "engine/fleet/fleet_verify.h"
#include "tests/support/fleet_keys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *keys, *tree;
    int root;
    struct fleet_directory directory;
    struct fleet_signer alice, carol;
    struct fleet_trust *trust;
    struct codec *codec;
    struct buffer records;
    struct fleet_compaction compaction;
    char problems[2048]; /* of the last compaction */
    struct kiln_err err;
};

static void reread_keys(struct fixture *f)
{
    fleet_trust_destroy(f->trust);
    f->trust = NULL;
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
    f->compaction.trust = f->trust;
}

static void note_problem(void *context, const char *what, const char *why)
{
    struct fixture *f = context;
    size_t used = strlen(f->problems);
    snprintf(f->problems + used, sizeof(f->problems) - used, "%s: %s\n", what, why);
}

SET_UP(set_up)
{
    f->keys = test_directory();
    f->tree = test_directory();
    f->alice = fleet_test_signer(1);
    f->carol = fleet_test_signer(3);
    fleet_test_trust(f->keys, &f->alice, &(struct fleet_test_key){ "alice", "gfx90a", false });
    fleet_test_trust(f->keys, &f->carol, &(struct fleet_test_key){ "carol", NULL, true });
    test_buffer(&f->records, 1u << 20);
    must(codec_create(&f->codec, &f->err), f->err);
    must(fleet_tree_open(f->tree, &f->root, &f->err), f->err);
    f->directory = fleet_directory_of(f->root);
    f->compaction = (struct fleet_compaction){ .store = &f->directory.store,
                                               .signer = &f->carol,
                                               .now = 1764288000,
                                               .pack_max = FLEET_PACK_MAX,
                                               .problem = note_problem,
                                               .context = f };
    reread_keys(f);
}

TEAR_DOWN(tear_down)
{
    close(f->root);
    codec_destroy(f->codec);
    fleet_trust_destroy(f->trust);
}

FIXTURE(compact, set_up, tear_down);

static struct digest key_of(unsigned number) { return sha256_of(bytes_of(&number, 4)); }

static struct fleet_claim claim_of(unsigned number)
{
    return (struct fleet_claim){
        .key = key_of(number),
        .shard = { .target = bytes_of_text("gfx90a:xnack-"), .toolchain = bytes_of_text("clang") },
        .program = bytes_of_text("conv"),
        .time = 1000 - number, /* the last one was compiled first */
    };
}

static void put_record(struct fixture *f, const struct fleet_claim *claim)
{
    char raw[64];
    snprintf(raw, sizeof(raw), "object %02x%02x", claim->key.bytes[0], claim->key.bytes[1]);
    must(fleet_record_write(f->codec, claim, bytes_of_text(raw), &f->records, &f->err), f->err);
}

static struct fleet_pushing push_as(struct fixture *f, const struct fleet_signer *signer)
{
    struct fleet_pushing pushing = { .store = &f->directory.store, .signer = signer };
    must(fleet_push(&pushing, f->records.data, f->records.size, &f->err), f->err);
    buffer_clear(&f->records);
    return pushing;
}

static struct fleet_pushing push(struct fixture *f, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        struct fleet_claim claim = claim_of(i);
        put_record(f, &claim);
    }
    return push_as(f, &f->alice);
}

static void compact_damaged(struct fixture *f)
{
    struct fleet_compaction *c = &f->compaction;
    c->kernels = c->packs = c->merged = c->indices = c->problems = c->dropped = 0;
    memset(c->refused, 0, sizeof(c->refused));
    f->problems[0] = '\0';
    must(fleet_compact(c, &f->err), f->err);
}

static void compact(struct fixture *f)
{
    compact_damaged(f);
    assert_string_equal(f->problems, "");
}

static void read_file(struct fixture *f, const char *name, struct buffer *content)
{
    buffer_init(content, FLEET_INDEX_MAX);
    must(fleet_tree_read(f->root, name, content, &f->err), f->err);
}

static void shard_id_of(const struct fleet_claim *claim, char id[FLEET_SHARD_ID_SIZE])
{
    fleet_shard_id(&claim->shard, id);
}

/* Reads the index that the pointer names, as readers of the fleet do. */
static struct fleet_index *read_index(struct fixture *f)
{
    BUFFER_AUTO struct buffer text = { 0 };
    BUFFER_AUTO struct buffer content = { 0 };
    struct fleet_claim claim = claim_of(0);
    struct fleet_pointer pointer;
    struct fleet_index *index = NULL;
    enum fleet_fault fault;
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    shard_id_of(&claim, id);
    fleet_name_pointer(id, name);
    read_file(f, name, &text);
    assert_true(fleet_pointer_read(buffer_view(&text), &pointer));
    fleet_name_index(id, &pointer.sha256, name);
    read_file(f, name, &content);
    must(fleet_index_open(&content, f->trust, &index, &fault, &f->err), f->err);
    assert_int_equal(fleet_index_epoch(index), pointer.epoch);
    return index;
}

static void expect_object(struct fixture *f, const struct fleet_index *index, unsigned number)
{
    BUFFER_AUTO struct buffer pack = { 0 };
    struct fleet_claim claim = claim_of(number);
    struct fleet_reader reader = { f->trust, f->codec, claim.shard, FLEET_FAULT_NONE };
    struct fleet_place place;
    struct fleet_record record;
    struct bytes raw;
    char name[FLEET_NAME_MAX], text[64];
    assert_true(fleet_index_find(index, &claim.key, &place));
    struct fleet_pack of = fleet_index_pack(index, place.pack);
    fleet_name_pack(&of.sha256, name);
    read_file(f, name, &pack);
    struct digest digest = sha256_of(buffer_view(&pack));
    assert_true(pack.size == of.size && digest_equal(&digest, &of.sha256));
    assert_true(fleet_record_read(bytes_of(pack.data + place.offset, place.size), &record));
    must(fleet_record_open(&reader, &record, &claim.key, &raw, &f->err), f->err);
    snprintf(text, sizeof(text), "object %02x%02x", claim.key.bytes[0], claim.key.bytes[1]);
    assert_true(bytes_equal_text(raw, text));
}

TEST_F(compact, pushed_kernels_are_found_after_a_compaction)
{
    assert_int_equal(push(f, 0, 20).added, 20);
    compact(f);
    assert_int_equal(f->compaction.kernels, 20);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 20);
    for (unsigned i = 0; i < 20; i++)
        expect_object(f, index, i);
}

TEST_F(compact, a_kernel_that_the_tree_has_is_not_replaced)
{
    push(f, 0, 3);
    struct fleet_pushing again = push(f, 0, 4);
    assert_int_equal(again.added, 1);
    assert_int_equal(again.present, 3);
}

TEST_F(compact, the_next_compaction_keeps_old_entries)
{
    push(f, 0, 5);
    compact(f);
    push(f, 5, 9);
    compact(f);
    assert_int_equal(f->compaction.kernels, 4);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_epoch(index), f->compaction.now + 1);
    assert_int_equal(fleet_index_packs(index), 2);
    for (unsigned i = 0; i < 9; i++)
        expect_object(f, index, i);
}

TEST_F(compact, nothing_new_leaves_the_index)
{
    push(f, 0, 5);
    compact(f);
    compact(f);
    assert_int_equal(f->compaction.indices, 0);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_epoch(index), f->compaction.now);
}

TEST_F(compact, a_full_pack_is_followed_by_another)
{
    f->compaction.pack_max = 600;
    push(f, 0, 10);
    compact(f);
    assert_true(f->compaction.packs > 2);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    for (unsigned i = 0; i < 10; i++)
        expect_object(f, index, i);
}

TEST_F(compact, kernels_compiled_one_after_the_other_are_adjacent)
{
    struct fleet_place place, next;
    push(f, 0, 10);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    for (unsigned i = 1; i < 10; i++) {
        struct digest key = key_of(i), later = key_of(i - 1);
        assert_true(fleet_index_find(index, &key, &place) &&
                    fleet_index_find(index, &later, &next));
        assert_int_equal(place.offset + place.size, next.offset);
    }
}

TEST_F(compact, records_of_others_are_left_out)
{
    struct fleet_signer mallory = fleet_test_signer(9);
    struct fleet_claim other = claim_of(7);
    other.shard.target = bytes_of_text("gfx942");
    push(f, 0, 2);
    struct fleet_claim claim = claim_of(5);
    put_record(f, &claim);
    push_as(f, &mallory);
    put_record(f, &other);
    push_as(f, &f->alice); /* alice may not sign for gfx942 */
    compact(f);
    assert_int_equal(f->compaction.kernels, 2);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_UNTRUSTED], 1);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_NOT_ALLOWED], 1);
}

static void put_loose(struct fixture *f, const struct digest *key, struct bytes content)
{
    struct fleet_claim claim = claim_of(0);
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    bool added;
    shard_id_of(&claim, id);
    fleet_name_loose(id, key, name);
    must(fleet_tree_add(f->root, name, content, &added, &f->err), f->err);
    assert_true(added);
}

TEST_F(compact, files_that_are_no_records_of_their_key_are_left_out)
{
    struct fleet_claim claim = claim_of(3);
    struct digest another = key_of(4), rubbish = key_of(5), longer = key_of(6);
    put_record(f, &claim);
    fleet_record_sign(&f->alice, f->records.data);
    put_loose(f, &another, buffer_view(&f->records));
    put_loose(f, &rubbish, bytes_of_text("<html>"));
    buffer_put(&f->records, "x", 1);
    put_loose(f, &longer, buffer_view(&f->records));
    compact(f);
    assert_int_equal(f->compaction.kernels, 0);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_OTHER_THING], 1);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_MALFORMED], 2);
}

static void path_of_loose(struct fixture *f, unsigned number, char path[512])
{
    struct fleet_claim claim = claim_of(number);
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    shard_id_of(&claim, id);
    fleet_name_loose(id, &claim.key, name);
    snprintf(path, 512, "%s/%s", f->tree, name);
}

TEST_F(compact, what_cannot_be_read_does_not_stop_the_compaction)
{
    char path[512];
    push(f, 0, 2);
    path_of_loose(f, 5, path);
    assert_int_equal(mkdir(path, 0700), 0);
    path_of_loose(f, 6, path);
    assert_int_equal(symlink(path, path), 0);
    compact(f);
    assert_int_equal(f->compaction.kernels, 2);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_MALFORMED], 2);
}

static struct fixture *truncates;
static unsigned reads_left;

/* Truncates the file of kernel 1 before a read of the compaction, like a writer of the tree that
 * runs at the same time. |reads_left| is the number of reads before that one. */
WRAP(enum kiln_code, fleet_tree_read, int root, const char *name, struct buffer *ret_content,
     struct kiln_err *err)
{
    char path[512];
    if (truncates && reads_left-- == 0) {
        path_of_loose(truncates, 1, path);
        assert_int_equal(truncate(path, 0), 0);
        truncates = NULL;
    }
    return __real_fleet_tree_read(root, name, ret_content, err);
}

TEST_F(compact, a_file_that_is_truncated_meanwhile_is_left_out)
{
    push(f, 0, 3);
    truncates = f;
    /* The compaction first reads the pointer. Then it lists all records, and reads each. The file
     * is truncated after the listing, before the first record is read. */
    reads_left = 1;
    compact(f);
    assert_null(truncates);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_MALFORMED], 1);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 2);
    expect_object(f, index, 0);
    expect_object(f, index, 2);
}

static void replace_pointer(struct fixture *f, const char *text)
{
    struct fleet_claim claim = claim_of(0);
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    shard_id_of(&claim, id);
    fleet_name_pointer(id, name);
    must(fleet_tree_replace(f->root, name, bytes_of_text(text), &f->err), f->err);
}

static void ignore_bad(void *context, const char *what, const char *why)
{
    (void)context;
    assert_true(what[0] && why[0]);
}

/* Accepts what the tests pack, which is not code. */
static enum kiln_code check_object(struct bytes object, const struct target *target,
                                   struct kiln_err *err)
{
    assert_string_equal(target->text, "gfx90a:xnack-");
    return object.size > 7 && memcmp(object.data, "object ", 7) == 0
               ? KILN_OK
               : kiln_fail(err, KILN_CORRUPT, "it is something else");
}

static struct fleet_verification verify(struct fixture *f)
{
    struct fleet_verification verification = { .store = &f->directory.store,
                                               .trust = f->trust,
                                               .check_object = check_object,
                                               .bad = ignore_bad };
    must(fleet_verify(&verification, &f->err), f->err);
    return verification;
}

TEST_F(compact, a_compacted_tree_is_sound)
{
    push(f, 0, 7);
    compact(f);
    push(f, 7, 9);
    compact(f);
    struct fleet_verification verification = verify(f);
    assert_int_equal(verification.kernels, 9);
    assert_int_equal(verification.shards, 1);
    assert_int_equal(verification.bad_count, 0);
}

static void find_pack(struct fixture *f, char name[FLEET_NAME_MAX])
{
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    const struct fleet_pack pack = fleet_index_pack(index, 0);
    fleet_name_pack(&pack.sha256, name);
}

TEST_F(compact, damage_in_a_pack_is_found)
{
    BUFFER_AUTO struct buffer pack = { 0 };
    char name[FLEET_NAME_MAX];
    push(f, 0, 3);
    compact(f);
    find_pack(f, name);
    read_file(f, name, &pack);
    pack.data[pack.size - 1] ^= 1;
    must(fleet_tree_replace(f->root, name, buffer_view(&pack), &f->err), f->err);
    struct fleet_verification verification = verify(f);
    assert_int_equal(verification.kernels, 3);
    assert_int_equal(verification.bad_count, 1);
}

TEST_F(compact, a_missing_pack_is_found)
{
    char name[FLEET_NAME_MAX];
    push(f, 0, 3);
    compact(f);
    find_pack(f, name);
    assert_int_equal(unlinkat(f->root, name, 0), 0);
    assert_int_equal(verify(f).bad_count, 3);
}

TEST_F(compact, an_index_that_is_replaced_is_found)
{
    push(f, 0, 3);
    compact(f);
    replace_pointer(f, "kiln-fleet-pointer-1 1 "
                       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n");
    struct fleet_verification verification = verify(f);
    assert_int_equal(verification.shards, 0);
    assert_int_equal(verification.bad_count, 1);
}

TEST_F(compact, a_damaged_pointer_does_not_begin_a_new_epoch)
{
    push(f, 0, 2);
    replace_pointer(f, "rubbish\n");
    compact_damaged(f);
    assert_int_equal(f->compaction.problems, 1);
    assert_int_equal(f->compaction.indices, 0);
    assert_says(f->problems, "current");
}

TEST_F(compact, an_index_of_an_untrusted_signer_is_not_continued)
{
    char path[512];
    push(f, 0, 2);
    compact(f);
    push(f, 2, 3);
    snprintf(path, sizeof(path), "%s/carol.pub", f->keys);
    assert_int_equal(unlink(path), 0);
    reread_keys(f);
    compact_damaged(f);
    assert_int_equal(f->compaction.problems, 1);
    assert_int_equal(f->compaction.indices, 0);
}

static void push_to_shard(struct fixture *f, unsigned number, const char *toolchain)
{
    struct fleet_claim claim = claim_of(number);
    claim.shard.toolchain = bytes_of_text(toolchain);
    put_record(f, &claim);
    assert_int_equal(push_as(f, &f->alice).added, 1);
}

/* There are several shards, so that the compaction reaches some of them after the damaged one. */
TEST_F(compact, a_damaged_shard_does_not_stop_the_others)
{
    static const char *const toolchains[] = { "a", "b", "c", "d", "e", "f" };
    const size_t count = sizeof(toolchains) / sizeof(toolchains[0]);
    push(f, 0, 1);
    replace_pointer(f, "rubbish\n");
    for (size_t i = 0; i < count; i++)
        push_to_shard(f, 10 + (unsigned)i, toolchains[i]);
    compact_damaged(f);
    assert_int_equal(f->compaction.indices, count);
    assert_int_equal(f->compaction.kernels, count);
    assert_int_equal(f->compaction.problems, 1);
}

TEST_F(compact, an_index_after_a_lost_one_has_a_higher_epoch)
{
    struct fleet_claim claim = claim_of(0);
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    push(f, 0, 5);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *lost = read_index(f);
    shard_id_of(&claim, id);
    fleet_name_pointer(id, name);
    assert_int_equal(unlinkat(f->root, name, 0), 0);
    f->compaction.now += 60;
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_true(fleet_index_epoch(index) > fleet_index_epoch(lost));
}

/* Adds one pack in each compaction. */
static void compact_often(struct fixture *f, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        push(f, i, i + 1);
        compact_damaged(f);
        assert_int_equal(f->compaction.indices, 1);
    }
}

static uint32_t count_packs(struct fixture *f)
{
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    return fleet_index_packs(index);
}

TEST_F(compact, small_packs_are_merged)
{
    compact_often(f, 0, 17);
    assert_int_equal(count_packs(f), 17);
    compact_often(f, 17, 18);
    assert_string_equal(f->problems, "");
    assert_int_equal(f->compaction.merged, 17);
    assert_int_equal(f->compaction.kernels, 1);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_packs(index), 1);
    assert_int_equal(fleet_index_count(index), 18);
    for (unsigned i = 0; i < 18; i++)
        expect_object(f, index, i);
    assert_int_equal(verify(f).bad_count, 0);
}

TEST_F(compact, the_number_of_packs_stays_bounded_and_large_packs_are_kept)
{
    f->compaction.pack_max = 1500; /* about six records */
    compact_often(f, 0, 60);
    assert_true(count_packs(f) < 30);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 60);
    for (unsigned i = 0; i < 60; i++)
        expect_object(f, index, i);
}

/* Readers that have the old index still read the old packs. */
TEST_F(compact, merged_packs_remain_in_the_tree)
{
    compact_often(f, 0, 17);
    KILN_AUTO(fleet_index) struct fleet_index *before = read_index(f);
    compact_often(f, 17, 18);
    for (unsigned i = 0; i < 17; i++)
        expect_object(f, before, i);
}

TEST_F(compact, a_pack_that_cannot_be_read_stays_in_the_index)
{
    char name[FLEET_NAME_MAX];
    compact_often(f, 0, 17);
    find_pack(f, name);
    assert_int_equal(unlinkat(f->root, name, 0), 0);
    compact_often(f, 17, 18);
    assert_int_equal(f->compaction.problems, 1);
    assert_says(f->problems, name);
    assert_int_equal(f->compaction.merged, 16);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_packs(index), 2);
    assert_int_equal(fleet_index_count(index), 18);
    for (unsigned i = 1; i < 18; i++)
        expect_object(f, index, i);
}

TEST_F(compact, a_damaged_pack_is_not_merged)
{
    char name[FLEET_NAME_MAX];
    compact_often(f, 0, 17);
    find_pack(f, name);
    must(fleet_tree_replace(f->root, name, bytes_of_text("rubbish"), &f->err), f->err);
    compact_often(f, 17, 18);
    assert_int_equal(f->compaction.problems, 1);
    assert_int_equal(count_packs(f), 2);
}

static void revoke_key(struct fixture *f, const struct fleet_signer *signer)
{
    char name[FLEET_REVOKED_NAME_MAX], path[512];
    struct stat seen;
    fleet_revoked_name(signer->key_id, name);
    snprintf(path, sizeof(path), "%.400s/%s", f->keys, name);
    must(fs_replace_file(path, bytes_of_text(""), 0644, &f->err), f->err);
    assert_int_equal(stat(path, &seen), 0);
    f->compaction.now = (uint64_t)seen.st_ctime + 1;
    reread_keys(f);
}

/* Adds the kernel 50 of another builder, and 17 small packs. The first pack has the kernels 0 and
 * 50. */
static void fill_with_another(struct fixture *f, const struct fleet_signer *bob)
{
    const struct fleet_claim claim = claim_of(50);
    fleet_test_trust(f->keys, bob, &(struct fleet_test_key){ "bob", "*", false });
    reread_keys(f);
    put_record(f, &claim);
    push_as(f, bob);
    compact_often(f, 0, 17);
}

TEST_F(compact, merging_leaves_out_kernels_of_a_revoked_builder)
{
    struct fleet_signer bob = fleet_test_signer(4);
    fill_with_another(f, &bob);
    revoke_key(f, &bob);
    compact_often(f, 17, 18);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_UNTRUSTED], 1);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 18);
}

TEST_F(compact, merging_keeps_kernels_of_a_builder_that_is_not_trusted_for_now)
{
    struct fleet_signer bob = fleet_test_signer(4);
    char path[512];
    fill_with_another(f, &bob);
    snprintf(path, sizeof(path), "%s/bob.pub", f->keys);
    assert_int_equal(unlink(path), 0);
    reread_keys(f);
    compact_often(f, 17, 18);
    assert_int_equal(f->compaction.merged, 17);
    assert_int_equal(f->compaction.refused[FLEET_FAULT_UNTRUSTED], 0);
    fleet_test_trust(f->keys, &bob, &(struct fleet_test_key){ "bob", "*", false });
    reread_keys(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 19);
    expect_object(f, index, 50);
}

/* As long as the index has a kernel of a revoked key, no host can add the kernel again. */
TEST_F(compact, after_a_revocation_the_kernels_of_the_key_leave_the_index)
{
    struct fleet_signer bob = fleet_test_signer(4);
    struct fleet_claim claim = claim_of(50);
    fleet_test_trust(f->keys, &bob, &(struct fleet_test_key){ "bob", "*", false });
    reread_keys(f);
    push(f, 0, 2);
    compact(f);
    put_record(f, &claim);
    push_as(f, &bob);
    compact(f);
    revoke_key(f, &bob);
    compact(f);
    assert_int_equal(f->compaction.indices, 1);
    assert_int_equal(f->compaction.merged, 1); /* the pack with alice's kernels stays as it is */
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 2);
    expect_object(f, index, 0);
    expect_object(f, index, 1);
    f->compaction.now++;
    compact(f);
    assert_int_equal(f->compaction.indices, 0); /* done once */
}

TEST_F(compact, a_copied_revocation_counts_from_its_arrival)
{
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    char name[FLEET_REVOKED_NAME_MAX], path[512];
    struct fleet_signer bob = fleet_test_signer(4);
    fill_with_another(f, &bob);
    revoke_key(f, &bob);
    fleet_revoked_name(bob.key_id, name);
    snprintf(path, sizeof(path), "%.400s/%s", f->keys, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0); /* as cp -p does */
    reread_keys(f);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 17);
}

TEST_F(compact, a_full_index_loses_its_oldest_packs)
{
    f->compaction.keys_max = 5;
    push(f, 0, 2);
    compact(f);
    push(f, 2, 5);
    compact(f);
    assert_int_equal(f->compaction.dropped, 0);
    push(f, 5, 6);
    compact(f);
    assert_int_equal(f->compaction.dropped, 2);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 4);
    assert_int_equal(fleet_index_packs(index), 2);
    for (unsigned i = 2; i < 6; i++)
        expect_object(f, index, i);
}

TEST_F(compact, too_many_bytes_of_tuning_records_are_reported_with_their_directory)
{
    char raw[32];
    for (unsigned i = 0; i < 20; i++) { /* more than the compaction reads at once */
        snprintf(raw, sizeof(raw), "host-%u", i);
        const struct fleet_claim claim = {
            .key = sha256_of(bytes_of_text(raw)),
            .shard =
                fleet_shard_named(bytes_of_text("gfx90a"), FLEET_TUNING, bytes_of_text("gfx90a68")),
            .program = bytes_of_text("gfx90a68"),
            .options = bytes_of_text(raw),
        };
        must(fleet_record_write(f->codec, &claim, bytes_of_text(raw), &f->records, &f->err),
             f->err);
    }
    f->compaction.spool_max = f->records.size / 2; /* reached when 16 of 20 were read */
    push_as(f, &f->alice);
    compact_damaged(f);
    assert_says(f->problems, "too many bytes");
    assert_says(f->problems, "v1/k/");
    f->compaction.spool_max = 0;
    compact(f);
    assert_int_equal(f->compaction.packs, 1);
}

TEST_F(compact, the_newest_packs_within_a_limit_are_collected)
{
    struct fleet_collection found = { .store = &f->directory.store,
                                      .trust = f->trust,
                                      .shard = claim_of(0).shard };
    push(f, 0, 4);
    compact(f);
    push(f, 4, 6);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    found.bytes_max = fleet_index_pack(index, 1).size;
    must(fleet_collect(&found, &f->err), f->err);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.malformed, 0);
    fleet_collection_done(&found);
}

TEST_F(compact, an_object_that_is_not_code_for_the_target_is_found)
{
    struct fleet_claim claim = claim_of(1);
    must(fleet_record_write(f->codec, &claim, bytes_of_text("text"), &f->records, &f->err), f->err);
    push_as(f, &f->alice);
    compact(f);
    assert_int_equal(verify(f).bad_count, 1);
}

TEST_F(compact, only_one_process_may_change_a_tree)
{
    int first = -1, second = -1;
    must(fleet_tree_lock(f->root, &first, &f->err), f->err);
    assert_true(first >= 0);
    assert_int_equal(fleet_tree_lock(f->root, &second, &f->err), KILN_BUSY);
    close(first);
    must(fleet_tree_lock(f->root, &second, &f->err), f->err);
    close(second);
}

TEST_F(compact, an_empty_tree_needs_no_index)
{
    compact(f);
    assert_int_equal(f->compaction.indices, 0);
}

TEST_F(compact, only_whole_records_are_pushed)
{
    struct fleet_pushing pushing = { .store = &f->directory.store, .signer = &f->alice };
    struct fleet_claim claim = claim_of(1);
    put_record(f, &claim);
    buffer_put(&f->records, "rest", 4);
    assert_int_equal(fleet_push(&pushing, f->records.data, f->records.size, &f->err), KILN_CORRUPT);
    assert_int_equal(pushing.added, 1);
}

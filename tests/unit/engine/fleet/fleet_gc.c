/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_compact.h"
#include "engine/fleet/fleet_directory.h"
#include "engine/fleet/fleet_gc.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_push.h"
#include "engine/fleet/fleet_series.h"
#include "engine/fleet/fleet_tree.h"
#include "engine/fleet/fleet_verify.h"
#include "tests/support/fleet_keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY_S 86400u

struct fixture {
    const char *keys, *tree;
    int root;
    struct fleet_directory directory;
    struct fleet_signer signer;
    struct fleet_trust *trust;
    struct fleet_gc gc;
    char last[FLEET_NAME_MAX]; /* the file that was found last */
    unsigned found;
    struct kiln_err err;
};

static void note_file(void *context, const struct fleet_garbage *garbage)
{
    struct fixture *f = context;
    f->found++;
    snprintf(f->last, sizeof(f->last), "%s", garbage->name);
}

static void read_keys(struct fixture *f)
{
    fleet_trust_destroy(f->trust);
    f->trust = NULL;
    must(fleet_trust_read(f->keys, &f->trust, &f->err), f->err);
}

SET_UP(set_up)
{
    f->keys = test_directory();
    f->tree = test_directory();
    f->signer = fleet_test_signer(1);
    fleet_test_trust(f->keys, &f->signer, &(struct fleet_test_key){ "builder", "*", true });
    must(fleet_tree_open(f->tree, &f->root, &f->err), f->err);
    f->directory = fleet_directory_of(f->root);
    read_keys(f);
}

TEAR_DOWN(tear_down)
{
    close(f->root);
    fleet_trust_destroy(f->trust);
}

FIXTURE(gc, set_up, tear_down);

static struct fleet_claim claim_of(unsigned number)
{
    return (struct fleet_claim){
        .key = sha256_of(bytes_of(&number, sizeof(number))),
        .shard = { .target = bytes_of_text("gfx90a"), .toolchain = bytes_of_text("clang") },
        .program = bytes_of_text("conv"),
    };
}

static void push(struct fixture *f, unsigned number)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    BUFFER_AUTO struct buffer records;
    struct fleet_pushing pushing = { .store = &f->directory.store, .signer = &f->signer };
    const struct fleet_claim claim = claim_of(number);
    buffer_init(&records, 1u << 20);
    must(codec_create(&codec, &f->err), f->err);
    must(fleet_record_write(codec, &claim, bytes_of_text("object"), &records, &f->err), f->err);
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
}

static void compact(struct fixture *f)
{
    struct fleet_compaction compaction = { .store = &f->directory.store,
                                           .trust = f->trust,
                                           .signer = &f->signer,
                                           .now = clock_wall_s(),
                                           .pack_max = FLEET_PACK_MAX };
    must(fleet_compact(&compaction, &f->err), f->err);
    assert_int_equal(compaction.problems, 0);
}

/* Collects garbage as if |days| had passed since the files were written. */
static void collect(struct fixture *f, unsigned days, bool dry_run)
{
    f->found = 0;
    f->gc = (struct fleet_gc){ .store = &f->directory.store,
                               .trust = f->trust,
                               .now = clock_wall_s() + (uint64_t)days * DAY_S,
                               .unused_s = FLEET_GC_UNUSED_S,
                               .dry_run = dry_run,
                               .found = note_file,
                               .context = f };
    must(fleet_gc(&f->gc, &f->err), f->err);
}

static bool exists(const struct fixture *f, const char *name)
{
    return faccessat(f->root, name, F_OK, 0) == 0;
}

static void loose_name(unsigned number, char name[FLEET_NAME_MAX])
{
    char id[FLEET_SHARD_ID_SIZE];
    const struct fleet_claim claim = claim_of(number);
    fleet_shard_id(&claim.shard, id);
    fleet_name_loose(id, &claim.key, name);
}

static enum kiln_code accept_object(struct bytes object, const struct target *target,
                                    struct kiln_err *err)
{
    (void)object, (void)target, (void)err;
    return KILN_OK;
}

static void expect_tree_is_whole(struct fixture *f, uint64_t kernels)
{
    struct fleet_verification v = { .store = &f->directory.store,
                                    .trust = f->trust,
                                    .check_object = accept_object };
    must(fleet_verify(&v, &f->err), f->err);
    assert_int_equal(v.bad_count, 0);
    assert_int_equal(v.kernels, kernels);
}

TEST_F(gc, a_loose_record_is_deleted_a_day_later_if_the_index_has_it)
{
    char packed[FLEET_NAME_MAX], unpacked[FLEET_NAME_MAX];
    loose_name(1, packed);
    loose_name(2, unpacked);
    push(f, 1);
    compact(f);
    push(f, 2);
    collect(f, 0, false);
    assert_int_equal(f->found, 0);
    collect(f, 60, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_LOOSE], 1);
    assert_string_equal(f->last, packed);
    assert_false(exists(f, packed));
    assert_true(exists(f, unpacked));
    assert_int_equal(f->gc.unpacked, 1);
    assert_in_range(f->gc.unpacked_age_s, 60 * DAY_S, 60 * DAY_S + 60);
    expect_tree_is_whole(f, 1);
}

static void push_block(struct fixture *f, const char *content, uint64_t time,
                       char name[FLEET_NAME_MAX])
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    BUFFER_AUTO struct buffer records;
    struct fleet_pushing pushing = { .store = &f->directory.store, .signer = &f->signer };
    char id[FLEET_SHARD_ID_SIZE];
    const struct bytes raw = bytes_of_text(content);
    const struct fleet_claim claim = {
        .key = sha256_of(raw),
        .shard =
            fleet_shard_named(bytes_of_text("gfx90a"), FLEET_TUNING, bytes_of_text("gfx90a68")),
        .options = bytes_of_text("host-0"),
        .time = time,
    };
    buffer_init(&records, 1u << 20);
    must(codec_create(&codec, &f->err), f->err);
    must(fleet_record_write(codec, &claim, raw, &records, &f->err), f->err);
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
    fleet_shard_id(&claim.shard, id);
    fleet_name_loose(id, &claim.key, name);
}

TEST_F(gc, a_block_that_a_newer_one_replaced_is_deleted)
{
    char old[FLEET_NAME_MAX], newer[FLEET_NAME_MAX];
    const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
                                      { .tv_sec = (time_t)clock_wall_s() - 2 * DAY_S } };
    push_block(f, "old", 1, old);
    push_block(f, "newer", 2, newer);
    assert_int_equal(utimensat(f->root, old, times, 0), 0);
    compact(f);
    collect(f, 0, /* dry_run= */ false);
    assert_int_equal(f->gc.files[FLEET_WASTE_LOOSE], 1);
    assert_string_equal(f->last, old);
    assert_int_equal(f->gc.unpacked, 0);
}

static void set_age(struct fixture *f, const char *name, unsigned days)
{
    const struct timespec times[2] = { { .tv_sec = (time_t)(clock_wall_s() - days * DAY_S) },
                                       { .tv_sec = (time_t)(clock_wall_s() - days * DAY_S) } };
    assert_int_equal(utimensat(f->root, name, times, 0), 0);
}

/* A host may still use the previous index. */
TEST_F(gc, a_record_that_was_packed_less_than_a_day_ago_is_kept)
{
    char kernel[FLEET_NAME_MAX], block[FLEET_NAME_MAX];
    loose_name(1, kernel);
    push(f, 1);
    push_block(f, "block", 1, block);
    set_age(f, kernel, 2);
    set_age(f, block, 2);
    compact(f);
    collect(f, 0, /* dry_run= */ false);
    assert_int_equal(f->found, 0);
    collect(f, 1, /* dry_run= */ false);
    assert_int_equal(f->gc.files[FLEET_WASTE_LOOSE], 2);
}

/* The compaction refused the block, because its signer was not trusted then. */
TEST_F(gc, a_block_that_was_only_refused_is_kept)
{
    char name[FLEET_NAME_MAX], other[FLEET_NAME_MAX];
    struct fleet_signer bob = fleet_test_signer(2), alice = f->signer;
    push_block(f, "alice's", 2, other);
    f->signer = bob;
    push_block(f, "bob's", 1, name);
    f->signer = alice;
    set_age(f, name, 2);
    compact(f);
    fleet_test_trust(f->keys, &bob, &(struct fleet_test_key){ "bob", "*", false });
    read_keys(f);
    collect(f, 0, /* dry_run= */ false);
    assert_int_equal(f->found, 0);
    assert_true(exists(f, name));
}

struct timeless { /* hides the times of the files, as a server may */
    fleet_each *each;
    void *context;
};

static enum kiln_code hide_time(void *context, const struct fleet_listed *listed,
                                struct kiln_err *err)
{
    const struct timeless *t = context;
    struct fleet_listed hidden = *listed;
    hidden.modified = UINT64_MAX;
    return t->each(t->context, &hidden, err);
}

static const struct fleet_store_ops *real_ops;

static enum kiln_code list_without_times(struct fleet_store *store, const char *directory,
                                         fleet_each *each, void *context, struct kiln_err *err)
{
    struct timeless timeless = { each, context };
    return real_ops->list(store, directory, hide_time, &timeless, err);
}

TEST_F(gc, a_block_of_unknown_age_is_kept)
{
    char old[FLEET_NAME_MAX], newer[FLEET_NAME_MAX];
    real_ops = f->directory.store.ops;
    struct fleet_store_ops ops = *real_ops;
    ops.list = list_without_times;
    push_block(f, "old", 1, old);
    compact(f);
    push_block(f, "newer", 2, newer);
    f->directory.store.ops = &ops;
    collect(f, 0, /* dry_run= */ false);
    f->directory.store.ops = real_ops;
    assert_int_equal(f->found, 0);
    assert_true(exists(f, newer));
}

TEST_F(gc, a_dry_run_deletes_nothing)
{
    char name[FLEET_NAME_MAX];
    loose_name(1, name);
    push(f, 1);
    compact(f);
    collect(f, 2, true);
    assert_int_equal(f->found, 1);
    assert_true(exists(f, name));
}

/* Returns the pointer's text, which names the current index. */
static struct fleet_pointer current(struct fixture *f, char id[FLEET_SHARD_ID_SIZE])
{
    struct fleet_pointer pointer;
    BUFFER_AUTO struct buffer text;
    char name[FLEET_NAME_MAX];
    const struct fleet_claim claim = claim_of(1);
    fleet_shard_id(&claim.shard, id);
    fleet_name_pointer(id, name);
    buffer_init(&text, FLEET_POINTER_MAX);
    must(fleet_tree_read(f->root, name, &text, &f->err), f->err);
    assert_true(fleet_pointer_read(buffer_view(&text), &pointer));
    return pointer;
}

TEST_F(gc, a_replaced_index_is_deleted_after_90_days)
{
    char id[FLEET_SHARD_ID_SIZE], old[FLEET_NAME_MAX];
    push(f, 1);
    compact(f);
    struct fleet_pointer pointer = current(f, id);
    fleet_name_index(id, &pointer.sha256, old);
    /* the old index stays for 90 days after its replacement, whatever its age */
    set_age(f, old, 500);
    push(f, 2);
    compact(f);
    collect(f, 89, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_INDEX], 0);
    collect(f, 91, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_INDEX], 1);
    assert_string_equal(f->last, old);
    assert_int_equal(f->gc.files[FLEET_WASTE_PACK], 0); /* the new index names the old pack, too */
    expect_tree_is_whole(f, 2);
}

static void add_pack(struct fixture *f, const char *content, char name[FLEET_NAME_MAX])
{
    struct digest sha256 = sha256_of(bytes_of_text(content));
    fleet_name_pack(&sha256, name);
    must(fleet_tree_add(f->root, name, bytes_of_text(content), NULL, &f->err), f->err);
}

TEST_F(gc, a_pack_that_no_index_names_is_deleted_after_90_days)
{
    char name[FLEET_NAME_MAX];
    push(f, 1);
    compact(f);
    add_pack(f, "left by a compaction that was killed", name);
    collect(f, 89, false);
    assert_true(exists(f, name));
    collect(f, 91, false);
    assert_false(exists(f, name));
    expect_tree_is_whole(f, 1);
}

/* For example, if a mirror has copied the packs first, or if somebody has moved the indices. */
TEST_F(gc, packs_are_kept_if_there_is_no_index)
{
    char name[FLEET_NAME_MAX];
    add_pack(f, "a pack", name);
    collect(f, 91, false);
    assert_int_equal(f->found, 0);
    assert_true(exists(f, name));
}

TEST_F(gc, packs_are_kept_if_an_index_cannot_be_verified)
{
    char name[FLEET_NAME_MAX], pub[512];
    push(f, 1);
    compact(f);
    add_pack(f, "a pack", name);
    snprintf(pub, sizeof(pub), "%.480s/builder.pub", f->keys);
    assert_int_equal(unlink(pub), 0);
    read_keys(f);
    collect(f, 91, false);
    assert_int_equal(f->gc.unverified, 1);
    assert_int_equal(f->found, 0);
    assert_true(exists(f, name));
}

TEST_F(gc, leases_and_incomplete_files_are_deleted_after_a_day)
{
    char id[FLEET_SHARD_ID_SIZE], lease[FLEET_NAME_MAX];
    const struct fleet_claim claim = claim_of(1);
    const char *unfinished = "v1/p/.writing-0123456789abcdef";
    fleet_shard_id(&claim.shard, id);
    fleet_name_lease(id, &claim.key, lease);
    must(fleet_tree_add(f->root, lease, bytes_of_text("x"), NULL, &f->err), f->err);
    must(fleet_tree_add(f->root, unfinished, bytes_of_text("x"), NULL, &f->err), f->err);
    collect(f, 0, false);
    assert_int_equal(f->found, 0);
    collect(f, 2, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_LEASE], 1);
    assert_int_equal(f->gc.files[FLEET_WASTE_TEMPORARY], 1);
    assert_false(exists(f, lease) || exists(f, unfinished));
}

static void put_loose(struct fixture *f, unsigned number, const char *content)
{
    char name[FLEET_NAME_MAX];
    loose_name(number, name);
    must(fleet_tree_add(f->root, name, bytes_of_text(content), NULL, &f->err), f->err);
}

/* Otherwise no host could add these kernels: the files have the names. */
TEST_F(gc, loose_records_of_a_revoked_key_are_deleted_at_once)
{
    char name[FLEET_NAME_MAX], mark[FLEET_REVOKED_NAME_MAX], path[512];
    push(f, 1);
    fleet_revoked_name(f->signer.key_id, mark);
    snprintf(path, sizeof(path), "%.400s/%s", f->keys, mark);
    must(fs_replace_file(path, bytes_of_text(""), 0644, &f->err), f->err);
    read_keys(f);
    loose_name(1, name);
    collect(f, 0, true);
    assert_int_equal(f->gc.files[FLEET_WASTE_USELESS], 1);
    assert_true(exists(f, name));
    collect(f, 0, false);
    assert_false(exists(f, name));
    assert_int_equal(f->gc.unpacked, 0);
}

TEST_F(gc, loose_records_of_an_untrusted_key_are_kept)
{
    char pub[512];
    push(f, 1);
    snprintf(pub, sizeof(pub), "%.480s/builder.pub", f->keys);
    assert_int_equal(unlink(pub), 0);
    read_keys(f);
    collect(f, 1000, false);
    assert_int_equal(f->found, 0);
    assert_int_equal(f->gc.unpacked, 1);
}

TEST_F(gc, a_loose_record_with_a_wrong_signature_is_deleted)
{
    char name[FLEET_NAME_MAX];
    BUFFER_AUTO struct buffer record;
    push(f, 1);
    loose_name(1, name);
    buffer_init(&record, FLEET_RECORD_MAX);
    must(fleet_tree_read(f->root, name, &record, &f->err), f->err);
    record.data[12 + record.data[8]] ^= 1; /* in the signature */
    must(fleet_tree_replace(f->root, name, buffer_view(&record), &f->err), f->err);
    collect(f, 0, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_USELESS], 1);
    assert_false(exists(f, name));
}

TEST_F(gc, a_loose_file_that_is_too_large_is_deleted_after_a_day)
{
    char name[FLEET_NAME_MAX], path[512];
    put_loose(f, 1, "x");
    loose_name(1, name);
    snprintf(path, sizeof(path), "%.300s/%s", f->tree, name);
    assert_int_equal(truncate(path, FLEET_RECORD_MAX + 1), 0);
    collect(f, 0, false);
    assert_true(exists(f, name));
    collect(f, 2, false);
    assert_int_equal(f->gc.files[FLEET_WASTE_USELESS], 1);
    assert_false(exists(f, name));
}

TEST_F(gc, a_file_that_a_newer_kiln_may_have_written_is_kept_for_90_days)
{
    char name[FLEET_NAME_MAX];
    put_loose(f, 1, "KILNREC2...");
    loose_name(1, name);
    collect(f, 89, false);
    assert_true(exists(f, name));
    collect(f, 91, false);
    assert_false(exists(f, name));
}

TEST_F(gc, no_symbolic_link_leads_to_files_elsewhere)
{
    char link[512], victim[512];
    const char *elsewhere = test_directory();
    snprintf(victim, sizeof(victim), "%.400s/file", elsewhere);
    snprintf(link, sizeof(link), "%.400s/v1/l", f->tree);
    must(fs_replace_file(victim, bytes_of_text("precious"), 0644, &f->err), f->err);
    push(f, 1);
    assert_int_equal(mkdir(link, 0700), 0);
    strcat(link, "/0123");
    assert_int_equal(symlink(elsewhere, link), 0);
    collect(f, 1000, false);
    assert_int_equal(access(victim, F_OK), 0);
    assert_int_not_equal(fleet_tree_remove(f->root, "v1/l/0123/file", &f->err), KILN_OK);
    assert_int_equal(access(victim, F_OK), 0);
}

TEST_F(gc, no_file_is_written_through_a_symbolic_link)
{
    char link[512], written[512];
    const char *elsewhere = test_directory();
    snprintf(written, sizeof(written), "%.400s/current", elsewhere);
    snprintf(link, sizeof(link), "%.400s/v1/i", f->tree);
    must(fs_make_directories(link, &f->err), f->err);
    strcat(link, "/0123");
    assert_int_equal(symlink(elsewhere, link), 0);
    assert_int_not_equal(
        fleet_tree_add(f->root, "v1/i/0123/current", bytes_of_text("x"), NULL, &f->err), KILN_OK);
    assert_int_not_equal(
        fleet_tree_replace(f->root, "v1/i/0123/current", bytes_of_text("x"), &f->err), KILN_OK);
    assert_int_not_equal(access(written, F_OK), 0);
}

TEST_F(gc, files_of_other_programs_are_kept)
{
    const char *name = "v1/p/notes.txt";
    must(fleet_tree_add(f->root, name, bytes_of_text("x"), NULL, &f->err), f->err);
    collect(f, 1000, false);
    assert_int_equal(f->found, 0);
    assert_true(exists(f, name));
}

/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_records.h"

TEST_F(records, two_hosts_tune_and_a_third_has_both)
{
    put_host(f, 1, "SolverA", 0.5);
    put_params(f, "1,2", 0.5);
    assert_int_equal(push_as(f, &f->signer), 1);
    forget_host(f);
    put_host(f, 2, "SolverB", 0.25);
    assert_int_equal(push_as(f, &f->signer), 1);
    forget_host(f);
    compact(f);
    become_reader(f);
    assert_false(tuning_finds(&f->users, &f->users.ann, ""));
    want_device(f);
    expect_shown(f, 1, "SolverA", true);
    expect_shown(f, 1, "1,2", true);
    expect_shown(f, 2, "SolverB", true);
    expect_shown(f, 2, FLEET_ENTRY, true);
    assert_int_equal(tuning_ask(&f->users, &f->users.ann, 0, 0, 1).code, KILN_OK);
}

static uint64_t metric(struct fleet_users *f, const char *reason)
{
    char name[128];
    snprintf(name, sizeof(name), "kiln_fleet_refused_total{reason=\"%s\"}", reason);
    return test_caller_metric(&f->users.admin, name);
}

TEST_F(records, the_same_problem_of_two_hosts_is_merged_by_statistics)
{
    share(f, &f->signer, 1, 0.5);
    share(f, &f->signer, 1, 0.501);
    compact(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "\"samples\":10", true);
    expect_shown(f, 1, "0.5005", true);
}

TEST_F(records, merging_the_same_index_again_changes_nothing)
{
    share_and_read(f);
    expect_shown(f, 1, "\"samples\":5", true);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "\"samples\":5", true);
}

TEST_F(records, a_hosts_own_measurement_stays)
{
    share(f, &f->signer, 1, 0.5);
    compact(f);
    become_reader(f);
    put_host(f, 1, "SolverA", 0.5001);
    put_host(f, 1, "SolverB", 0.6);
    want_device(f);
    expect_shown(f, 1, "0.5001", true);
    expect_shown(f, 1, "SolverB", true);
    expect_shown(f, 1, FLEET_ENTRY, false);
}

/* The fleet's entry has ten samples, so the statistics prefer it. */
TEST_F(records, a_hosts_own_measurement_stays_whatever_the_fleets_statistics_are)
{
    share(f, &f->signer, 1, 0.5);
    share(f, &f->signer, 1, 0.501);
    compact(f);
    become_reader(f);
    put_host(f, 1, "SolverA", 0.75);
    want_device(f);
    expect_shown(f, 1, "0.75", true);
    expect_shown(f, 1, FLEET_ENTRY, false);
}

/* Returns a copy of the exported block in which each measurement has |samples|. */
static void restate_samples(struct fleet_users *f, struct bytes record, uint32_t samples,
                            struct buffer *ret_record)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    KILN_AUTO(mem) struct tuning_share *share = calloc(1, sizeof(*share));
    struct fleet_record exported;
    struct bytes raw;
    size_t entries;
    BUFFER_AUTO struct buffer block;
    buffer_init(&block, 1u << 20);
    must(codec_create(&codec, &f->err), f->err);
    assert_true(fleet_record_read(record, &exported));
    must(codec_unpack(codec, &exported.packed, &raw, &f->err), f->err);
    assert_true(share && tuning_share_open(share, raw, ID));
    tuning_share_begin(&block, "many");
    while (tuning_share_next(share) == TUNING_SHARE_RECORD) {
        for (size_t i = 0; i < share->count; i++)
            share->rows[i].measured.samples = samples;
        const struct tuning_held held = { .place = share->place,
                                          .rows = share->rows,
                                          .row_count = share->count };
        must(tuning_share_add(&block, &held, &entries, &f->err), f->err);
    }
    const struct fleet_tuning_claim what = { .database_id = ID, .series = "many", .time = 1 };
    must(fleet_tuning_record(codec, &what, buffer_view(&block), ret_record, &f->err), f->err);
}

TEST_F(records, the_number_of_samples_is_limited)
{
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = &f->signer };
    BUFFER_AUTO struct buffer exported, record;
    put_host(f, 1, "SolverA", 0.5);
    json_destroy(export_tuning(f, &exported));
    buffer_init(&record, 1u << 20);
    restate_samples(f, buffer_view(&exported), 2000000, &record);
    must(fleet_push(&pushing, record.data, record.size, &f->err), f->err);
    forget_host(f);
    compact(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "\"samples\":1000000,", true);
}

TEST_F(records, what_came_from_the_fleet_is_not_pushed)
{
    BUFFER_AUTO struct buffer exported;
    share_and_read(f);
    KILN_AUTO(json) struct json *answer = export_tuning(f, &exported);
    assert_int_equal(json_get_u64(answer, "records", 9), 0);
    assert_int_equal(exported.size, 0);
}

TEST_F(records, a_client_cannot_record_as_the_fleet)
{
    struct put put = find_put("SolverA", 0.5);
    put.m.library = bytes_of_text("fleet:0123456789abcdef");
    tuning_send_put(&f->users, &f->users.ann, &put, /* runs= */ true);
    assert_int_equal(f->users.ann.replies[0].type, MESSAGE_error);
}

static struct fleet_index *read_index(struct fleet_users *f)
{
    BUFFER_AUTO struct buffer text, content;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct fleet_index *index = NULL;
    struct fleet_tuning_shard named;
    struct fleet_pointer pointer;
    enum fleet_fault fault;
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    assert_true(fleet_tuning_shard_of(ID, &named));
    fleet_shard_id(&named.shard, id);
    buffer_init(&text, FLEET_POINTER_MAX);
    buffer_init(&content, FLEET_INDEX_MAX);
    fleet_name_pointer(id, name);
    must(fleet_tree_read(f->root, name, &text, &f->err), f->err);
    assert_true(fleet_pointer_read(buffer_view(&text), &pointer));
    fleet_name_index(id, &pointer.sha256, name);
    must(fleet_tree_read(f->root, name, &content, &f->err), f->err);
    must(fleet_trust_read(f->keys, &trust, &f->err), f->err);
    must(fleet_index_open(&content, trust, &index, &fault, &f->err), f->err);
    return index;
}

TEST_F(records, a_newer_block_of_a_host_replaces_the_older)
{
    put_host(f, 1, "SolverA", 0.5);
    push_as(f, &f->signer);
    compact(f);
    second++;
    put_host(f, 1, "SolverB", 0.4);
    push_as(f, &f->signer);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 1);
    forget_host(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverB", true);
    expect_shown(f, 1, "\"samples\":5", true);
}

TEST_F(records, records_that_hosts_no_longer_have_leave_the_fleet)
{
    for (int host = 0; host < 2; host++) { /* both in the same second */
        put_host(f, 1, host ? "SolverB" : "SolverA", 0.5);
        assert_int_equal(push_as(f, &f->signer), 1);
        compact(f);
        remove_records(f);
        assert_int_equal(push_as(f, &f->signer), 1);
        assert_int_equal(push_as(f, &f->signer), 0);
        forget_host(f);
    }
    compact(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "Solver", false);
    assert_int_equal(metric(f, "malformed"), 0);
}

/* The tree still has the file of the first block, which is older than the second block. */
TEST_F(records, content_that_a_host_had_before_replaces_the_newer_block)
{
    put_host(f, 1, "SolverA", 0.5);
    push_as(f, &f->signer);
    compact(f);
    put_host(f, 2, "SolverB", 0.4);
    push_as(f, &f->signer);
    compact(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_tuning_remove,
                                 "{\"tier\":\"host\",\"solver\":\"SolverB\"}"));
    run_tasks(f);
    push_as(f, &f->signer);
    compact(f);
    forget_host(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverA", true);
    expect_shown(f, 2, "SolverB", false);
}

TEST_F(records, a_block_that_did_not_change_is_not_written_again)
{
    put_host(f, 1, "SolverA", 0.5);
    assert_int_equal(push_as(f, &f->signer), 1);
    second += 1000;
    assert_int_equal(push_as(f, &f->signer), 0);
}

/* A host whose clock was wrong has pushed, and its block is in the index. */
TEST_F(records, a_block_with_a_time_in_the_future_is_replaced)
{
    second = 10 * 86400;
    put_host(f, 1, "SolverA", 0.5);
    push_as(f, &f->signer);
    compact(f);
    second = 0;
    put_host(f, 1, "SolverB", 0.4);
    push_as(f, &f->signer);
    compact(f);
    forget_host(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverB", true);
}

TEST_F(records, a_key_for_another_target_is_refused)
{
    struct fleet_signer other = fleet_test_signer(2);
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "*", false });
    share(f, &other, 1, 0.5);
    compact(f);
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "gfx906", false });
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverA", false);
    assert_int_equal(metric(f, "not-allowed"), 1);
}

static void write_index_of(struct fleet_users *f, const char *database_id,
                           struct fleet_index_draft *draft)
{
    BUFFER_AUTO struct buffer content;
    struct fleet_tuning_shard named;
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX], text[FLEET_POINTER_MAX];
    assert_true(fleet_tuning_shard_of(database_id, &named));
    fleet_shard_id(&named.shard, id);
    draft->shard = named.shard;
    draft->epoch = 5;
    buffer_init(&content, FLEET_INDEX_MAX);
    must(fleet_index_write(draft, &f->signer, &content, &f->err), f->err);
    const struct fleet_pointer pointer = { draft->epoch, sha256_of(buffer_view(&content)) };
    fleet_name_index(id, &pointer.sha256, name);
    must(fleet_tree_add(f->root, name, buffer_view(&content), NULL, &f->err), f->err);
    fleet_name_pointer(id, name);
    fleet_pointer_write(&pointer, text);
    must(fleet_tree_replace(f->root, name, bytes_of_text(text), &f->err), f->err);
}

static void write_index(struct fleet_users *f, struct fleet_index_draft *draft)
{
    write_index_of(f, ID, draft);
}

static void expect_error(struct fleet_users *f, const char *text)
{
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    assert_non_null(strstr(json_get_text(json_get(status, "fleet"), "last_error", ""), text));
}

static void path_of_pack(struct fleet_users *f, char path[512], struct buffer *ret_content)
{
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    const struct fleet_pack pack = fleet_index_pack(index, 0);
    char name[FLEET_NAME_MAX];
    fleet_name_pack(&pack.sha256, name);
    snprintf(path, 512, "%s/%s", f->tree, name);
    buffer_init(ret_content, FLEET_PACK_MAX);
    must(fs_read_file(path, FLEET_PACK_MAX, ret_content, &f->err), f->err);
}

TEST_F(records, blocks_are_not_counted_as_kernels)
{
    share_and_read(f);
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    const struct json *shard = json_first(json_get(json_get(status, "fleet"), "shards"));
    assert_int_equal(json_get_u64(shard, "blocks", 0), 1);
    assert_null(json_get(shard, "kernels"));
}

TEST_F(records, a_damaged_pack_changes_nothing_and_is_read_again)
{
    BUFFER_AUTO struct buffer whole = { 0 };
    char path[512];
    share(f, &f->signer, 1, 0.5);
    compact(f);
    share(f, &f->signer, 2, 0.5);
    become_reader(f);
    want_device(f);
    compact(f);
    path_of_pack(f, path, &whole);
    assert_int_equal(truncate(path, (off_t)whole.size - 1), 0);
    refresh(f);
    assert_int_equal(metric(f, "wrong-bytes"), 1);
    expect_error(f, "damaged");
    expect_shown(f, 1, "SolverA", true);
    expect_shown(f, 2, "SolverA", false);
    must(fs_replace_file(path, buffer_view(&whole), 0644, &f->err), f->err);
    refresh(f);
    expect_shown(f, 2, "SolverA", true);
}

/* refresh lets two minutes pass, so the fourth one is within a pause of four minutes. */
TEST_F(records, a_pack_that_stays_damaged_is_read_after_longer_pauses)
{
    BUFFER_AUTO struct buffer whole = { 0 };
    char path[512];
    share(f, &f->signer, 1, 0.5);
    compact(f);
    share(f, &f->signer, 2, 0.5);
    become_reader(f);
    path_of_pack(f, path, &whole);
    assert_int_equal(truncate(path, (off_t)whole.size - 1), 0);
    want_device(f);
    assert_int_equal(metric(f, "wrong-bytes"), 1);
    for (unsigned i = 0; i < 4; i++)
        refresh(f);
    assert_int_equal(metric(f, "wrong-bytes"), 4);
    must(fs_replace_file(path, buffer_view(&whole), 0644, &f->err), f->err);
    compact(f);
    refresh(f); /* within a pause of eight minutes, but there is another index */
    expect_shown(f, 2, "SolverA", true);
}

/* The index key has signed the damaged pack. */
TEST_F(records, a_damaged_block_is_refused_and_the_others_are_used)
{
    BUFFER_AUTO struct buffer content = { 0 };
    struct fleet_entry entries[2];
    struct fleet_pack pack;
    char name[FLEET_NAME_MAX], path[512];
    share(f, &f->signer, 1, 0.5);
    share(f, &f->signer, 2, 0.5);
    compact(f);
    path_of_pack(f, path, &content);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    assert_int_equal(fleet_index_count(index), 2);
    for (uint32_t i = 0; i < 2; i++)
        entries[i] = fleet_index_entry(index, i);
    content.data[entries[0].place.offset + entries[0].place.size - 9] ^= 1;
    pack = (struct fleet_pack){ sha256_of(buffer_view(&content)), (uint32_t)content.size };
    fleet_name_pack(&pack.sha256, name);
    must(fleet_tree_add(f->root, name, buffer_view(&content), NULL, &f->err), f->err);
    struct fleet_index_draft draft = {
        .packs = &pack, .pack_count = 1, .entries = entries, .entry_count = 2
    };
    write_index(f, &draft);
    become_reader(f);
    want_device(f);
    assert_int_equal(metric(f, "wrong-bytes"), 1);
    KILN_AUTO(mem) char *first = shown(f, 1);
    KILN_AUTO(mem) char *later = shown(f, 2);
    assert_int_equal((strstr(first, "SolverA") != NULL) + (strstr(later, "SolverA") != NULL), 1);
}

TEST_F(records, an_old_index_is_refused)
{
    char pointer[512];
    struct fleet_tuning_shard named;
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    BUFFER_AUTO struct buffer old;
    assert_true(fleet_tuning_shard_of(ID, &named));
    fleet_shard_id(&named.shard, id);
    fleet_name_pointer(id, name);
    snprintf(pointer, sizeof(pointer), "%s/%s", f->tree, name);
    share(f, &f->signer, 1, 0.5);
    compact(f);
    buffer_init(&old, FLEET_POINTER_MAX);
    must(fs_read_file(pointer, FLEET_POINTER_MAX, &old, &f->err), f->err);
    share(f, &f->signer, 2, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 2, "SolverA", true);
    must(fs_replace_file(pointer, buffer_view(&old), 0644, &f->err), f->err);
    refresh(f);
    assert_int_equal(metric(f, "rolled-back"), 1);
    expect_shown(f, 2, "SolverA", true);
}

TEST_F(records, records_of_a_revoked_key_are_removed)
{
    struct fleet_signer other = fleet_test_signer(2);
    char path[512], id[FLEET_REVOKED_NAME_MAX];
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "gfx90a", false });
    share(f, &other, 1, 0.5);
    share(f, &f->signer, 2, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverA", true);
    fleet_revoked_name(other.key_id, id);
    snprintf(path, sizeof(path), "%s/%s", f->keys, id);
    must(fs_replace_file(path, bytes_of_text("revoked"), 0644, &f->err), f->err);
    refresh(f);
    expect_shown(f, 1, "SolverA", false);
    expect_shown(f, 2, "SolverA", true);
}

/* The builder whose key is revoked may write to the tree, too. */
TEST_F(records, records_of_a_revoked_key_are_removed_although_a_pack_is_damaged)
{
    struct fleet_signer other = fleet_test_signer(2);
    BUFFER_AUTO struct buffer whole = { 0 };
    char path[512], id[FLEET_REVOKED_NAME_MAX];
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "gfx90a", false });
    share(f, &other, 1, 0.5);
    share(f, &f->signer, 2, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
    path_of_pack(f, path, &whole);
    assert_int_equal(truncate(path, (off_t)whole.size - 1), 0);
    fleet_revoked_name(other.key_id, id);
    snprintf(path, sizeof(path), "%s/%s", f->keys, id);
    must(fs_replace_file(path, bytes_of_text("revoked"), 0644, &f->err), f->err);
    refresh(f);
    expect_shown(f, 1, "SolverA", false);
    expect_shown(f, 2, "SolverA", true);
    assert_int_equal(metric(f, "wrong-bytes"), 1);
}

/* Then there is no index from which the records could be read again. */
TEST_F(records, records_of_a_revoked_key_are_removed_if_it_signed_the_index)
{
    struct fleet_signer other = fleet_test_signer(2);
    char path[512], id[FLEET_REVOKED_NAME_MAX];
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "gfx90a", false });
    share(f, &other, 1, 0.5);
    share(f, &f->signer, 2, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
    put_host(f, 2, "SolverB", 0.5);
    expect_shown(f, 2, FLEET_ENTRY, true);
    fleet_revoked_name(f->signer.key_id, id);
    snprintf(path, sizeof(path), "%s/%s", f->keys, id);
    must(fs_replace_file(path, bytes_of_text("revoked"), 0644, &f->err), f->err);
    refresh(f);
    expect_shown(f, 1, "SolverA", true);
    expect_shown(f, 2, FLEET_ENTRY, false);
    expect_shown(f, 2, "SolverB", true);
}

TEST_F(records, entries_of_the_fleet_can_be_dropped)
{
    share_and_read(f);
    put_host(f, 2, "SolverB", 0.5);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.admin, MESSAGE_tuning_remove,
                                          "{\"tier\":\"host\",\"origin\":\"fleet:\"}");
    assert_int_equal(json_get_u64(answer, "removed", 0), 1);
    expect_shown(f, 1, "SolverA", false);
    expect_shown(f, 2, "SolverB", true);
}

TEST_F(records, records_beyond_the_limit_are_left_out)
{
    const struct fleet_pack pack = { .size = FLEET_RECORDS_BYTES_MAX + 1 };
    struct fleet_entry entry = { .place = { .size = 100 } };
    struct fleet_index_draft draft = {
        .packs = &pack, .pack_count = 1, .entries = &entry, .entry_count = 1
    };
    write_index(f, &draft);
    become_reader(f);
    want_device(f);
    assert_int_equal(count_gets(f), 2); /* pointer and index */
    expect_error(f, "more tuning records");
}

TEST_F(records, the_newest_packs_within_the_limit_are_used)
{
    share(f, &f->signer, 1, 0.5);
    compact(f);
    KILN_AUTO(fleet_index) struct fleet_index *index = read_index(f);
    const struct fleet_pack packs[] = { { .size = FLEET_RECORDS_BYTES_MAX },
                                        fleet_index_pack(index, 0) };
    struct fleet_entry entries[] = { { .place = { .size = 100 } }, fleet_index_entry(index, 0) };
    struct fleet_index_draft draft = {
        .packs = packs, .pack_count = 2, .entries = entries, .entry_count = 2
    };
    entries[1].place.pack = 1;
    write_index(f, &draft);
    become_reader(f);
    want_device(f);
    expect_shown(f, 1, "SolverA", true);
    expect_error(f, "more tuning records");
}

TEST_F(records, one_device_is_read_at_a_time)
{
    static const char *const ids[] = { ID, "gfx906_60" };
    const struct fleet_pack pack = { .size = 100 };
    struct fleet_entry entry = { .place = { .size = 100 } };
    become_reader(f);
    for (int i = 0; i < 2; i++) {
        struct fleet_index_draft draft = {
            .packs = &pack, .pack_count = 1, .entries = &entry, .entry_count = 1
        };
        write_index_of(f, ids[i], &draft);
        fleet_records_want(f->users.engine.engine, ids[i]);
    }
    for (int i = 0; i < 2; i++) {
        engine_tick(f->users.engine.engine);
        run_tasks(f);
    }
    serve_all(f); /* pointers and indices */
    assert_int_equal(count_gets(f), 4);
    engine_tick(f->users.engine.engine);
    assert_int_equal(count_gets(f), 5);
    serve_all(f);
    engine_tick(f->users.engine.engine);
    assert_int_equal(count_gets(f), 6);
    serve_all(f);
}

/* Untrusted blocks have no part in the limit of unpacked bytes. */
TEST_F(records, blocks_of_an_untrusted_key_leave_space_for_others)
{
    static uint8_t zeros[4u << 20];
    struct fleet_signer other = fleet_test_signer(2);
    KILN_AUTO(codec) struct codec *codec = NULL;
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = &other };
    BUFFER_AUTO struct buffer records;
    char series[16], pub[512];
    for (uint8_t i = 3; memcmp(other.key_id, f->signer.key_id, FLEET_KEY_ID_SIZE) > 0; i++)
        other = fleet_test_signer(i); /* blocks are read in the order of their builders */
    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "*", false });
    must(codec_create(&codec, &f->err), f->err);
    buffer_init(&records, 8u << 20);
    for (unsigned i = 0; i < FLEET_RECORDS_BYTES_MAX / sizeof(zeros); i++) {
        const struct fleet_tuning_claim what = { .database_id = ID, .series = series, .time = 1 };
        snprintf(series, sizeof(series), "%u", i);
        zeros[0] = (uint8_t)i;
        must(fleet_tuning_record(codec, &what, bytes_of(zeros, sizeof(zeros)), &records, &f->err),
             f->err);
    }
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
    share(f, &f->signer, 1, 0.5);
    compact(f);
    snprintf(pub, sizeof(pub), "%s/other.pub", f->keys);
    assert_int_equal(unlink(pub), 0);
    become_reader(f);
    want_device(f);
    assert_int_equal(metric(f, "untrusted"), FLEET_RECORDS_BYTES_MAX / sizeof(zeros));
    expect_shown(f, 1, "SolverA", true);
}

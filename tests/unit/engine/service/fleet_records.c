/* SPDX-License-Identifier: MIT */
/* One engine plays all hosts of a fleet: it forgets its records and the name of its series between
 * two hosts. */
#include "tests/unit/engine/service/fleet_users.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include "common/base/clock.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_series.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/fleet/fleet_tuning.h"
#include "engine/tuning/tuning_share.h"

#define MINUTE_NS 60000000000u
#define FLEET_ENTRY "\"library\":\"fleet:"

static uint64_t passed_ns, second;
static uint64_t call_ns; /* time that passes with each reading of the clock */

WRAP(uint64_t, clock_monotonic_ns, void)
{
    passed_ns += call_ns;
    return __real_clock_monotonic_ns() + passed_ns;
}
WRAP(uint64_t, clock_wall_s, void) { return __real_clock_wall_s() + second; }

SET_UP_OF(set_up, struct fleet_users)
{
    passed_ns = second = call_ns = 0;
    make_tree(f);
    users_open(&f->users, /* describe= */ true);
}
FIXTURE_OF(records, struct fleet_users, set_up, NULL);

static void put_host(struct fleet_users *f, uint32_t batch, const char *solver, double median_ms)
{
    struct put put = find_put(solver, median_ms);
    put.m.tier = 2;
    put.m.problem = problem_of_batch(batch);
    tuning_put(&f->users, &f->users.publisher, &put);
}

static void put_params(struct fleet_users *f, const char *params, double median_ms)
{
    struct put put = perf_put("ConvAsm3x3U", params, median_ms);
    put.m.tier = 2;
    tuning_put(&f->users, &f->users.publisher, &put);
}

static struct json *export_tuning(struct fleet_users *f, struct buffer *ret_records)
{
    struct test_caller *admin = &f->users.admin;
    struct json *answer;
    buffer_init(ret_records, 8u << 20);
    test_caller_forget_replies(admin);
    answer = test_caller_ask(admin, MESSAGE_fleet_tuning_export, "{}");
    run_tasks(f);
    if (!answer)
        answer = reply_json(admin, admin->reply_count - 1);
    if (admin->replies[admin->reply_count - 1].object_count)
        reply_object(admin, admin->reply_count - 1, 0, ret_records);
    return answer;
}

static uint64_t push_as(struct fleet_users *f, const struct fleet_signer *signer)
{
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = signer };
    BUFFER_AUTO struct buffer records;
    json_destroy(export_tuning(f, &records));
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
    return pushing.added;
}

static void remove_records(struct fleet_users *f)
{
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_tuning_remove,
                                 "{\"tier\":\"host\",\"all\":true}"));
    run_tasks(f);
}

static void forget_file(struct fleet_users *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", f->users.engine.options.state_directory, name);
    (void)unlink(path);
}

static void forget_host(struct fleet_users *f)
{
    remove_records(f);
    forget_file(f, "fleet-series");
    forget_file(f, "fleet-blocks");
}

static void become_reader(struct fleet_users *f)
{
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    users_start(&f->users);
    second++;
}

/* Lets enough time pass that the engine reads what has changed. */
static void refresh(struct fleet_users *f)
{
    passed_ns += 2 * MINUTE_NS;
    for (int i = 0; i < 4; i++) {
        engine_tick(f->users.engine.engine);
        run_tasks(f);
        serve_all(f);
        run_tasks(f);
    }
}

static void want_device(struct fleet_users *f)
{
    (void)tuning_ask(&f->users, &f->users.ann, 0, 0, 1);
    refresh(f);
}

/* Returns kilnd's answer to 'db get' as text. */
static char *shown(struct fleet_users *f, uint32_t batch)
{
    char question[256];
    snprintf(question, sizeof(question),
             "{\"problem\":\"conv -n %u -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 "
             "-j 1 -F 1\",\"database_id\":\"" ID "\"}",
             (unsigned)batch);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.admin, MESSAGE_tuning_show, question);
    return json_print(answer, false);
}

static void expect_shown(struct fleet_users *f, uint32_t batch, const char *text, bool is_there)
{
    KILN_AUTO(mem) char *all = shown(f, batch);
    if ((strstr(all, text) != NULL) != is_there)
        fail_msg("'%s' %s: %s", text, is_there ? "is missing" : "should not be there", all);
}

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

/* Adds what a host with this key has measured to the tree, and forgets it. */
static void share(struct fleet_users *f, const struct fleet_signer *signer, uint32_t batch,
                  double median_ms)
{
    put_host(f, batch, "SolverA", median_ms);
    push_as(f, signer);
    forget_host(f);
}

static void share_and_read(struct fleet_users *f)
{
    share(f, &f->signer, 1, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
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
/* Otherwise the export that ends last would forget the blocks of the other. */
TEST_F(records, only_one_export_runs_at_a_time)
{
    struct test_caller *admin = &f->users.admin;
    put_host(f, 1, "SolverA", 0.5);
    put_params(f, "1,2", 0.5);
    test_caller_forget_replies(admin);
    call_ns = 30000000; /* so that the export needs several steps */
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 6, bytes_of_text("{}"));
    assert_true(fake_executor_run_task(&f->users.engine.executor));
    assert_int_equal(admin->reply_count, 0);
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 7, bytes_of_text("{}"));
    assert_int_equal(admin->reply_count, 1);
    assert_reply_refuses(admin, 0, KILN_BUSY, "try again");
    call_ns = 0;
    run_tasks(f);
    assert_int_equal(admin->reply_count, 2);
    assert_int_equal(admin->replies[1].object_count, 1);
    assert_int_equal(push_as(f, &f->signer), 1);
}

TEST_F(records, an_export_that_is_cancelled_permits_another)
{
    struct test_caller *admin = &f->users.admin;
    put_host(f, 1, "SolverA", 0.5);
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 6, bytes_of_text("{}"));
    test_caller_cancel(admin, 6);
    run_tasks(f);
    assert_int_equal(push_as(f, &f->signer), 1);
}

TEST_F(records, a_host_with_too_many_devices_names_the_command_that_helps)
{
    char id[32];
    for (unsigned units = 65; units < 65 + 257; units++) {
        struct put put = find_put("SolverA", 0.5);
        snprintf(id, sizeof(id), "gfx90a%x", units);
        put.m.tier = 2;
        put.m.database_id = bytes_of_text(id);
        tuning_put(&f->users, &f->users.publisher, &put);
    }
    test_caller_refused(&f->users.admin, MESSAGE_fleet_tuning_export, "{}", KILN_FULL,
                        "kilnctl db rm --tier host --db-id ID");
}

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

static unsigned count_refreshes(struct fleet_users *f, unsigned minutes)
{
    unsigned before = count_gets(f);
    for (unsigned i = 0; i < minutes; i++) {
        passed_ns += MINUTE_NS;
        engine_tick(f->users.engine.engine);
        run_tasks(f);
        serve_all(f);
        run_tasks(f);
    }
    return count_gets(f) - before;
}

/* A fleet may have thousands of idle hosts. */
TEST_F(records, the_index_of_an_idle_device_is_seldom_refreshed)
{
    share_and_read(f);
    assert_true(count_refreshes(f, 7) >= 3);
    (void)count_refreshes(f, 20);
    unsigned count = count_refreshes(f, 60);
    assert_true(count >= 2 && count <= 6);
    want_device(f);
    assert_true(count_refreshes(f, 7) >= 3);
}

TEST_F(records, an_idle_host_takes_new_records)
{
    share_and_read(f);
    (void)count_refreshes(f, 30);
    share(f, &f->signer, 2, 0.25);
    compact(f);
    (void)count_refreshes(f, 30);
    expect_shown(f, 2, "SolverA", true);
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

static unsigned count_devices(struct fleet_users *f, const char *database_id, bool *ret_has)
{
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    const struct json *list = json_get(json_get(status, "fleet"), "tuning");
    *ret_has = false;
    for (const struct json *j = json_first(list); j; j = json_next(j))
        *ret_has |= strcmp(json_get_text(j, "database_id", ""), database_id) == 0;
    return (unsigned)json_count(list);
}

TEST_F(records, a_device_without_records_makes_space_after_a_minute)
{
    char id[DATABASE_ID_MAX];
    bool has;
    become_reader(f);
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX + 1; i++) {
        snprintf(id, sizeof(id), "gfx906_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    assert_int_equal(count_devices(f, id, &has), FLEET_DEVICES_MAX);
    assert_false(has);
    passed_ns += MINUTE_NS;
    fleet_records_want(f->users.engine.engine, id);
    assert_int_equal(count_devices(f, id, &has), FLEET_DEVICES_MAX);
    assert_true(has);
}

TEST_F(records, the_hosts_own_gpu_makes_space_and_keeps_it)
{
    static const char properties[] = "cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\n"
                                     "gfx_target_version 90010\nvendor_id 4098\n"
                                     "device_id 29711\nunique_id 81985529216486895\n";
    char id[DATABASE_ID_MAX], path[512];
    bool has;
    snprintf(path, sizeof(path), "%s/1", f->users.engine.gpus);
    must(fs_make_directories(path, &f->err), f->err);
    strcat(path, "/properties");
    must(fs_replace_file(path, bytes_of_text(properties), 0644, &f->err), f->err);
    become_reader(f);
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX; i++) {
        snprintf(id, sizeof(id), "gfx906_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    assert_int_equal(count_devices(f, "gfx90a68", &has), FLEET_DEVICES_MAX);
    assert_true(has);
    passed_ns += MINUTE_NS;
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX; i++) {
        snprintf(id, sizeof(id), "gfx908_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    assert_int_equal(count_devices(f, "gfx90a68", &has), FLEET_DEVICES_MAX);
    assert_true(has);
    serve_all(f);
}

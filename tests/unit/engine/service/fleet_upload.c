/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/fleet/fleet_record.h"
#include "engine/service/internal.h"
#include "tests/support/fleet_keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS 1000000000u

static uint64_t passed_ns = 3600ull * SECOND_NS;
static uint64_t call_ns; /* time that passes with each reading of the clock, besides 1 ns */

WRAP(uint64_t, clock_monotonic_ns, void)
{
    passed_ns += 1 + call_ns;
    return passed_ns;
}

struct builder {
    struct users users;
    char key[160], keys[160];
    struct fleet_signer signer;
    struct kiln_err err;
};

static struct fleet_access *next_access(struct builder *f)
{
    return fake_executor_next_fleet_access(&f->users.engine.executor);
}

static void restart_as_builder(struct builder *f)
{
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    f->users.engine.options.fleet_builder = f->key;
    users_start(&f->users);
    fake_executor_fleet_failed(next_access(f), FLEET_END_ABSENT); /* tests whether leases work */
}

SET_UP_OF(builder_set_up, struct builder)
{
    const char *directory = test_directory();
    call_ns = 0;
    snprintf(f->key, sizeof(f->key), "%s/builder.key", directory);
    snprintf(f->keys, sizeof(f->keys), "%s/keys", directory);
    assert_int_equal(mkdir(f->keys, 0700), 0);
    must(manifest_keygen(directory, "builder", &f->err), f->err);
    must(fleet_signer_read(f->key, &f->signer, &f->err), f->err);
    fleet_test_trust(f->keys, &f->signer, &(struct fleet_test_key){ "builder", "*", false });
    users_open(&f->users, /* describe= */ true);
    restart_as_builder(f);
}
FIXTURE_OF(builder, struct builder, builder_set_up, NULL);

static unsigned count_accesses(const struct builder *f)
{
    unsigned count = 0;
    LIST_EACH (&f->users.engine.executor.fleet_accesses, struct fleet_access, link, access)
        count += access != NULL;
    return count;
}

static void run_tasks(struct builder *f) { fake_executor_run_tasks(&f->users.engine.executor); }

/* Compiles |program|. If the engine first requests the kernel from the fleet, answers that it is
 * absent. */
static void compile(struct builder *f, const char *program)
{
    test_caller_forget_replies(&f->users.ann);
    fetch_program(&f->users.ann, 7, program);
    if (next_access(f))
        fake_executor_fleet_failed(next_access(f), FLEET_END_ABSENT);
    finish_compile(&f->users, program);
}

/* Returns false if |access| uploads a record. Reads, and uploads that only test whether the store
 * supports leases, are other accesses. */
static bool is_other_access(const struct fleet_access *access)
{
    return access && (!access->is_put || strncmp(access->name, "v1/l/", 5) == 0);
}

static void pass_seconds(struct builder *f, unsigned seconds)
{
    passed_ns += (uint64_t)seconds * SECOND_NS;
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    while (is_other_access(next_access(f)))
        fake_executor_fleet_failed(next_access(f), FLEET_END_ABSENT);
}

/* Lets only 6 seconds pass. After a minute, the engine would describe its toolchains again. */
static void pass_time(struct builder *f) { pass_seconds(f, 6); }

static void end_put(struct builder *f, enum fleet_end end)
{
    fake_executor_fleet_failed(next_access(f), end);
    run_tasks(f);
}

static void expect_record(struct builder *f, const struct fleet_access *access, const char *program)
{
    BUFFER_AUTO struct buffer content;
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    KILN_AUTO(codec) struct codec *codec = NULL;
    struct fleet_record record;
    struct bytes raw;
    char id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    buffer_init(&content, FLEET_RECORD_MAX);
    must(fs_read_fd(access->fd, FLEET_RECORD_MAX, &content, &f->err), f->err);
    assert_true(fleet_record_read(buffer_view(&content), &record));
    assert_true(bytes_equal_text(record.claim.program, program));
    fleet_shard_id(&record.claim.shard, id);
    fleet_name_loose(id, &record.claim.key, name);
    assert_string_equal(access->name, name);
    must(fleet_trust_read(f->keys, &trust, &f->err), f->err);
    must(codec_create(&codec, &f->err), f->err);
    struct fleet_reader reader = { trust, codec, record.claim.shard, FLEET_FAULT_NONE };
    must(fleet_record_open(&reader, &record, &record.claim.key, &raw, &f->err), f->err);
    assert_true(bytes_equal_text(raw, program));
}

static void expect_uploads(struct builder *f, uint64_t waiting, bool is_failing)
{
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.ann, MESSAGE_status, NULL);
    const struct json *uploads = json_get(json_get(status, "fleet"), "uploads");
    assert_int_equal(strlen(json_get_text(uploads, "builder", "")), 16);
    assert_int_equal(json_get_u64(uploads, "waiting", 99), waiting);
    assert_int_equal(json_get_bool(uploads, "failing", !is_failing), is_failing);
}

TEST_F(builder, a_compiled_kernel_is_uploaded_signed)
{
    compile(f, "a.cl");
    assert_null(next_access(f)); /* uploads begin after some seconds */
    pass_time(f);
    assert_non_null(next_access(f));
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
    pass_time(f);
    assert_null(next_access(f));
}

TEST_F(builder, an_uploaded_kernel_is_not_uploaded_after_a_restart)
{
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_DONE);
    restart_as_builder(f);
    pass_time(f);
    assert_null(next_access(f));
    compile(f, "b.cl");
    pass_time(f);
    expect_record(f, next_access(f), "b.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, another_tree_gets_all_kernels)
{
    f->users.engine.options.fleet_tree = "https://a:old@host/fleet";
    restart_as_builder(f);
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_DONE);
    f->users.engine.options.fleet_tree = "https://a:new@host/fleet";
    restart_as_builder(f);
    pass_time(f);
    assert_null(next_access(f));
    f->users.engine.options.fleet_tree = "https://a:new@host/other";
    restart_as_builder(f);
    pass_time(f);
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
}

/* Older versions wrote such marks. */
TEST_F(builder, a_mark_without_a_tree_counts_for_the_first_tree)
{
    char path[512];
    BUFFER_AUTO struct buffer mark;
    buffer_init(&mark, 200);
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_DONE);
    snprintf(path, sizeof(path), "%s/fleet-uploaded", f->users.engine.options.state_directory);
    must(fs_read_file(path, 200, &mark, &f->err), f->err);
    const char *tree = memrchr(mark.data, ' ', mark.size);
    assert_non_null(tree);
    must(fs_replace_file(path, bytes_of(mark.data, (size_t)(tree - (const char *)mark.data)), 0600,
                         &f->err),
         f->err);
    restart_as_builder(f);
    pass_time(f);
    assert_null(next_access(f));
    f->users.engine.options.fleet_tree = "https://host/other";
    restart_as_builder(f);
    pass_time(f);
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, a_failed_upload_is_repeated)
{
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_FORBIDDEN);
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    assert_null(next_access(f)); /* the engine first waits for a minute */
    pass_seconds(f, 61);
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, a_busy_store_is_left_alone_as_long_as_it_wants)
{
    compile(f, "a.cl");
    pass_time(f);
    next_access(f)->wait_s = 200;
    end_put(f, FLEET_END_BUSY);
    pass_seconds(f, 180);
    assert_null(next_access(f));
    pass_seconds(f, 60);
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, a_kernel_that_is_too_large_for_the_server_is_left_out)
{
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_TOO_LARGE);
    pass_time(f);
    assert_null(next_access(f));
    compile(f, "b.cl");
    pass_time(f);
    expect_record(f, next_access(f), "b.cl");
    end_put(f, FLEET_END_DONE);
}

static void evict_all(struct builder *f)
{
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.admin, MESSAGE_gc, "{\"to_bytes\":0}");
    assert_int_equal(json_get_u64(answer, "evicted_kernels", 0), 1);
}

TEST_F(builder, a_kernel_that_is_evicted_before_its_upload_is_not_shared)
{
    compile(f, "a.cl");
    evict_all(f);
    pass_time(f);
    assert_null(next_access(f));
    compile(f, "b.cl");
    pass_time(f);
    assert_int_equal(count_accesses(f), 1);
    expect_record(f, next_access(f), "b.cl");
    end_put(f, FLEET_END_DONE);
    expect_uploads(f, 0, false);
}

/* The upload that failed is repeated without this kernel. */
TEST_F(builder, a_kernel_that_is_evicted_after_its_upload_failed_does_not_stop_others)
{
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_FORBIDDEN);
    evict_all(f);
    compile(f, "b.cl");
    pass_seconds(f, 61);
    assert_int_equal(count_accesses(f), 1);
    expect_record(f, next_access(f), "b.cl");
    end_put(f, FLEET_END_DONE);
    expect_uploads(f, 0, false);
}

TEST_F(builder, an_upload_that_a_crash_interrupts_is_repeated)
{
    compile(f, "a.cl");
    pass_time(f);
    assert_non_null(next_access(f));
    end_put(f, FLEET_END_STOPPED);
    restart_as_builder(f);
    pass_time(f);
    expect_record(f, next_access(f), "a.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, many_kernels_are_uploaded_in_steps)
{
    char program[32];
    unsigned uploaded = 0;
    for (unsigned i = 0; i < 20; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        compile(f, program);
    }
    for (unsigned i = 0; i < 10; i++) {
        pass_time(f);
        for (; next_access(f); uploaded++)
            end_put(f, FLEET_END_DONE);
    }
    assert_int_equal(uploaded, 20);
}

TEST_F(builder, records_that_take_long_are_made_in_several_steps)
{
    unsigned uploaded = 0;
    compile(f, "a.cl");
    compile(f, "b.cl");
    compile(f, "c.cl");
    call_ns = 30000000;
    pass_time(f);
    for (; next_access(f); uploaded++) {
        assert_int_equal(count_accesses(f), 1);
        end_put(f, FLEET_END_DONE);
    }
    assert_int_equal(uploaded, 3);
}

TEST_F(builder, a_kernel_that_gets_the_id_of_a_removed_one_is_uploaded)
{
    compile(f, "a.cl");
    pass_time(f);
    end_put(f, FLEET_END_DONE);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    compile(f, "b.cl");
    for (unsigned i = 0; i < 3 && !next_access(f); i++)
        pass_time(f);
    assert_non_null(next_access(f));
    expect_record(f, next_access(f), "b.cl");
    end_put(f, FLEET_END_DONE);
}

TEST_F(builder, status_counts_the_kernels_that_wait)
{
    compile(f, "a.cl");
    compile(f, "b.cl");
    expect_uploads(f, 2, false);
    pass_time(f);
    end_put(f, FLEET_END_FORBIDDEN);
    end_put(f, FLEET_END_DONE);
    expect_uploads(f, 2, true); /* both are tried again */
    pass_seconds(f, 61);
    end_put(f, FLEET_END_DONE);
    end_put(f, FLEET_END_EXISTS);
    expect_uploads(f, 0, false);
}

TEST_F(builder, after_the_cache_was_removed_uploads_begin_again)
{
    compile(f, "a.cl");
    compile(f, "b.cl");
    pass_time(f);
    while (next_access(f))
        end_put(f, FLEET_END_DONE);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    compile(f, "c.cl");
    for (unsigned i = 0; i < 3 && !next_access(f); i++)
        pass_time(f);
    assert_non_null(next_access(f));
    expect_record(f, next_access(f), "c.cl");
    end_put(f, FLEET_END_DONE);
}

/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_record.h"
#include "engine/service/fleet/fleet_kernel.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/internal.h"

#include <stdio.h>
#include <string.h>

#define RECORDS_MAX (16u << 20)

static struct json *export_records(struct users *f, const char *question,
                                   struct buffer *ret_records)
{
    struct json *answer = test_caller_ask(&f->admin, MESSAGE_fleet_export, question);
    buffer_init(ret_records, RECORDS_MAX);
    assert_int_equal(f->admin.replies[0].object_count, 1);
    reply_object(&f->admin, 0, 0, ret_records);
    assert_int_equal(ret_records->size, json_get_u64(answer, "size", 0));
    return answer;
}

static bool next_record(const struct buffer *records, size_t *at, struct fleet_record *ret_record)
{
    if (*at == records->size)
        return false;
    struct bytes rest = bytes_of(records->data + *at, records->size - *at);
    assert_true(fleet_record_read(rest, ret_record));
    *at += ret_record->size;
    return true;
}

TEST_F(users, compiled_kernels_are_exported_for_the_fleet)
{
    BUFFER_AUTO struct buffer records;
    struct fleet_record record;
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes raw;
    size_t at = 0;
    KILN_AUTO(codec) struct codec *codec = NULL;
    struct digest key = compile_program(&f->ann, "a.cl");

    KILN_AUTO(json) struct json *answer = export_records(f, "{}", &records);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 1);
    assert_true(next_record(&records, &at, &record));
    assert_true(digest_equal(&record.claim.key, &key));
    assert_true(bytes_equal_text(record.claim.shard.target, FIXTURE_TARGET));
    assert_true(bytes_equal_text(record.claim.program, "a.cl"));
    assert_true(digest_is_known(&record.claim.shard.toolchain_id));
    must(codec_create(&codec, &err), err);
    must(codec_unpack(codec, &record.packed, &raw, &err), err);
    assert_true(bytes_equal_text(raw, "the object of a.cl"));
    struct digest object = sha256_of(raw);
    assert_true(digest_equal(&record.claim.object, &object));
    assert_false(next_record(&records, &at, &record));
}

/* kilnd stores a kernel after it has answered. The work queues are independent, but each of them
 * runs one user's tasks in order. */
TEST_F(users, an_export_for_the_fleet_begins_after_the_writes_of_its_user)
{
    struct fake_executor *executor = &f->engine.executor;
    compile_program(&f->ann, "a.cl");
    unsigned writes = executor->tasks_of[WORK_QUEUE_WRITE];
    test_caller_send(&f->admin, MESSAGE_fleet_export, 3, bytes_of_text("{}"));
    assert_int_equal(executor->tasks_of[WORK_QUEUE_WRITE], writes + 1);
}

TEST_F(users, many_kernels_are_exported_in_one_file)
{
    BUFFER_AUTO struct buffer records;
    struct fleet_record record;
    char program[32];
    size_t at = 0, count = 0;
    /* 300 keys are more than one page. */
    for (unsigned i = 0; i < 300; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        compile_program(&f->ann, program);
    }
    KILN_AUTO(json) struct json *answer = export_records(f, "{}", &records);
    while (next_record(&records, &at, &record))
        count++;
    assert_int_equal(count, 300);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 300);
}

TEST_F(users, imported_kernels_are_not_exported_for_the_fleet)
{
    const struct kernel_row row = TEXT_KERNEL("named.o", " -mcpu=gfx906", "imported");
    write_kernel_file(f->file, &row, 1);
    const int file = open_copy(f->file);
    test_caller_send_files(&f->admin, MESSAGE_kernel_import, "{\"for_all\":true}", &file, 1);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx906_60.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_refused(&f->admin, MESSAGE_fleet_export, "{}", KILN_NOT_FOUND, "compiled");
}

/* Replaces the kernel with one that came from the fleet. */
static void replace_with_packaged(struct kernel_store *store, const struct digest *key)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct object *object = NULL;
    uint64_t evicted = 0;
    must(object_from_bytes(bytes_of_text("another object"), 1, &object, &err), err);
    const struct kernel_record record = { .key = *key,
                                          .object = object->digest,
                                          .toolchain_id = { { 1 } },
                                          .target = FIXTURE_TARGET,
                                          .toolchain = "opencl",
                                          .program = "a.cl",
                                          .package = FLEET_PACKAGE_NAME,
                                          .raw_size = object->size,
                                          .kind = OBJECT_CODE };
    must(kernel_store_put(store, &record, object, &evicted, &err), err);
    object_unref(object);
}

static bool makes_record(struct kernel_store *store, const struct digest *key)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer records;
    KILN_AUTO(codec) struct codec *codec = NULL;
    buffer_init(&records, RECORDS_MAX);
    must(codec_create(&codec, &err), err);
    struct fleet_recording recording = { .store = store, .codec = codec, .records = &records };
    must(fleet_kernel_record(&recording, key, &err), err);
    assert_int_equal(recording.is_written, records.size > 0);
    return recording.is_written;
}

TEST_F(users, a_kernel_that_was_replaced_since_it_was_listed_is_not_signed)
{
    struct digest key = compile_program(&f->ann, "a.cl");
    struct kernel_store *store = f->engine.engine->store;
    assert_true(makes_record(store, &key));
    replace_with_packaged(store, &key);
    assert_false(makes_record(store, &key));
}

TEST_F(users, another_target_is_not_exported_for_the_fleet)
{
    compile_program(&f->ann, "a.cl");
    test_caller_refused(&f->admin, MESSAGE_fleet_export, "{\"target\":\"gfx90a\"}", KILN_NOT_FOUND,
                        "compiled");
}

TEST_F(users, large_kernels_are_left_out_of_the_fleets_export)
{
    BUFFER_AUTO struct buffer records;
    const size_t size = (4u << 20) + 1;
    compile_program(&f->ann, "small.cl");
    KILN_AUTO(mem) uint8_t *large = calloc(1, size);
    fetch_program(&f->ann, 8, "large.cl");
    finish_compiles(f, bytes_of(large, size));
    KILN_AUTO(json) struct json *answer = export_records(f, "{}", &records);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 1);
    assert_int_equal(json_get_u64(answer, "left_out", 0), 1);
}

TEST_F(users, only_administrators_export_for_the_fleet)
{
    compile_program(&f->ann, "a.cl");
    test_caller_refused(&f->ann, MESSAGE_fleet_export, "{}", KILN_DENIED, "fleet push");
}

TEST_F(users, requests_about_the_fleet_name_the_setting_that_is_missing)
{
    test_caller_refused(&f->admin, MESSAGE_fleet_pull, "{}", KILN_UNSUPPORTED, "uses no fleet");
    test_caller_refused(&f->admin, MESSAGE_fleet_keys, NULL, KILN_UNSUPPORTED, "uses no fleet");
}

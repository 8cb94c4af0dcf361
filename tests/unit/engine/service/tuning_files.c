/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/budget.h"
#include "engine/service/internal.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* the number of the statvfs call that reports a full disk, counted from now; 0: no call does */
static unsigned looks_until_full;

WRAP(int, statvfs, const char *path, struct statvfs *disk)
{
    int rc = __real_statvfs(path, disk);
    disk->f_frsize = 4096;
    disk->f_blocks = 1u << 20;
    disk->f_bavail = disk->f_blocks;
    if (looks_until_full > 0 && --looks_until_full == 0) {
        disk->f_bavail = 0;
        looks_until_full = 1;
    }
    return rc;
}

TEST_F(users, a_tuning_import_reports_its_records_and_source)
{
    KILN_AUTO(json)
    struct json *a = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE,
                                   KEY "=" WINOGRAD ";" GEMM "\n" KEY_OF_TWO "=" GEMM "\n");
    assert_string_equal(json_get_text(a, "kind", ""), "find");
    assert_string_equal(json_get_text(a, "database_id", ""), ID);
    assert_string_equal(json_get_text(a, "backend", ""), "HIP");
    assert_string_equal(json_get_text(a, "tier", ""), "system");
    assert_string_equal(json_get_text(a, "source", ""), FIND_FILE);
    assert_int_equal(answer_number(a, "records"), 2);
    assert_int_equal(answer_number(a, "entries"), 3);
    assert_int_equal(answer_number(a, "bad"), 0);
    assert_int_equal(users_stat(f, "tuning_imports"), 1);
}

TEST_F(users, an_import_reports_bad_lines_and_takes_the_rest)
{
    KILN_AUTO(json)
    struct json *a = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE,
                                   "nonsense\n" KEY "=" WINOGRAD "\n=x\n");
    assert_int_equal(answer_number(a, "bad"), 2);
    assert_int_equal(answer_number(a, "records"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->admin, "bad");
    const struct json *bad = json_get(frame, "bad");
    assert_int_equal(json_count(bad), 2);
    assert_int_equal(answer_number(json_first(bad), "line"), 1);
    assert_int_equal(answer_number(json_next(json_first(bad)), "line"), 3);
    assert_true(strlen(json_get_text(json_first(bad), "why", "")) > 0);
}

TEST_F(users, bad_lines_are_reported_in_frames_of_a_thousand)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1u << 20);
    for (int i = 0; i < 2500; i++)
        buffer_put(&text, "nonsense\n", 9);
    buffer_put(&text, MINE, sizeof(MINE));
    KILN_AUTO(json)
    struct json *a = tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, (const char *)text.data);
    assert_int_equal(answer_number(a, "bad"), 2500);
    size_t sum = 0;
    for (size_t i = 0; i + 1 < f->ann.reply_count; i++) {
        KILN_AUTO(json) struct json *frame = reply_json(&f->ann, i);
        size_t count = json_count(json_get(frame, "bad"));
        assert_true(count <= 1000);
        sum += count;
    }
    assert_int_equal(sum, 2500);
    assert_null(json_get(a, "left_out"));
}

TEST_F(users, a_strict_import_with_a_bad_line_takes_nothing)
{
    tuning_write(f, KEY "=" WINOGRAD "\nnonsense\n");
    tuning_send_file(f, &f->admin, MESSAGE_tuning_import,
                     "{\"name\":\"" FIND_FILE "\",\"strict\":true}", FIND_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->admin, f->admin.reply_count - 1, KILN_INVALID, "line 2");
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, users_import_into_their_own_records_only)
{
    static const char *const shared[] = { "system", "host" };
    for (size_t i = 0; i < 2; i++) {
        char question[120];
        snprintf(question, sizeof(question), "{\"name\":\"" FIND_FILE "\",\"tier\":\"%s\"}",
                 shared[i]);
        tuning_write(f, MINE);
        tuning_send_file(f, &f->ann, MESSAGE_tuning_import, question, FIND_FILE);
        assert_reply_refuses(&f->ann, 0, KILN_DENIED, "--tier user");
    }
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, MINE));
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).tier, 3);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, a_users_import_of_a_file_named_as_system_is_refused)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import, SYSTEM_QUESTION, FIND_FILE);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "--tier user");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(users, a_file_named_as_user_is_imported_for_its_user)
{
    const char *name = ID ".HIP.2_17_0_a82233c22.ufdb.txt";
    KILN_AUTO(json) struct json *a = tuning_import(f, &f->ann, "{}", name, MINE);
    assert_string_equal(json_get_text(a, "tier", ""), "user");
}

TEST_F(users, a_users_imported_records_are_limited)
{
    f->engine.options.tuning_records_per_uid = 1;
    users_reopen(f);
    tuning_write(f, MINE KEY_OF_TWO "=" GEMM "\n"
                                    "third=" GEMM "\n");
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import, USER_QUESTION, FIND_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_FULL, "tuning_records_per_uid");
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, a_stopping_daemon_rejects_an_import_that_has_not_started)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import, USER_QUESTION, FIND_FILE);
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_UNAVAILABLE, "stopping");
}

TEST_F(users, only_administrators_have_a_url_fetched)
{
    const char *q = "{\"url\":\"file:///etc/shadow\",\"tier\":\"user\"}";
    test_caller_refused(&f->ann, MESSAGE_tuning_import, q, KILN_DENIED, "fetch it");
    test_caller_refused(&f->publisher, MESSAGE_tuning_import, q, KILN_DENIED, "fetch it");
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);
}

TEST_F(users, an_uninformative_file_name_needs_kind_and_database_id)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->admin, MESSAGE_tuning_import, "{}", "results");
    assert_reply_refuses(&f->admin, 0, KILN_INVALID, "--db-id");
    KILN_AUTO(json)
    struct json *a = tuning_import(f, &f->admin, "{\"kind\":\"find\",\"database_id\":\"" ID "\"}",
                                   "results", MINE);
    assert_string_equal(json_get_text(a, "backend", ""), "HIP");
    assert_int_equal(answer_number(a, "records"), 1);
}

TEST_F(users, a_given_database_id_overrides_the_file_name)
{
    KILN_AUTO(json)
    struct json *a =
        tuning_import(f, &f->admin, "{\"database_id\":\"" ID "\"}", "mine.HIP.fdb.txt", MINE);
    assert_string_equal(json_get_text(a, "database_id", ""), ID);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_OK);
}

TEST_F(users, a_client_that_leaves_while_its_import_is_queued_imports_nothing)
{
    struct put put = find_put("First", 1);
    tuning_send_put(f, &f->bob, &put, false);
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import, USER_QUESTION, FIND_FILE);
    test_caller_cancel(&f->ann, 3);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, a_failed_transfer_fails_the_tuning_import_with_its_reason)
{
    tuning_write(f, MINE);
    const int file = open(f->file, O_RDONLY | O_CLOEXEC);
    test_caller_send_files(&f->ann, MESSAGE_tuning_import, USER_QUESTION, &file, 1);
    assert_true(fake_executor_next_transfer(&f->engine.executor)->job.unchecked);
    fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "the disk is gone");
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_IO, "the disk is gone");
    static const char failed[] =
        "kiln_remote_requests_total{tier=\"tuning\",op=\"copy\",result=\"io\"}";
    assert_int_equal(test_caller_metric(&f->ann, failed), 1);
}

/* Writes a PerfDb of problems without solvers, and returns its size. The keys have many digits.
 * Reading them takes several steps, and in memory they need more than twice the file's size. */
static uint64_t write_perf_db(struct users *f, unsigned count)
{
    char sql[1600];
    sqlite3 *db = NULL;
    char *why = NULL;
    struct stat seen;
    unlink(f->file);
    snprintf(
        sql, sizeof(sql),
        "create table config (id integer primary key, layout text, data_type text, direction text,"
        "spatial_dim int, in_channels int, in_h int, in_w int, in_d int, fil_h int, fil_w int,"
        "fil_d int, out_channels int, batchsize int, pad_h int, pad_w int, pad_d int,"
        "conv_stride_h int, conv_stride_w int, conv_stride_d int, dilation_h int, dilation_w int,"
        "dilation_d int, bias int, group_count int);"
        "create table perf_db (id integer primary key, solver text, config int, params text);"
        "with recursive n(i, big) as (select 1, 9e18 union all select i + 1, big from n where i < "
        "%u) insert into config select i, 'NCHW', 'FP32', 'F', i, b, b, b, b, b, b, b, b, b, b, b,"
        "b, b, b, b, b, b, b, b, b from (select i, cast(big as int) as b from n)",
        count);
    assert_int_equal(sqlite3_open(f->file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(stat(f->file, &seen), 0);
    return (uint64_t)seen.st_size;
}

#define PERF_FILE ID "_1.1.0.udb"
#define EMPTY_PROBLEMS 12000u

static void refuse_import(struct users *f, enum message_type type, const char *question)
{
    tuning_send_file(f, &f->ann, type, question, PERF_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_BUSY, "queue_bytes_per_uid");
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

TEST_F(users, the_keys_of_a_perf_db_are_charged_to_its_user)
{
    uint64_t size = write_perf_db(f, EMPTY_PROBLEMS);
    budget_set_limits(f->engine.engine->budget, 64u << 20, size + (1u << 20));
    refuse_import(f, MESSAGE_tuning_import, "{\"name\":\"" PERF_FILE "\"}");
    refuse_import(f, MESSAGE_tuning_merge, "{\"name\":\"" PERF_FILE "\"}");
    budget_set_limits(f->engine.engine->budget, 64u << 20, 2 * size + (1u << 20));
    refuse_import(f, MESSAGE_tuning_diff,
                  "{\"kind\":\"perf\",\"database_id\":\"" ID "\",\"a_tier\":\"user\","
                  "\"b_name\":\"" PERF_FILE "\"}");
}

TEST_F(users, a_perf_db_whose_keys_may_wait_is_imported)
{
    uint64_t size = write_perf_db(f, EMPTY_PROBLEMS);
    budget_set_limits(f->engine.engine->budget, 64u << 20, 8 * size);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import, "{\"name\":\"" PERF_FILE "\"}", PERF_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "records"), EMPTY_PROBLEMS);
    assert_int_equal(answer_number(a, "bad"), 0);
}

TEST_F(users, a_merge_keeps_existing_records_and_reports_its_counts)
{
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, MINE));
    tuning_write(f, KEY "=Mine:0.09,128,miopenConvolutionFwdAlgoDirect\n" KEY_OF_TWO "=" GEMM "\n");
    tuning_send_file(f, &f->ann, MESSAGE_tuning_merge, "{\"name\":\"" FIND_FILE "\"}", FIND_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_string_equal(json_get_text(a, "tier", ""), "user");
    assert_int_equal(answer_number(a, "added"), 1);
    assert_int_equal(answer_number(a, "kept"), 1);
    assert_int_equal(answer_number(a, "conflicts"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "conflicts");
    assert_string_equal(json_get_text(json_first(json_get(frame, "conflicts")), "key", ""), KEY);
    assert_true(tuning_finds(f, &f->ann, "Mine:0.03,128,miopenConvolutionFwdAlgoDirect"));
}

TEST_F(users, nothing_is_merged_into_a_system_database)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->admin, MESSAGE_tuning_merge,
                     "{\"name\":\"" FIND_FILE "\",\"tier\":\"system\"}", FIND_FILE);
    assert_reply_refuses(&f->admin, 0, KILN_INVALID, "never merged");
}

TEST_F(users, an_export_equals_the_imported_file)
{
    const char *text = KEY "=" WINOGRAD ";" GEMM "\n" KEY_OF_TWO "=" GEMM "\n";
    json_destroy(tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, text));
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->bob, MESSAGE_tuning_export, "{}");
    const struct json *file = json_first(json_get(a, "files"));
    assert_string_equal(json_get_text(file, "name", ""), FIND_FILE);
    assert_int_equal(answer_number(file, "records"), 2);
    assert_int_equal(answer_number(file, "bytes"), strlen(text));
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 1u << 20);
    reply_object(&f->bob, f->bob.reply_count - 1, 0, &content);
    assert_true(bytes_equal_text(buffer_view(&content), text));
}

TEST_F(users, an_export_of_the_user_tier_has_the_users_records)
{
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, MINE));
    test_caller_refused(&f->bob, MESSAGE_tuning_export, "{\"tier\":\"user\"}", KILN_NOT_FOUND,
                        "user records");
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_export,
                                     "{\"tier\":\"user\",\"version\":\"2.17.0.a82233c22\"}");
    assert_string_equal(json_get_text(json_first(json_get(a, "files")), "name", ""),
                        ID ".HIP.2_17_0_a82233c22.ufdb.txt");
}

TEST_F(users, a_merged_export_joins_tiers_like_a_look_up)
{
    json_destroy(tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE,
                               KEY "=" WINOGRAD "\n" KEY_OF_TWO "=" GEMM "\n"));
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, MINE));
    json_destroy(
        test_caller_ask(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\",\"merged\":true}"));
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 1u << 20);
    reply_object(&f->ann, f->ann.reply_count - 1, 0, &content);
    assert_true(bytes_equal_text(buffer_view(&content), MINE KEY_OF_TWO "=" GEMM "\n"));
}

TEST_F(users, perf_records_are_exported_as_miopens_sqlite_file)
{
    struct put put = perf_put("ConvAsm1x1U", "1,8", 0.2);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    assert_string_equal(json_get_text(json_first(json_get(a, "files")), "name", ""),
                        ID "_1.1.0.udb");
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 1u << 20);
    reply_object(&f->ann, f->ann.reply_count - 1, 0, &content);
    assert_memory_equal(content.data, "SQLite format 3", 16);
}

/* docs/formats/miopen-versions.md lists these names. */
TEST_F(users, exported_files_have_the_names_that_the_users_miopen_reads)
{
    static const struct {
        const char *kind, *format, *version, *name;
    } cases[] = {
        { "find", "text", "2.17.0.a82233c22", ID ".HIP.2_17_0_a82233c22.ufdb.txt" },
        { "find", "text", "3.5.2", ID ".HIP.3_5_2_.ufdb.txt" },
        { "perf", "sqlite", "2.17.0.a82233c22", ID "_1.1.0.udb" },
        { "perf", "text", "2.17.0.a82233c22", ID ".HIP.2_17_0_a82233c22.cd.updb.txt" },
        { "perf", "text", "3.2.0.36bb7fd4a", ID ".HIP.3_2_0_36bb7fd4a.udb.txt" },
        { "perf", "text", "3.5.2.", ID ".HIP.3_5_2_.udb.txt" },
        { "perf", "text", "", ID ".db.txt" },
    };
    struct put puts[] = { find_put("Mine", 0.03), perf_put("Mine", "1,2", 0.03) };
    tuning_put(f, &f->ann, &puts[0]);
    tuning_put(f, &f->ann, &puts[1]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char question[200];
        snprintf(question, sizeof(question),
                 "{\"tier\":\"user\",\"kind\":\"%s\",\"format\":\"%s\"%s%s%s}", cases[i].kind,
                 cases[i].format, cases[i].version[0] ? ",\"version\":\"" : "", cases[i].version,
                 cases[i].version[0] ? "\"" : "");
        KILN_AUTO(json)
        struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_export, question);
        assert_string_equal(json_get_text(json_first(json_get(a, "files")), "name", ""),
                            cases[i].name);
    }
    test_caller_refused(
        &f->ann, MESSAGE_tuning_export,
        "{\"tier\":\"user\",\"version\":\"3.5.2.abcdefghijklmnopqrstuvwxyzabcdefgh\"}",
        KILN_INVALID, "3.5.2.abc");
}

/* MIOpen keeps fusions and batch normalisation in separate databases; those of batch
 * normalisation are always text. */
TEST_F(users, records_of_miopens_other_parts_come_out_in_their_own_files)
{
    static const char *const names[] = { ID ".HIP.3_2_0_36bb7fd4a.fusion.ufdb.txt",
                                         "batchnorm_" ID ".HIP.3_2_0_36bb7fd4a.udb.txt" };
    static const char *const texts[] = {
        "64, 64, 56, 56FP3264, 64, 56, 56FP32c1=ConvBiasActivAsm1x1U:0.2,0,fusion\n",
        "2x64x128x56x56x1x0x1x0xNCHWxTrnxFP32x1=BnFwdTrainingSpatial:1,0\n"
    };
    for (size_t i = 0; i < 2; i++) {
        KILN_AUTO(json) struct json *in = tuning_import(f, &f->ann, "{}", names[i], texts[i]);
        assert_string_equal(json_get_text(in, "tier", ""), "user");
        assert_int_equal(answer_number(in, "bad"), 0);
    }
    KILN_AUTO(json)
    struct json *out = test_caller_ask(&f->ann, MESSAGE_tuning_export,
                                       "{\"tier\":\"user\",\"format\":\"sqlite\","
                                       "\"version\":\"3.2.0.36bb7fd4a\"}");
    const struct json *file = json_first(json_get(out, "files"));
    for (size_t i = 0; i < 2; i++, file = json_next(file)) {
        BUFFER_AUTO struct buffer content;
        buffer_init(&content, 1u << 20);
        bool is_first = strcmp(json_get_text(file, "name", ""), names[0]) == 0;
        assert_string_equal(json_get_text(file, "name", ""), names[!is_first]);
        reply_object(&f->ann, f->ann.reply_count - 1, i, &content);
        assert_true(bytes_equal_text(buffer_view(&content), texts[!is_first]));
    }
}

TEST_F(users, an_export_with_unknown_values_is_refused)
{
    static const char *const bad[] = {
        "{\"tier\":\"x\"}",   "{\"kind\":\"x\"}",      "{\"dialect\":\"x\"}",
        "{\"format\":\"x\"}", "{\"version\":\"a/b\"}", "{\"database_id\":\"../x\"}",
        "{\"uid\":3}"
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        test_caller_refused(&f->ann, MESSAGE_tuning_export, bad[i], KILN_INVALID, "");
}

TEST_F(users, only_administrators_get_a_backup_which_is_a_database)
{
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->ann, &put);
    test_caller_refused(&f->publisher, MESSAGE_tuning_backup, "{}", KILN_DENIED, "administrator");
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->admin, MESSAGE_tuning_backup, "{}");
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 16u << 20);
    reply_object(&f->admin, f->admin.reply_count - 1, 0, &content);
    assert_int_equal(answer_number(a, "bytes"), content.size);
    assert_memory_equal(content.data, "SQLite format 3", 16);
}

TEST_F(users, nothing_is_exported_onto_a_full_disk)
{
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, MINE));
    /* An export checks the free space twice: before it writes, and after it has written. */
    for (unsigned looks = 1; looks <= 2; looks++) {
        looks_until_full = looks;
        test_caller_refused(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}", KILN_FULL,
                            "MiB left");
        assert_int_equal(engine_fixture_staged(&f->engine), 0);
    }
    looks_until_full = 1;
    test_caller_refused(&f->admin, MESSAGE_tuning_backup, "{}", KILN_FULL, "MiB left");
    looks_until_full = 0;
    json_destroy(test_caller_ask(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}"));
}

TEST_F(users, a_vacuum_reports_how_much_it_freed)
{
    test_caller_refused(&f->ann, MESSAGE_tuning_vacuum, "{}", KILN_DENIED, "administrator");
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->admin, MESSAGE_tuning_vacuum, "{}");
    assert_true(answer_number(a, "freed") != UINT64_MAX);
    assert_true(answer_number(a, "bytes") > 0 && answer_number(a, "bytes") != UINT64_MAX);
}

#define WITH_BIAS "64-56-56-1x1-64-56-56-1-0x0-1x1-1x1-1-NCHW-FP32-F"

TEST_F(users, an_import_reports_keys_that_are_no_problem)
{
    KILN_AUTO(json)
    struct json *a = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE,
                                   KEY "=" WINOGRAD "\n" WITH_BIAS "=" GEMM "\n");
    assert_int_equal(answer_number(a, "verbatim"), 1);
    assert_null(json_get(a, "left_out"));
    assert_null(json_get(a, "verbatim_left_out"));
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->admin, "verbatim");
    const struct json *reported = json_get(frame, "verbatim");
    assert_int_equal(json_count(reported), 1);
    assert_int_equal(answer_number(json_first(reported), "line"), 2);
    assert_string_equal(json_get_text(json_first(reported), "key", ""), WITH_BIAS);
    assert_says(json_get_text(json_first(reported), "why", ""), "bias");
}

TEST_F(users, a_file_of_an_unknown_backend_is_refused)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import,
                     "{\"name\":\"" FIND_FILE "\",\"tier\":\"user\",\"backend\":\"Metal\"}",
                     FIND_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_INVALID, "'Metal'");
}

TEST_F(users, a_file_whose_backend_contradicts_the_device_is_refused)
{
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_import,
                     "{\"tier\":\"user\",\"database_id\":\"sm_90_132\"}", FIND_FILE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_INVALID, "'HIP'");
}

TEST_F(users, records_of_a_device_unknown_to_miopen_are_imported_by_file_name)
{
    static const char *const ids[] = { "sm_90_132", "opencl_1a2b3c4d" };
    static const char *const names[][2] = { { "sm_90_132.CUDA.fdb.txt", "sm_90_132.db.txt" },
                                            { "opencl_1a2b3c4d.OpenCL.fdb.txt",
                                              "opencl_1a2b3c4d.db.txt" } };
    for (size_t i = 0; i < 2; i++) {
        struct put puts[] = { find_put("Mine", 0.03), perf_put("Mine", "1,2", 0.03) };
        for (size_t k = 0; k < 2; k++) {
            char question[128];
            BUFFER_AUTO struct buffer content;
            buffer_init(&content, 1u << 20);
            puts[k].m.database_id = bytes_of_text(ids[i]);
            puts[k].m.backend = bytes_of_text("");
            tuning_put(f, &f->ann, &puts[k]);
            snprintf(question, sizeof(question),
                     "{\"tier\":\"user\",\"kind\":\"%s\",\"database_id\":\"%s\","
                     "\"format\":\"text\"}",
                     k ? "perf" : "find", ids[i]);
            KILN_AUTO(json)
            struct json *out = test_caller_ask(&f->ann, MESSAGE_tuning_export, question);
            assert_string_equal(json_get_text(json_first(json_get(out, "files")), "name", ""),
                                names[i][k]);
            reply_object(&f->ann, f->ann.reply_count - 1, 0, &content);
            KILN_AUTO(mem) char *text = bytes_to_text(buffer_view(&content));

            KILN_AUTO(json)
            struct json *in = tuning_import(f, &f->bob, "{\"tier\":\"user\"}", names[i][k], text);

            assert_string_equal(json_get_text(in, "database_id", ""), ids[i]);
            assert_string_equal(json_get_text(in, "kind", ""), k ? "perf" : "find");
            assert_int_equal(answer_number(in, "records"), 1);
        }
    }
}

TEST_F(users, a_system_database_that_loses_most_of_its_records_is_reported)
{
    const char *three = KEY "=" WINOGRAD "\n" KEY_OF_TWO "=" GEMM "\n" WITH_BIAS "=" GEMM "\n";
    const char *two = KEY "=" WINOGRAD "\n" KEY_OF_TWO "=" GEMM "\n";
    const char *one = KEY "=" WINOGRAD "\n";
    KILN_AUTO(json)
    struct json *first = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, three);
    assert_null(json_get(first, "records_before"));
    assert_null(json_get(first, "shrunk"));
    KILN_AUTO(json)
    struct json *fewer = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, two);
    assert_int_equal(answer_number(fewer, "records_before"), 3);
    assert_null(json_get(fewer, "shrunk"));
    json_destroy(tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, three));

    KILN_AUTO(json)
    struct json *most = tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, one);

    assert_int_equal(answer_number(most, "records"), 1);
    assert_int_equal(answer_number(most, "records_before"), 3);
    assert_true(json_get_bool(most, "shrunk", false));
}

/* SPDX-License-Identifier: MIT */
#include "engine/manifest/manifest.h"
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/service/internal.h"
#include "engine/service/packages/packages.h"
#include "engine/service/packages/uploads.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define URL "{\"url\":\"https://example.org/gfx90a68.kdb.bz2\"}"

static const struct kernel_row rows[] = { TEXT_KERNEL("a.o", " -mcpu=gfx90a", "the first object"),
                                          TEXT_KERNEL("b.o", " -mcpu=gfx90a", "the second object"),
                                          TEXT_KERNEL("c.o", " -mcpu=gfx90a", "the third object") };
#define ROWS (sizeof(rows) / sizeof(rows[0]))

SET_UP_OF(setup, struct users)
{
    users_open(f, /* describe= */ true);
    write_kernel_file(f->file, rows, ROWS);
}

FIXTURE_OF(install, struct users, setup, NULL);

static void begin_install(struct users *f, const char *question)
{
    test_caller_forget_replies(&f->admin);
    test_caller_send(&f->admin, MESSAGE_package_install, 3, bytes_of_text(question));
}

static void install_package(struct users *f, const char *name)
{
    char question[300];
    snprintf(question, sizeof(question), "{\"url\":\"https://h/x.bz2\",\"name\":\"%s\"}", name);
    begin_install(f, question);
    fake_executor_transfer(&f->engine.executor, f->file, name, "");
    fake_executor_run_tasks(&f->engine.executor);
}

static bool serves_kernel(struct users *f, const char *name)
{
    test_caller_forget_replies(&f->ann);
    test_caller_fetch_name(&f->ann, "gfx90a68", name, " -mcpu=gfx90a");
    return last_result(&f->ann).code == KILN_OK;
}

static bool is_installed(const struct users *f, const char *file_name)
{
    return access(package_path(&f->engine, file_name), F_OK) == 0;
}

TEST_F(install, a_downloaded_package_is_installed_and_serves_kernels)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(manifest_keygen(f->engine.keys, "release", &err), err);
    begin_install(f, URL);
    assert_false(serves_kernel(f, "a.o"));

    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "release");
    fake_executor_run_tasks(&f->engine.executor);

    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_string_equal(json_get_text(answer, "name", ""), "gfx90a68.kdb");
    assert_string_equal(json_get_text(answer, "database_id", ""), "gfx90a68");
    assert_string_equal(json_get_text(answer, "signer", ""), "release");
    assert_string_equal(json_get_text(answer, "source", ""),
                        "https://example.org/gfx90a68.kdb.bz2");
    assert_true(serves_kernel(f, "a.o"));
    assert_string_equal(engine_fixture_reported(&f->engine, "package_installed"), "gfx90a68.kdb");
}

TEST_F(install, an_unused_file_is_listed_with_the_packages)
{
    struct kiln_err err = KILN_ERR_INIT;
    install_package(f, "gfx90a68.kdb");
    must(fs_replace_file(package_path(&f->engine, "gfx906_60.kdb"),
                         bytes_of_text("junk, 20 bytes."), 0644, &err),
         err);
    engine_fixture_rescan(&f->engine);
    engine_fixture_rescan(&f->engine);

    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_package_list, "{}");

    assert_int_equal(json_count(json_get(answer, "packages")), 1);
    const struct json *refused = json_get(answer, "refused");
    assert_int_equal(json_count(refused), 1);
    assert_string_equal(json_get_text(json_first(refused), "name", ""), "gfx906_60.kdb");
    assert_says(json_get_text(json_first(refused), "why", ""), "gfx906_60.kdb");
    assert_true(json_get_text(json_first(refused), "directory", "")[0] == '/');
}

/* Hashing a package of gigabytes takes seconds. Meanwhile, the write queue must be able to store
 * compiled kernels. */
TEST_F(install, an_install_uses_the_write_queue_only_for_the_rename)
{
    begin_install(f, URL);
    unsigned reads = f->engine.executor.tasks_of[WORK_QUEUE_READ];
    unsigned writes = f->engine.executor.tasks_of[WORK_QUEUE_WRITE];

    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");

    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_READ], reads + 1);
    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_WRITE], writes);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_false(is_installed(f, "gfx90a68.kdb"));
    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_WRITE], writes + 1);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(is_installed(f, "gfx90a68.kdb"));
}

TEST_F(install, a_client_that_leaves_during_the_package_check_installs_nothing)
{
    begin_install(f, URL);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");

    test_caller_leave(&f->admin);
    fake_executor_run_tasks(&f->engine.executor);

    assert_false(is_installed(f, "gfx90a68.kdb"));
    test_caller_connect(&f->admin, &f->engine, 0, ROLE_ADMIN);
}

TEST(install, a_transfer_that_returns_another_name_is_refused)
{
    static const struct {
        const char *question, *name;
        bool is_requested;
    } cases[] = {
        { URL, "gfx90a68.a.kdb", false },
        { URL, "gfx90a68.kd", false },
        { "{\"url\":\"https://h/gfx90a68.a.kdb\",\"name\":\"gfx90a68.kdb\"}", "gfx90a68.a.kdb",
          false },
        { "{\"url\":\"https://h/gfx90a68.a.kdb\",\"name\":\"gfx90a68.kdb\"}", "gfx90a68.kdb",
          true },
        { "{\"url\":\"https://h/a%2Fgfx90a68%2eb.kdb.bz2?x=/gfx90a68.a.kdb\"}", "gfx90a68.b.kdb",
          true },
    };
    struct users *f = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_install(f, cases[i].question);
        fake_executor_transfer(&f->engine.executor, f->file, cases[i].name, "");
        fake_executor_run_tasks(&f->engine.executor);

        assert_int_equal(is_installed(f, cases[i].name), cases[i].is_requested);
        if (!cases[i].is_requested)
            assert_int_equal(reply_error(&f->admin, 0).code, KILN_CORRUPT);
    }
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(install, the_transfer_job_has_url_name_digest_and_limits)
{
    begin_install(f, "{\"url\":\"http://h/x\",\"name\":\"gfx90a.kdb\",\"sha256\":\"00ff\"}");
    const struct transfer_job *job = &fake_executor_next_transfer(&f->engine.executor)->job;
    assert_string_equal(job->url, "http://h/x");
    assert_string_equal(job->name, "gfx90a.kdb");
    assert_string_equal(job->sha256, "00ff");
    assert_string_equal(job->staging, packages_staging(f->engine.engine));
    assert_string_equal(job->trusted_keys, f->engine.keys);
    assert_int_equal(job->size_limit, f->engine.options.package_limit);
    assert_int_equal(job->content_fd, -1);
    assert_int_equal(job->manifest_fd, -1);
    assert_false(job->of_user);
    assert_false(job->require_signature);
    fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "the line is dead");
}

TEST_F(install, an_install_transfers_the_file_of_its_request)
{
    const int files[] = { open_copy(f->file), sealed_file(bytes_of_text("manifest")) };
    test_caller_forget_replies(&f->admin);
    test_caller_send_files(&f->admin, MESSAGE_package_install,
                           "{\"name\":\"gfx90a68.kdb\",\"source\":\"/a/b\"}", files, 2);

    const struct transfer_job *job = &fake_executor_next_transfer(&f->engine.executor)->job;
    assert_null(job->url);
    assert_int_equal(job->content_fd, files[0]);
    assert_int_equal(job->manifest_fd, files[1]);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_string_equal(json_get_text(answer, "source", ""), "/a/b");
}

TEST_F(install, progress_of_an_install_is_forwarded)
{
    begin_install(f, URL);
    fake_executor_transfer_progress(&f->engine.executor, "fetching", 10, 100);
    fake_executor_transfer_progress(&f->engine.executor, "checking", 2, 3);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->admin.reply_count, 3);
    KILN_AUTO(json) struct json *first = reply_json(&f->admin, 0);
    const struct json *progress = json_get(first, "progress");
    assert_string_equal(json_get_text(progress, "stage", ""), "fetching");
    assert_int_equal(json_get_u64(progress, "done", 0), 10);
    assert_int_equal(json_get_u64(progress, "total", 0), 100);
    assert_int_equal(f->admin.replies[0].flags, FRAME_MORE);
    assert_int_equal(f->admin.replies[1].flags, FRAME_MORE);
    assert_int_equal(f->admin.replies[2].flags, 0);
}

TEST_F(install, a_failed_transfer_fails_the_install_with_its_reason)
{
    begin_install(f, URL);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CORRUPT, "row 7 is damaged");
    assert_int_equal(f->admin.reply_count, 1);
    assert_reply_refuses(&f->admin, 0, KILN_CORRUPT, "row 7 is damaged");
    assert_false(is_installed(f, "gfx90a68.kdb"));
}

TEST_F(install, an_invalid_package_is_refused_and_leaves_nothing)
{
    install_package(f, "gfx90a68.kdb");
    struct kiln_err err = KILN_ERR_INIT;
    char junk[200] = { 0 };
    must(fs_replace_file(f->file, bytes_of(junk, sizeof(junk)), 0600, &err), err);

    install_package(f, "gfx90a68.kdb");

    assert_reply_refuses(&f->admin, 0, KILN_CORRUPT, "installing 'gfx90a68.kdb'");
    assert_true(serves_kernel(f, "a.o"));
}

TEST_F(install, an_invalid_package_name_is_refused)
{
    static const char *const names[] = { "kernels.zip", "../gfx90a68.kdb", ".gfx90a68.kdb",
                                         "mi210.kdb" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        install_package(f, names[i]);
        assert_int_equal(reply_error(&f->admin, 0).code, KILN_INVALID);
        assert_int_equal(engine_fixture_staged(&f->engine), 0);
    }
}

TEST_F(install, an_install_needs_either_a_url_or_a_file)
{
    test_caller_refused(&f->admin, MESSAGE_package_install, "{}", KILN_INVALID, "neither");
    const int file = open_copy(f->file);
    test_caller_forget_replies(&f->admin);
    test_caller_send_files(&f->admin, MESSAGE_package_install, URL, &file, 1);
    assert_reply_refuses(&f->admin, 0, KILN_INVALID, "both");
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);
}

TEST_F(install, users_may_list_packages_but_not_change_them)
{
    static const unsigned denied[] = { MESSAGE_package_install, MESSAGE_package_remove,
                                       MESSAGE_package_verify };
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
        test_caller_refused(&f->ann, (enum message_type)denied[i], URL, KILN_DENIED,
                            "administrator");
    json_destroy(test_caller_ask(&f->ann, MESSAGE_package_list, NULL));
    json_destroy(test_caller_ask(&f->ann, MESSAGE_package_coverage, NULL));
}

TEST_F(install, a_request_that_takes_no_files_refuses_them)
{
    const int file = open_copy(f->file);
    test_caller_forget_replies(&f->admin);
    test_caller_send_files(&f->admin, MESSAGE_package_list, "", &file, 1);
    assert_reply_refuses(&f->admin, 0, KILN_INVALID, "'package_list'");
}

TEST_F(install, installs_in_flight_are_limited)
{
    for (uint64_t id = 0; id < 16; id++)
        test_caller_send(&f->admin, MESSAGE_package_install, id, bytes_of_text(URL));
    test_caller_refused(&f->admin, MESSAGE_package_install, URL, KILN_BUSY, "uploads: 16");
    while (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "the line is dead");
    begin_install(f, URL);
    fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "the line is dead");
    assert_reply_refuses(&f->admin, 0, KILN_IO, "the line is dead");
}

TEST_F(install, an_install_without_transfers_is_refused)
{
    const struct executor_ops *all = f->engine.executor.base.ops;
    struct executor_ops some = *all;
    some.transfer = NULL;
    f->engine.executor.base.ops = &some;
    test_caller_refused(&f->admin, MESSAGE_package_install, URL, KILN_UNSUPPORTED, "memory");
    f->engine.executor.base.ops = all;
}

static uint64_t count_transfers(struct users *f, const char *op, const char *result)
{
    char series[120];
    snprintf(series, sizeof(series),
             "kiln_remote_requests_total{tier=\"package\",op=\"%s\",result=\"%s\"}", op, result);
    return test_caller_metric(&f->ann, series);
}

TEST_F(install, a_transfer_is_counted_with_its_result)
{
    begin_install(f, URL);
    assert_int_equal(count_transfers(f, "download", "ok"), 0);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(count_transfers(f, "download", "ok"), 1);

    install_package(f, "gfx90a68.kdb");
    assert_int_equal(count_transfers(f, "download", "ok"), 2);

    begin_install(f, URL);
    fake_executor_transfer_fail(&f->engine.executor, KILN_NOT_FOUND, "the server has none");
    begin_install(f, URL);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CORRUPT, "row 7 is damaged");
    begin_install(f, "{\"url\":\"ftp://example.org/gfx90a68.kdb\"}");
    fake_executor_transfer_fail(&f->engine.executor, KILN_CORRUPT, "row 7 is damaged");
    assert_int_equal(count_transfers(f, "download", "not_found"), 1);
    assert_int_equal(count_transfers(f, "download", "corrupt"), 2);
    assert_int_equal(count_transfers(f, "download", "ok"), 2);
    assert_int_equal(count_transfers(f, "copy", "ok"), 0);
}

TEST_F(install, a_successful_transfer_of_an_invalid_package_counts_as_ok)
{
    install_package(f, "kernels.zip");
    assert_int_equal(count_transfers(f, "download", "ok"), 1);
    assert_int_equal(test_caller_metric(
                         &f->ann, "kiln_requests_total{op=\"package_install\",result=\"invalid\"}"),
                     1);
}

TEST_F(install, an_install_from_a_file_url_counts_as_a_copy)
{
    static const char *const questions[] = { "{\"url\":\"file:///a/gfx90a68.kdb\"}",
                                             "{\"url\":\"FILE:///a/gfx90a68.kdb\"}" };
    for (size_t i = 0; i < 2; i++) {
        begin_install(f, questions[i]);
        fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
        fake_executor_run_tasks(&f->engine.executor);
    }
    assert_int_equal(count_transfers(f, "copy", "ok"), 2);
    assert_int_equal(count_transfers(f, "download", "ok"), 0);
}

TEST_F(install, a_request_that_starts_no_transfer_counts_none)
{
    test_caller_refused(&f->admin, MESSAGE_package_install, "{}", KILN_INVALID, "URL");
    KILN_AUTO(json)
    struct json *page = test_caller_ask(&f->ann, MESSAGE_metrics, NULL);
    assert_null(
        strstr(json_get_text(page, "text", ""),
               "kiln_remote_requests_total{tier=\"package\",op=\"copy\",result=\"invalid\""));
}

TEST_F(install, a_client_that_leaves_during_an_install_cancels_its_transfer)
{
    const int file = open_copy(f->file);
    test_caller_send_files(&f->admin, MESSAGE_package_install, "{\"name\":\"gfx90a68.kdb\"}", &file,
                           1);

    test_caller_leave(&f->admin);

    assert_int_equal(f->engine.executor.transfers_cancelled, 1);
    assert_false(engine_idle(f->engine.engine));
    fake_executor_transfer_progress(&f->engine.executor, "fetching", 1, 2);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "cancelled");
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 0);
    assert_true(uploads_idle(f->engine.engine));
    assert_int_equal(count_transfers(f, "copy", "cancelled"), 1);
}

TEST_F(install, a_client_that_leaves_during_the_rename_gets_no_answer)
{
    begin_install(f, URL);
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
    assert_int_equal(engine_fixture_staged(&f->engine), 1);
    assert_true(fake_executor_run_task(&f->engine.executor));

    test_caller_leave(&f->admin);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->engine.executor.transfers_cancelled, 0);
    assert_int_equal(f->admin.reply_count, 0);
    assert_true(is_installed(f, "gfx90a68.kdb"));
}

TEST_F(install, a_cancelled_install_is_answered_once_and_not_installed)
{
    begin_install(f, URL);
    test_caller_cancel(&f->admin, 3);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "cancelled");
    assert_int_equal(f->admin.reply_count, 1);
    assert_int_equal(reply_error(&f->admin, 0).code, KILN_CANCELLED);

    begin_install(f, URL);
    test_caller_cancel(&f->admin, 3);
    unsigned reads = f->engine.executor.tasks_of[WORK_QUEUE_READ];
    fake_executor_transfer(&f->engine.executor, f->file, "gfx90a68.kdb", "");
    assert_int_equal(engine_fixture_staged(&f->engine), 1);
    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_READ], reads + 1);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    assert_int_equal(f->admin.reply_count, 1);
    assert_false(is_installed(f, "gfx90a68.kdb"));
}

TEST_F(install, a_stopping_daemon_ends_transfers_and_starts_none)
{
    begin_install(f, URL);

    engine_drain(f->engine.engine);

    assert_int_equal(f->engine.executor.transfers_cancelled, 1);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "cancelled");
    assert_int_equal(reply_error(&f->admin, 0).code, KILN_UNAVAILABLE);
    test_caller_refused(&f->admin, MESSAGE_package_install, URL, KILN_UNAVAILABLE, "stopping");
}

TEST_F(install, a_half_uploaded_package_of_an_earlier_daemon_is_removed)
{
    struct kiln_err err = KILN_ERR_INIT;
    char path[200];
    snprintf(path, sizeof(path), "%s/half", packages_staging(f->engine.engine));
    must(fs_replace_file(path, bytes_of_text("half"), 0600, &err), err);
    assert_int_equal(engine_fixture_staged(&f->engine), 1);

    users_reopen(f);

    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(install, packages_are_listed_and_shown_a_page_at_a_time)
{
    install_package(f, "gfx90a68.kdb");
    KILN_AUTO(json)
    struct json *list = test_caller_ask(&f->ann, MESSAGE_package_list, NULL);
    assert_int_equal(json_count(json_get(list, "packages")), 1);
    const struct json *info = json_first(json_get(list, "packages"));
    assert_string_equal(json_get_text(info, "name", ""), "gfx90a68.kdb");
    assert_int_equal(json_get_u64(info, "kernels", 0), ROWS);

    KILN_AUTO(json)
    struct json *page =
        test_caller_ask(&f->ann, MESSAGE_package_show, "{\"name\":\"gfx90a68.kdb\",\"count\":2}");
    assert_int_equal(json_get_u64(page, "kernels", 0), ROWS);
    assert_int_equal(json_count(json_get(page, "rows")), 2);
    assert_string_equal(json_get_text(json_first(json_get(page, "rows")), "name", ""), "a.o");
    assert_string_equal(json_get_text(json_first(json_get(page, "rows")), "args", ""),
                        " -mcpu=gfx90a");
    char next[100];
    snprintf(next, sizeof(next), "{\"name\":\"gfx90a68.kdb\",\"count\":2,\"after\":%u}",
             (unsigned)json_get_u64(page, "next", 0));
    KILN_AUTO(json)
    struct json *rest = test_caller_ask(&f->ann, MESSAGE_package_show, next);
    assert_int_equal(json_count(json_get(rest, "rows")), 1);
    assert_string_equal(json_get_text(json_first(json_get(rest, "rows")), "name", ""), "c.o");
    assert_null(json_get(rest, "next"));
}

TEST_F(install, requests_for_a_missing_package_fail_with_not_found)
{
    static const unsigned types[] = { MESSAGE_package_show, MESSAGE_package_verify,
                                      MESSAGE_package_remove };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        test_caller_refused(&f->admin, (enum message_type)types[i], "{\"name\":\"gfx90a68.kdb\"}",
                            KILN_NOT_FOUND, "gfx90a68.kdb");
}

TEST_F(install, verify_counts_sound_and_damaged_kernels)
{
    install_package(f, "gfx90a68.kdb");
    KILN_AUTO(json)
    struct json *well =
        test_caller_ask(&f->admin, MESSAGE_package_verify, "{\"name\":\"gfx90a68.kdb\"}");
    assert_int_equal(json_get_u64(well, "kernels", 0), ROWS);
    assert_int_equal(json_get_u64(well, "good", 0), ROWS);
    assert_int_equal(json_get_u64(well, "damaged", 9), 0);

    put_package(&f->engine, "gfx90a6e.kdb", rows, ROWS);
    flip_bit(package_path(&f->engine, "gfx90a6e.kdb"), bytes_of_text("the second object"));
    engine_fixture_rescan(&f->engine);
    KILN_AUTO(json)
    struct json *ill =
        test_caller_ask(&f->admin, MESSAGE_package_verify, "{\"name\":\"gfx90a6e.kdb\"}");
    assert_int_equal(json_get_u64(ill, "good", 0), ROWS - 1);
    assert_int_equal(json_get_u64(ill, "damaged", 0), 1);
    assert_says(json_get_text(ill, "first", ""), "b.o");
}

static void damage_a_row(struct users *f)
{
    put_package(&f->engine, "gfx90a68.kdb", rows, ROWS);
    flip_bit(package_path(&f->engine, "gfx90a68.kdb"), bytes_of_text("the first object"));
    engine_fixture_rescan(&f->engine);
    assert_false(serves_kernel(f, "a.o"));
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(users_stat(f, "store_quarantined"), 1);
}

TEST_F(install, reinstalling_a_package_repairs_it_and_forgets_its_damage)
{
    damage_a_row(f);

    install_package(f, "gfx90a68.kdb");

    assert_true(serves_kernel(f, "a.o"));
    assert_int_equal(users_stat(f, "store_quarantined"), 0);
}

TEST_F(install, removing_a_package_forgets_its_damage)
{
    damage_a_row(f);

    json_destroy(test_caller_ask(&f->admin, MESSAGE_package_remove, "{\"name\":\"gfx90a68.kdb\"}"));

    assert_int_equal(users_stat(f, "store_quarantined"), 0);
}

TEST_F(install, one_package_is_verified_at_a_time_even_if_its_client_leaves)
{
    install_package(f, "gfx90a68.kdb");
    test_caller_forget_replies(&f->admin);
    static const char question[] = "{\"name\":\"gfx90a68.kdb\"}";
    test_caller_send(&f->admin, MESSAGE_package_verify, 1, bytes_of_text(question));
    test_caller_send(&f->admin, MESSAGE_package_verify, 2, bytes_of_text(question));
    assert_reply_refuses(&f->admin, 0, KILN_BUSY, "verifications of");

    test_caller_leave(&f->admin);
    fake_executor_run_tasks(&f->engine.executor);

    test_caller_connect(&f->admin, &f->engine, 0, ROLE_ADMIN);
    json_destroy(test_caller_ask(&f->admin, MESSAGE_package_verify, question));
}

TEST_F(install, a_removed_package_serves_no_more)
{
    install_package(f, "gfx90a68.kdb");
    assert_true(serves_kernel(f, "a.o"));
    KILN_AUTO(json)
    struct json *gone =
        test_caller_ask(&f->admin, MESSAGE_package_remove, "{\"name\":\"gfx90a68.kdb\"}");
    assert_string_equal(json_get_text(gone, "name", ""), "gfx90a68.kdb");
    assert_false(serves_kernel(f, "a.o"));
    assert_false(is_installed(f, "gfx90a68.kdb"));
    assert_string_equal(engine_fixture_reported(&f->engine, "package_removed"), "gfx90a68.kdb");
}

/* SPDX-License-Identifier: MIT */

/* kilnctl miopen overlay and harvest with a fake libkiln. */
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include <time.h>

struct fixture {
    struct command_run run;
    struct scratch_directory directory;
    struct reported reported;
    char out[512], text[4096];
};

static void prepare(struct fixture *f)
{
    memset(&fake, 0, sizeof(fake));
    fake_transfer_is_here = false;
    scratch_path(&f->directory, "out", f->out);
}

SCRATCH_FIXTURE(kilnctl_miopen, prepare);

/* ---- overlay ---- */

#define FILE_ENTRY(name, records) \
    "{\"files\":[{\"name\":\"" name "\",\"records\":" #records ",\"bytes\":1}]}"
#define USER_FIND "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"

/* Sets the answers of a kilnd that has records and kernels of every kind. */
static void answer_all(void)
{
    fake.answers[0] = (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.HIP.fdb.txt", 9),
                                            .files = { "a=1\n" } };
    fake.answers[1] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.db", 8), .files = { "perf" } };
    fake.answers[2] =
        (struct fake_answer){ .reply = FILE_ENTRY(USER_FIND, 2), .files = { "k1=1\nk2=2\n" } };
    fake.answers[3] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68_1.1.0.udb", 1), .files = { "udb" } };
    fake.answers[4] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68@2.17.0.a82233c22.ukdb\",\"descriptor\":0,"
                 "\"kernels\":3}]}",
        .files = { "kernels" }
    };
    fake.answers[5].reply = "{\"packages\":[]}";
}

#define OVERLAY(f, ...) \
    run_overlay((f), (const char *[]){ "miopen", "overlay", (f)->out, __VA_ARGS__, NULL })

static int run_overlay(struct fixture *f, const char *const *words)
{
    int count = 0;
    while (words[count])
        count++;
    fake.asked = 0;
    reported_begin(&f->reported);
    int rc = command_run(&f->run, count, words);
    reported_end(&f->reported);
    return rc;
}

static void overlay_all(struct fixture *f)
{
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0.a82233c22"), KILN_E_OK);
    assert_int_equal(fake.asked, 6);
}

static const char *out_text(struct fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "out/%s", name);
    return scratch_read(&f->directory, path, f->text, sizeof(f->text));
}

TEST_F(kilnctl_miopen, an_overlay_has_all_that_kilnd_has_where_miopen_looks)
{
    overlay_all(f);

    assert_string_equal(fake.requests[0],
                        "tuning_export {\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"tier\":"
                        "\"host\",\"merged\":true,\"dialect\":\"old\"}");
    assert_string_equal(fake.requests[1],
                        "tuning_export {\"kind\":\"perf\",\"database_id\":\"gfx90a68\",\"tier\":"
                        "\"host\",\"merged\":true,\"format\":\"sqlite\"}");
    assert_string_equal(fake.requests[2],
                        "tuning_export {\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"tier\":"
                        "\"user\",\"dialect\":\"old\",\"version\":\"2.17.0.a82233c22\"}");
    assert_string_equal(fake.requests[3],
                        "tuning_export {\"kind\":\"perf\",\"database_id\":\"gfx90a68\",\"tier\":"
                        "\"user\",\"format\":\"sqlite\",\"version\":\"2.17.0.a82233c22\"}");
    assert_string_equal(fake.requests[4],
                        "kernel_export {\"format\":\"ukdb\",\"database_id\":\"gfx90a68\","
                        "\"version\":\"2.17.0.a82233c22\"}");
    assert_string_equal(out_text(f, "system/gfx90a68.HIP.fdb.txt"), "a=1\n");
    assert_string_equal(out_text(f, "system/gfx90a68.db"), "perf");
    assert_string_equal(out_text(f, "user/" USER_FIND), "k1=1\nk2=2\n");
    assert_string_equal(out_text(f, "user/gfx90a68_1.1.0.udb"), "udb");
    assert_string_equal(out_text(f, "cache/gfx90a68.ukdb"), "kernels");
}

TEST_F(kilnctl_miopen, an_overlay_prints_the_variables_to_set_and_nothing_else)
{
    char expected[2048];
    overlay_all(f);
    KILN_AUTO(mem) char *real = realpath(f->out, NULL);
    assert_non_null(real);
    snprintf(expected, sizeof(expected),
             "export MIOPEN_SYSTEM_DB_PATH=%s/system\nexport MIOPEN_USER_DB_PATH=%s/user\n"
             "export MIOPEN_CUSTOM_CACHE_DIR=%s/cache\n",
             real, real, real);
    assert_string_equal(f->run.printed, expected);
    assert_says(f->reported.text, "/system/gfx90a68.db: 8");
    assert_says(f->reported.text, "/cache/gfx90a68.ukdb: 3");
}

TEST_F(kilnctl_miopen, a_path_that_a_shell_would_split_is_quoted)
{
    scratch_path(&f->directory, "it's mine", f->out);
    overlay_all(f);
    assert_says(f->run.printed, "export MIOPEN_USER_DB_PATH='/");
    assert_says(f->run.printed, "/it'\\''s mine/user'\n");
}

TEST_F(kilnctl_miopen, an_overlay_as_json_lists_variables_files_and_remarks)
{
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0.a82233c22", "--json"),
                     KILN_E_OK);
    assert_says(f->run.printed, "\"variables\":{\"MIOPEN_SYSTEM_DB_PATH\":\"/");
    assert_says(f->run.printed, "{\"file\":\"cache/gfx90a68.ukdb\",\"kernels\":3}");
    assert_says(f->run.printed, "\"remarks\":[]}");
}

/* An empty directory would hide MIOpen's own databases from it. */
TEST_F(kilnctl_miopen, miopen_keeps_its_own_databases_if_kilnd_has_none)
{
    for (int i = 0; i < 4; i++)
        fake.answers[i].reply = "{\"files\":[]}";
    fake.answers[2].reply = NULL;
    fake.answers[2].code = KILN_E_NOT_FOUND;
    fake.answers[4].code = KILN_E_NOT_FOUND;
    fake.answers[5].code = KILN_E_NOT_FOUND;
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0"), KILN_E_OK);
    assert_null(strstr(f->run.printed, "MIOPEN_SYSTEM_DB_PATH"));
    assert_says(f->run.printed, "export MIOPEN_USER_DB_PATH=");
    assert_says(f->reported.text, "no tuning");
    assert_says(f->reported.text, "gfx90a68");
    assert_says(fake.requests[0], "\"dialect\":\"new\"");
    assert_says(fake.requests[1], "\"format\":\"text\"");
}

TEST_F(kilnctl_miopen, a_kind_that_kilnd_lacks_is_reported)
{
    answer_all();
    fake.answers[1] = (struct fake_answer){ .reply = "{\"files\":[]}" };
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    assert_says(f->reported.text, "PerfDb");
    assert_says(f->reported.text, "gfx90a68");
    assert_says(f->reported.text, "db import");
}

TEST_F(kilnctl_miopen, without_a_version_the_users_find_db_is_in_the_systems_file)
{
    fake.answers[0] = (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.HIP.3_2_0_x.ufdb.txt", 9),
                                            .files = { "a=1\n" } };
    fake.answers[1].reply = "{\"files\":[]}";
    fake.answers[2].reply = "{\"files\":[]}";
    fake.answers[3] = (struct fake_answer){ .code = KILN_E_INVALID };
    fake.answers[4] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"descriptor\":0,\"kernels\":1}]}",
        .files = { "of none" }
    };
    fake.answers[5].reply = "{\"packages\":[]}";
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_export {\"kind\":\"find\",\"database_id\":"
                                          "\"gfx90a68\",\"tier\":\"user\",\"merged\":true}");
    assert_string_equal(out_text(f, "system/gfx90a68.HIP.fdb.txt"), "a=1\n");
    assert_string_equal(out_text(f, "cache/gfx90a68.ukdb"), "of none");
    assert_says(f->reported.text, "--miopen");
}

TEST_F(kilnctl_miopen, an_installed_package_is_linked_where_miopen_can_read_it)
{
    char reply[1200], package[512], target[512];
    char head[] = "SQLite format 3_\020_\001\001___";
    scratch_write(&f->directory, "p.kdb", head);
    snprintf(reply, sizeof(reply),
             "{\"packages\":[{\"format\":\"kiln\",\"database_id\":\"gfx90a68\",\"path\":\"/x\"},"
             "{\"format\":\"kdb\",\"database_id\":\"gfx90a68\",\"path\":\"%s\",\"kernels\":5}]}",
             scratch_path(&f->directory, "p.kdb", package));
    answer_all();
    fake.answers[5].reply = reply;
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    char link[600];
    snprintf(link, sizeof(link), "%s/system/gfx90a68.kdb", f->out);
    ssize_t size = readlink(link, target, sizeof(target) - 1);
    assert_true(size > 0);
    target[size] = '\0';
    assert_string_equal(target, package);
}

TEST_F(kilnctl_miopen, a_package_that_miopen_cannot_read_is_omitted_and_reported)
{
    char reply[1200], package[512];
    char head[] = "SQLite format 3_\020_\002\002___"; /* the 2s say: in WAL mode */
    scratch_write(&f->directory, "p.kdb", head);
    snprintf(reply, sizeof(reply),
             "{\"packages\":[{\"format\":\"kdb\",\"database_id\":\"gfx90a68\",\"path\":\"%s\"}]}",
             scratch_path(&f->directory, "p.kdb", package));
    answer_all();
    fake.answers[5].reply = reply;
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    assert_says(f->reported.text, "p.kdb'");
    assert_false(scratch_has(&f->directory, "out/system/gfx90a68.kdb"));
}

TEST_F(kilnctl_miopen, an_overlay_without_a_device_covers_those_of_the_host)
{
    fake.answers[0].reply =
        "{\"gpus\":[{\"database_id\":\"gfx906_60\"},{\"database_id\":\"gfx906_60\"}]}";
    for (int i = 1; i < 4; i++)
        fake.answers[i].reply = "{\"files\":[]}";
    fake.answers[4].code = KILN_E_NOT_FOUND;
    assert_int_equal(OVERLAY(f, NULL), KILN_E_OK);
    assert_int_equal(fake.asked, 5);
    assert_says(fake.requests[1], "\"database_id\":\"gfx906_60\"");
    fake.answers[0].reply = "{\"gpus\":[]}";
    assert_int_equal(OVERLAY(f, NULL), KILN_E_INVALID);
    assert_says(f->run.err.text, "--db-id");
}

TEST_F(kilnctl_miopen, an_overlay_does_not_replace_another_without_force)
{
    overlay_all(f);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_IO);
    assert_says(f->run.err.text, "miopen harvest");
    assert_int_equal(fake.asked, 0);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0", "--force"), KILN_E_OK);
}

TEST_F(kilnctl_miopen, an_invalid_device_or_miopen_version_is_refused)
{
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68,../x"), KILN_E_INVALID);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68,"), KILN_E_INVALID);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68,sm_90_132"), KILN_E_INVALID);
    assert_says(f->run.err.text, "'sm_90_132'");
    assert_int_equal(OVERLAY(f, "--db-id", "opencl_1a2b3c4d"), KILN_E_INVALID);
    assert_says(f->run.err.text, "'opencl_1a2b3c4d'");
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "new"), KILN_E_INVALID);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0/.."), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
    assert_false(scratch_has(&f->directory, "out"));
}

TEST_F(kilnctl_miopen, an_export_refuses_a_name_that_is_not_a_tuning_file)
{
    answer_all();
    fake.answers[0].reply = FILE_ENTRY("../../x.db", 1);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_CORRUPT);
    fake.answers[0].reply = FILE_ENTRY("passwd", 1);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_CORRUPT);
}

TEST_F(kilnctl_miopen, a_file_that_miopen_does_not_read_is_skipped_without_failure)
{
    answer_all();
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.CUDA.fdb.txt\",\"backend\":\"CUDA\","
                 "\"records\":1,\"bytes\":1},{\"name\":\"gfx90a68.OpenCL.fdb.txt\","
                 "\"backend\":\"OpenCL\",\"records\":1,\"bytes\":1}]}",
        .files = { "of CUDA\n", "of OpenCL\n" }
    };
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    assert_false(scratch_has(&f->directory, "out/system/gfx90a68.CUDA.fdb.txt"));
    assert_string_equal(out_text(f, "system/gfx90a68.OpenCL.fdb.txt"), "of OpenCL\n");
}

/* ---- harvest ---- */

#define TAKEN                                                                                \
    "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":\"user\"," \
    "\"records\":1,\"entries\":1,\"added\":1,\"bad\":0}"

static int run_harvest(struct fixture *f)
{
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = TAKEN;
    fake.answers[1].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0}";
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "miopen", "harvest", f->out);
    reported_end(&f->reported);
    return rc;
}

TEST_F(kilnctl_miopen, harvest_takes_only_new_lines_of_a_find_db)
{
    overlay_all(f);
    scratch_write(&f->directory, "out/user/" USER_FIND, "k3=3\nk1=1\n\nk2=changed\nk4=unfin");

    assert_int_equal(run_harvest(f), KILN_E_OK);

    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.requests[0],
                        "tuning_merge {\"name\":\"" USER_FIND "\",\"tier\":\"user\"}");
    assert_string_equal(fake.sent[0][0], "k3=3\n\n\nk2=changed\n");
    assert_says(f->run.printed, ".ufdb.txt: 1");
    assert_says(f->run.printed, "find HIP");
}

/* kilnd receives only the new lines. Line numbers in messages must still be those of the job's
 * file. */
TEST_F(kilnctl_miopen, bad_lines_are_reported_with_their_numbers_in_the_jobs_file)
{
    char expected[800];
    overlay_all(f);
    scratch_write(&f->directory, "out/user/" USER_FIND, "k1=1\nk2=2\nrubbish\n");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"kind\":\"find\",\"records\":0,\"bad\":1}",
        .progress = { "{\"bad\":[{\"line\":3,\"why\":\"no '='\"}]}" },
    };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "miopen", "harvest", f->out);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_string_equal(fake.sent[0][0], "\n\nrubbish\n");
    snprintf(expected, sizeof(expected), "%s/user/" USER_FIND ":3: no '='\n", f->out);
    assert_says(f->reported.text, expected);
    assert_int_equal(run_harvest(f), KILN_E_OK); /* the same bad line is reported only once */
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_miopen, collected_records_are_not_collected_again)
{
    overlay_all(f);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "nothing new\n");

    scratch_write(&f->directory, "out/user/" USER_FIND, "k1=1\nk3=3\n");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);

    scratch_write(&f->directory, "out/user/" USER_FIND, "k1=1\nk3=3\nk5=555\n");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_string_equal(fake.sent[0][0], "\n\nk5=555\n");
}

TEST_F(kilnctl_miopen, collected_records_that_kilnd_refused_are_offered_again)
{
    overlay_all(f);
    scratch_write(&f->directory, "out/user/" USER_FIND, "k9=9\n");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_UNAVAILABLE);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_string_equal(fake.sent[0][0], "k9=9\n");
}

TEST_F(kilnctl_miopen, files_of_another_miopen_count_as_entirely_new)
{
    overlay_all(f);
    scratch_write(&f->directory, "out/user/gfx90a68.HIP.2_18_0_x.ufdb.txt", "k1=1\n");
    scratch_write(&f->directory, "out/user/gfx90a68.HIP.2_18_0_x.ufdb.txt.time", "12345");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "\"gfx90a68.HIP.2_18_0_x.ufdb.txt\"");
    assert_string_equal(fake.sent[0][0], "k1=1\n");
}

TEST_F(kilnctl_miopen, new_kernels_are_imported_for_the_jobs_miopen_version)
{
    char expected[900];
    overlay_all(f);
    scratch_write(&f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    snprintf(expected, sizeof(expected),
             "kernel_import {\"name\":\"gfx90a68.ukdb\",\"source\":\"%s/cache/gfx90a68.ukdb\","
             "\"version\":\"2.17.0.a82233c22\"}",
             f->out);
    assert_string_equal(fake.requests[0], expected);
    assert_string_equal(fake.sent[0][0], "more kernels");
    assert_says(f->run.printed, "/cache/gfx90a68.ukdb: 31");
}

TEST_F(kilnctl_miopen, a_perf_db_with_a_log_counts_as_changed)
{
    overlay_all(f);
    fake_transfer_is_here = true;
    setenv(FAKE_TRANSFER, "merge", 1);
    scratch_write(&f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "log");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT); /* the fake's note reports a lost page */
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "tuning_merge {\"name\":\"gfx90a68_1.1.0.udb\"");
    assert_says(f->run.err.text, "one?page");
}

TEST_F(kilnctl_miopen, damaged_kernels_are_reported_and_the_others_are_imported)
{
    overlay_all(f);
    scratch_write(&f->directory, "out/user/" USER_FIND, "k9=9\n");
    scratch_write(&f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = TAKEN;
    fake.answers[1].reply = "{\"imported\":31,\"damaged\":2,\"lost\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out, "--json"), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "31 kernels");
    assert_says(f->run.err.text, "damaged");
    assert_says(f->run.printed, "\"file\":\"user/" USER_FIND "\"}");
    assert_says(f->run.printed, "\"imported\":31,");
    assert_true(f->run.reported);
}

/* The job may have replaced the file by anything. */
TEST_F(kilnctl_miopen, harvest_neither_waits_for_a_fifo_nor_follows_a_link)
{
    char path[600], other[600];
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/user/" USER_FIND, f->out);
    snprintf(other, sizeof(other), "%s/elsewhere", f->out);
    scratch_write(&f->directory, "out/elsewhere", "k9=9\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(run_harvest(f), KILN_E_INVALID);
    assert_says(f->run.err.text, "regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_not_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_miopen, harvest_refuses_a_directory_that_is_not_an_overlay)
{
    assert_int_equal(run_harvest(f), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "miopen overlay");
    assert_int_equal(mkdir(f->out, 0700), 0);
    assert_int_equal(run_harvest(f), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_miopen, a_damaged_manifest_is_reported)
{
    static const char *const texts[] = {
        "{",
        "{\"layout\":2}",
        "{\"layout\":1,\"files\":[{}]}",
        "{\"layout\":1,\"files\":[{\"name\":\"a\",\"lines\":\"xyz\"}]}",
        "{\"layout\":1,\"files\":[{\"name\":\"a\",\"lines\":\"0123\"}]}",
        "{\"layout\":1,\"files\":[{\"name\":\"a\"},{\"name\":\"a\"}]}",
    };
    overlay_all(f);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        scratch_write(&f->directory, "out/.kiln-overlay.json", texts[i]);
        assert_int_equal(run_harvest(f), KILN_E_CORRUPT);
        assert_says(f->run.err.text, ".kiln-overlay.json");
        assert_int_equal(fake.asked, 0);
    }
}

/* ---- unchanged files ---- */

/* Makes the file |age_s| older. A real job takes longer than a test, so its files have older
 * times. */
static void set_age(struct fixture *f, const char *name, time_t age_s)
{
    char path[600];
    const struct timespec at = { .tv_sec = time(NULL) - age_s };
    const struct timespec times[2] = { at, at };
    snprintf(path, sizeof(path), "%s/%s", f->out, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void an_hour_passes(struct fixture *f)
{
    static const char *const names[] = { "user/" USER_FIND, "user/gfx90a68_1.1.0.udb",
                                         "cache/gfx90a68.ukdb" };
    for (size_t i = 0; i < 3; i++)
        set_age(f, names[i], 3600);
}

TEST_F(kilnctl_miopen, an_unchanged_file_is_not_sent_and_is_reported_as_unchanged)
{
    overlay_all(f);

    assert_int_equal(run_harvest(f), KILN_E_OK);

    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "/user/gfx90a68_1.1.0.udb: unchanged\n");
    assert_says(f->run.printed, "/cache/gfx90a68.ukdb: unchanged\n");
    assert_says(f->run.printed, "/user/" USER_FIND ": unchanged\n");
    assert_says(f->run.printed, "nothing new");
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out, "--json"), KILN_E_OK);
    assert_says(f->run.printed, "{\"files\":[],\"unchanged\":[\"user/");
}

TEST_F(kilnctl_miopen, a_file_that_was_only_touched_is_not_sent)
{
    overlay_all(f);
    an_hour_passes(f); /* the times differ from those in the manifest */
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "/cache/gfx90a68.ukdb: unchanged\n");
}

TEST_F(kilnctl_miopen, a_file_with_another_inode_counts_as_changed)
{
    char path[600], other[600];
    struct stat seen;
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/cache/gfx90a68.ukdb", f->out);
    snprintf(other, sizeof(other), "%s/cache/new", f->out);
    assert_int_equal(stat(path, &seen), 0);
    scratch_write(&f->directory, "out/cache/new", "KERNELS");
    const struct timespec times[2] = { seen.st_mtim, seen.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0);
    assert_int_equal(rename(other, path), 0);
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0}";

    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);

    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.sent[0][0], "KERNELS");
}

/* A change within one tick of the filesystem's clock shows only in the content. */
TEST_F(kilnctl_miopen, harvest_detects_a_change_with_the_same_size_and_time)
{
    char path[600];
    struct stat seen;
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/cache/gfx90a68.ukdb", f->out);
    scratch_write(&f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(stat(path, &seen), 0);
    scratch_write(&f->directory, "out/cache/gfx90a68.ukdb", "MORE KERNELS");
    const struct timespec times[2] = { seen.st_mtim, seen.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    fake.asked = 0;

    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);

    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.sent[0][0], "MORE KERNELS");
    fake.asked = 0;
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
}

/* A killed job leaves a write-ahead log. A database that was sent with this log is not sent
 * again. */
TEST_F(kilnctl_miopen, a_database_with_an_unchanged_log_is_not_sent_again)
{
    overlay_all(f);
    fake_transfer_is_here = true;
    setenv(FAKE_TRANSFER, "merge", 1);
    scratch_write(&f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "log");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT); /* the fake's note reports a lost page */
    assert_int_equal(fake.asked, 1);

    assert_int_equal(run_harvest(f), KILN_E_OK);

    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "/user/gfx90a68_1.1.0.udb: unchanged\n");
    scratch_write(&f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "more");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT);
    assert_int_equal(fake.asked, 1);
}

/* Without a recorded fingerprint, a file counts as changed. */
TEST_F(kilnctl_miopen, a_manifest_without_times_or_digests_makes_every_file_new)
{
    overlay_all(f);
    an_hour_passes(f);
    scratch_write(&f->directory, "out/.kiln-overlay.json",
                  "{\"layout\":1,\"files\":[{\"name\":\"cache/gfx90a68.ukdb\",\"digest\":\"12\","
                  "\"file\":{\"size\":7,\"s\":\"-1\"}}]}");
    memset(&fake, 0, sizeof(fake));
    for (int i = 0; i < 3; i++)
        fake.answers[i].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0,\"bad\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 3);
}

/* ---- permissions ---- */

static mode_t mode_of(struct fixture *f, const char *name)
{
    char path[600];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/%s", f->out, name);
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_mode & 0777;
}

static void expect_modes(struct fixture *f, mode_t directory, mode_t file)
{
    static const char *const directories[] = { "system", "user", "cache" };
    static const char *const files[] = {
        "system/gfx90a68.HIP.fdb.txt", "system/gfx90a68.db",  "user/" USER_FIND,
        "user/gfx90a68_1.1.0.udb",     "cache/gfx90a68.ukdb", ".kiln-overlay.json"
    };
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        assert_int_equal(mode_of(f, directories[i]), directory);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_int_equal(mode_of(f, files[i]), file);
}

TEST_F(kilnctl_miopen, only_its_user_may_read_an_overlay)
{
    mode_t mask = umask(022);
    overlay_all(f);
    assert_int_equal(mode_of(f, "."), 0700);
    expect_modes(f, 0700, 0600);
    scratch_write(&f->directory, "out/user/" USER_FIND, "k9=9\n");
    assert_int_equal(chmod(f->out, 0700), 0);
    assert_int_equal(run_harvest(f), KILN_E_OK); /* writes the manifest again */
    assert_int_equal(mode_of(f, ".kiln-overlay.json"), 0600);
    umask(mask);
}

TEST_F(kilnctl_miopen, an_overlay_is_readable_by_others_only_with_shared)
{
    mode_t mask = umask(027);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0.a82233c22", "--shared"),
                     KILN_E_OK);
    expect_modes(f, 0750, 0640);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(mode_of(f, ".kiln-overlay.json"), 0640);
    umask(mask);
}

/* The parts of the overlay are private, too; other content of the directory belongs to the user. */
TEST_F(kilnctl_miopen, an_existing_overlay_directory_keeps_its_mode_and_its_parts_are_private)
{
    char user[600];
    snprintf(user, sizeof(user), "%s/user", f->out);
    assert_int_equal(mkdir(f->out, 0700) | chmod(f->out, 0755), 0);
    assert_int_equal(mkdir(user, 0700) | chmod(user, 0755), 0);
    overlay_all(f);
    assert_int_equal(mode_of(f, "."), 0755);
    expect_modes(f, 0700, 0600);
}

TEST_F(kilnctl_miopen, a_part_that_is_a_link_is_not_followed)
{
    char user[600];
    snprintf(user, sizeof(user), "%s/user", f->out);
    assert_int_equal(mkdir(f->out, 0700), 0);
    assert_int_equal(symlink(f->directory.path, user), 0);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_IO);
    assert_says(f->run.err.text, "directory");
    assert_int_equal(fake.asked, 0);
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}

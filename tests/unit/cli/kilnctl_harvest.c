/* SPDX-License-Identifier: MIT */

#include "tests/support/failing_calls.h"
#include "tests/unit/cli/overlay_fixture.h"

#include <errno.h>

FIXTURE(kilnctl_harvest, set_up, NULL);

TEST_F(kilnctl_harvest, harvest_takes_only_new_lines_of_a_find_db)
{
    overlay_all(f);
    scratch_write(f->directory, "out/user/" USER_FIND, "k3=3\nk1=1\n\nk2=changed\nk4=unfin");

    assert_int_equal(run_harvest(f), KILN_E_OK);

    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.requests[0],
                        "tuning_merge {\"name\":\"" USER_FIND "\",\"tier\":\"user\"}");
    assert_string_equal(fake.sent[0][0], "k3=3\n\n\nk2=changed\n");
    assert_says(f->run.printed, ".ufdb.txt: 1");
    assert_says(f->run.printed, "find HIP");
    assert_says(f->run.printed,
                "MIOpen searched for 2 problems without a find record:\n    k3\n    k2\n");
    f->run.common.json = true;
    scratch_write(f->directory, "out/user/" USER_FIND, "k3=3\nk5=5\n");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_says(f->run.printed, "\"searched\":[\"k5\"]");
    assert_says(f->run.printed, "\"searched_count\":1");
}

TEST_F(kilnctl_harvest, of_many_files_only_some_are_printed)
{
    char name[80], path[512];
    overlay_all(f);
    for (unsigned i = 0; i < 150; i++) { /* dangling links, which cannot be read */
        snprintf(name, sizeof(name), "out/user/gfx90a%u.HIP.2_17_0_a82233c22.ufdb.txt", i + 100);
        assert_int_equal(symlink("absent", scratch_path(f->directory, name, path)), 0);
    }
    memset(&fake, 0, sizeof(fake));
    reported_begin(&f->reported);
    (void)RUN(&f->run, "miopen", "harvest", f->out);
    reported_end(&f->reported);
    assert_says(f->reported.text, "129 more failures; --json lists all\n");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_harvest, bad_lines_are_reported_with_their_numbers_in_the_jobs_file)
{
    char expected[800];
    overlay_all(f);
    scratch_write(f->directory, "out/user/" USER_FIND, "k1=1\nk2=2\nrubbish\n");
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
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_harvest, collected_records_are_not_collected_again)
{
    overlay_all(f);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "nothing new\n");

    scratch_write(f->directory, "out/user/" USER_FIND, "k1=1\nk3=3\n");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);

    scratch_write(f->directory, "out/user/" USER_FIND, "k1=1\nk3=3\nk5=555\n");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_string_equal(fake.sent[0][0], "\n\nk5=555\n");
}

TEST_F(kilnctl_harvest, collected_records_that_kilnd_refused_are_offered_again)
{
    overlay_all(f);
    scratch_write(f->directory, "out/user/" USER_FIND, "k9=9\n");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_UNAVAILABLE);
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_string_equal(fake.sent[0][0], "k9=9\n");
}

static void expect_collected(const struct miopen_file *file, const char *name)
{
    char expected[300];
    snprintf(expected, sizeof(expected), "%s {\"name\":\"%s\"",
             file->content == MIOPEN_KERNELS ? "kernel_import" : "tuning_merge", name);
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], expected);
    assert_string_equal(fake.sent[0][0], "k9=9\n");
}

TEST_F(kilnctl_harvest, every_result_of_every_miopen_is_collected)
{
    overlay_all(f);
    for (size_t i = 0; i < miopen_file_count; i++) {
        const struct miopen_file *file = &miopen_files[i];
        char name[128], path[512], below[160];
        if (file->place == MIOPEN_SYSTEM)
            continue;
        snprintf(below, sizeof(below), "out/%s/%s", file->place == MIOPEN_USER ? "user" : "cache",
                 example(file, name));
        scratch_write(f->directory, below, "k9=9\n");
        memset(&fake, 0, sizeof(fake));
        fake.answers[0].reply =
            file->content == MIOPEN_KERNELS ? "{\"imported\":31,\"damaged\":0}" : TAKEN;
        if (RUN(&f->run, "miopen", "harvest", f->out) != KILN_E_OK)
            fail_msg("'%s': %s", name, f->run.err.text);
        if (file->content == MIOPEN_TRANSIENT)
            assert_int_equal(fake.asked, 0);
        else
            expect_collected(file, name);
        assert_int_equal(strstr(f->run.printed, "nothing new") != NULL, fake.asked == 0);
        assert_int_equal(unlink(scratch_path(f->directory, below, path)), 0);
    }
}

TEST_F(kilnctl_harvest, kernels_below_a_version_are_those_of_that_miopen)
{
    static const char *const directories[] = { "3.5.1.1a2b3c4d5", "3.5.2." };
    static const char *const versions[] = { "\"3.5.1.1a2b3c4d5\"", "\"3.5.2\"" };
    overlay_all(f);
    for (size_t i = 0; i < 2; i++) {
        char path[512], below[100];
        snprintf(below, sizeof(below), "out/cache/%s", directories[i]);
        assert_int_equal(mkdir(scratch_path(f->directory, below, path), 0700), 0);
        strcat(below, "/gfx90a68.ukdb");
        scratch_write(f->directory, below, "more kernels");
        memset(&fake, 0, sizeof(fake));
        fake.answers[0].reply = "{\"imported\":31,\"damaged\":0}";
        assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
        assert_int_equal(fake.asked, 1);
        assert_says(fake.requests[0], versions[i]);
        assert_string_equal(fake.sent[0][0], "more kernels");
    }
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
}

/* The job's directory is usually removed after a harvest that reports no failure. */
TEST_F(kilnctl_harvest, a_directory_that_cannot_be_read_to_its_end_is_a_loss)
{
    char path[512];
    unsigned nth = 1;
    overlay_all(f);
    assert_int_equal(mkdir(scratch_path(f->directory, "out/cache/3.5.2.", path), 0700), 0);
    scratch_write(f->directory, "out/cache/3.5.2./gfx90a68.ukdb", "more kernels");
    fail_call("lstat", 1, EIO);
    assert_int_equal(run_harvest(f), KILN_E_IO);
    for (bool failed = true; failed; nth++) {
        fail_call("readdir", nth, EIO);
        int rc = run_harvest(f);
        failed = calls_failed();
        assert_int_equal(rc, failed ? KILN_E_IO : KILN_E_OK);
        if (failed)
            assert_says(f->run.err.text, "cannot read");
    }
    assert_true(nth > 3);
}

TEST_F(kilnctl_harvest, kernels_behind_the_link_of_a_version_are_collected_once)
{
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.5.0.1a2b3c4d5"), KILN_E_OK);
    scratch_write(f->directory, "out/cache/3.5.0.1a2b3c4d5/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "\"3.5.0.1a2b3c4d5\"");
}

TEST_F(kilnctl_harvest, a_file_like_miopens_that_was_not_read_is_a_loss)
{
    static const char *const names[] = {
        "user/gfx90a68.HIP.3_9_0_1.newer.ufdb.txt", "user/layernorm_gfx90a68.HIP.3_9_0_1.udb.txt",
        "user/gfx999_60_1.1.0.udb", "user/gfx90a68.HIP.3_2_0_1.udb.txt.bz2", "cache/gfx90a68.kdb"
    };
    overlay_all(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char below[100], path[512];
        snprintf(below, sizeof(below), "out/%s", names[i]);
        scratch_write(f->directory, below, "k9=9\n");
        assert_int_equal(run_harvest(f), KILN_E_UNSUPPORTED);
        assert_int_equal(fake.asked, 0);
        assert_says(f->run.printed, names[i]);
        assert_null(strstr(f->run.printed, "nothing new"));
        assert_int_equal(unlink(scratch_path(f->directory, below, path)), 0);
    }
    assert_int_equal(run_harvest(f), KILN_E_OK);
}

TEST_F(kilnctl_harvest, kernels_that_a_miopen_without_sqlite_leaves_are_a_loss)
{
    char path[512];
    overlay_all(f);
    scratch_path(f->directory, "out/cache/0123456789abcdef0123456789abcdef", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(run_harvest(f), KILN_E_UNSUPPORTED);
    assert_says(f->run.printed, "cache/0123456789abcdef0123456789abcdef");
}

TEST_F(kilnctl_harvest, any_other_name_is_listed_without_a_failure)
{
    overlay_all(f);
    scratch_write(f->directory, "out/user/notes", "mine");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_says(f->run.printed, "/user/notes");
    assert_null(strstr(f->run.printed, "nothing new"));
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out, "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"unknown\":[\"user/notes\"]");
    assert_says(f->run.printed, "\"unknown_count\":1");
}

TEST_F(kilnctl_harvest, a_thousand_unknown_names_take_few_lines)
{
    unsigned lines = 0;
    overlay_all(f);
    for (int i = 0; i < 1000; i++) {
        char name[64];
        snprintf(name, sizeof(name), "out/user/file%d", i);
        scratch_write(f->directory, name, "");
    }
    assert_int_equal(run_harvest(f), KILN_E_OK);
    for (const char *at = f->run.printed; (at = strchr(at, '\n')); at++)
        lines++;
    assert_true(lines < 40);
    assert_says(f->run.printed, "980");
}

TEST_F(kilnctl_harvest, files_of_another_miopen_count_as_entirely_new)
{
    overlay_all(f);
    scratch_write(f->directory, "out/user/gfx90a68.HIP.2_18_0_x.ufdb.txt", "k1=1\n");
    scratch_write(f->directory, "out/user/gfx90a68.HIP.2_18_0_x.ufdb.txt.time", "12345");
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "\"gfx90a68.HIP.2_18_0_x.ufdb.txt\"");
    assert_string_equal(fake.sent[0][0], "k1=1\n");
}

TEST_F(kilnctl_harvest, new_kernels_are_imported_for_the_jobs_miopen_version)
{
    char expected[900];
    overlay_all(f);
    scratch_write(f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    snprintf(expected, sizeof(expected),
             "kernel_import {\"name\":\"gfx90a68.ukdb\",\"source\":\"%s/cache/gfx90a68.ukdb\","
             "\"version\":\"2.17.0.a82233c22\"}",
             f->out);
    assert_string_equal(fake.requests[0], expected);
    assert_string_equal(fake.sent[0][0], "more kernels");
    assert_says(f->run.printed, "/cache/gfx90a68.ukdb: 31");
}

#define STATUS_LIMITS \
    "{\"uploads\":{\"cache_limit_bytes\":1048576000,\"tuning_limit_bytes\":2097152}}"

static void write_sparse(struct fixture *f, const char *name, off_t size)
{
    char path[512];
    scratch_write(f->directory, name, "");
    assert_int_equal(truncate(scratch_path(f->directory, name, path), size), 0);
}

/* A job can make a huge sparse file within a moment. Reading it would delay the epilog script of
 * the batch system, which runs harvest. */
TEST_F(kilnctl_harvest, files_beyond_kilnds_limits_are_refused_before_they_are_read)
{
    static const char *const names[] = { "out/cache/gfx90a68.ukdb", "out/user/gfx90a68_1.1.0.udb" };
    static const char *const limits[] = { "1000 MiB", "2.0 MiB" };
    overlay_all(f);
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        write_sparse(f, names[i], 4ll << 30);
        memset(&fake, 0, sizeof(fake));
        fake.answers[0].reply = STATUS_LIMITS;
        assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_FULL);
        assert_int_equal(fake.asked, 1);
        assert_string_equal(fake.requests[0], "status -");
        assert_says(f->run.err.text, limits[i]);
        assert_int_equal(unlink(scratch_path(f->directory, names[i], path)), 0);
    }
}

TEST_F(kilnctl_harvest, reading_a_file_ends_when_the_timeout_is_over)
{
    overlay_all(f);
    write_sparse(f, "out/cache/gfx90a68.ukdb", 900 << 20);
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = STATUS_LIMITS;
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out, "--timeout", "1ms"),
                     KILN_E_TIMED_OUT);
    assert_int_equal(fake.asked, 1);
    assert_says(f->run.err.text, "--timeout");
}

TEST_F(kilnctl_harvest, text_beyond_the_limit_is_refused_before_it_is_read)
{
    overlay_all(f);
    write_sparse(f, "out/user/" USER_FIND, 1ll << 40);
    assert_int_equal(run_harvest(f), KILN_E_FULL);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_harvest, a_perf_db_with_a_log_counts_as_changed)
{
    overlay_all(f);
    test_setenv(FAKE_TRANSFER, "merge");
    scratch_write(f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "log");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT); /* the fake's note reports a lost page */
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "tuning_merge {\"name\":\"gfx90a68_1.1.0.udb\"");
    assert_says(f->run.err.text, "one?page");
}

TEST_F(kilnctl_harvest, damaged_kernels_are_reported_and_the_others_are_imported)
{
    overlay_all(f);
    scratch_write(f->directory, "out/user/" USER_FIND, "k9=9\n");
    scratch_write(f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = TAKEN;
    fake.answers[1].reply = "{\"imported\":31,\"damaged\":2}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out, "--json"), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "31 kernels");
    assert_says(f->run.err.text, "damaged");
    assert_says(f->run.printed, "\"file\":\"user/" USER_FIND "\"}");
    assert_says(f->run.printed, "\"imported\":31,");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_harvest, harvest_neither_waits_for_a_fifo_nor_follows_a_link)
{
    char path[600], other[600];
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/user/" USER_FIND, f->out);
    snprintf(other, sizeof(other), "%s/elsewhere", f->out);
    scratch_write(f->directory, "out/elsewhere", "k9=9\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(run_harvest(f), KILN_E_INVALID);
    assert_says(f->run.err.text, "regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_not_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_harvest, harvest_refuses_a_directory_that_is_not_an_overlay)
{
    assert_int_equal(run_harvest(f), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "miopen overlay");
    assert_int_equal(mkdir(f->out, 0700), 0);
    assert_int_equal(run_harvest(f), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_harvest, a_damaged_manifest_is_reported)
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
        scratch_write(f->directory, "out/.kiln-overlay.json", texts[i]);
        assert_int_equal(run_harvest(f), KILN_E_CORRUPT);
        assert_says(f->run.err.text, ".kiln-overlay.json");
        assert_int_equal(fake.asked, 0);
    }
}

/* Sets the times of a file back by |age_s|, because a real job takes longer than a test. */
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

TEST_F(kilnctl_harvest, an_unchanged_file_is_not_sent_and_is_reported_as_unchanged)
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

TEST_F(kilnctl_harvest, a_file_that_was_only_touched_is_not_sent)
{
    overlay_all(f);
    an_hour_passes(f); /* changes the files' times, but not their content */
    assert_int_equal(run_harvest(f), KILN_E_OK);
    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "/cache/gfx90a68.ukdb: unchanged\n");
}

TEST_F(kilnctl_harvest, a_file_with_another_inode_counts_as_changed)
{
    char path[600], other[600];
    struct stat seen;
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/cache/gfx90a68.ukdb", f->out);
    snprintf(other, sizeof(other), "%s/cache/new", f->out);
    assert_int_equal(stat(path, &seen), 0);
    scratch_write(f->directory, "out/cache/new", "KERNELS");
    const struct timespec times[2] = { seen.st_mtim, seen.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0);
    assert_int_equal(rename(other, path), 0);
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0}";

    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);

    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.sent[0][0], "KERNELS");
}

/* A change within one tick of the filesystem's clock shows only in the content. */
TEST_F(kilnctl_harvest, harvest_detects_a_change_with_the_same_size_and_time)
{
    char path[600];
    struct stat seen;
    overlay_all(f);
    snprintf(path, sizeof(path), "%s/cache/gfx90a68.ukdb", f->out);
    scratch_write(f->directory, "out/cache/gfx90a68.ukdb", "more kernels");
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = "{\"imported\":31,\"damaged\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(stat(path, &seen), 0);
    scratch_write(f->directory, "out/cache/gfx90a68.ukdb", "MORE KERNELS");
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

TEST_F(kilnctl_harvest, a_database_with_an_unchanged_log_is_not_sent_again)
{
    overlay_all(f);
    test_setenv(FAKE_TRANSFER, "merge");
    scratch_write(f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "log");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT); /* the fake's note reports a lost page */
    assert_int_equal(fake.asked, 1);

    assert_int_equal(run_harvest(f), KILN_E_OK);

    assert_int_equal(fake.asked, 0);
    assert_says(f->run.printed, "/user/gfx90a68_1.1.0.udb: unchanged\n");
    scratch_write(f->directory, "out/user/gfx90a68_1.1.0.udb-wal", "more");
    assert_int_equal(run_harvest(f), KILN_E_CORRUPT);
    assert_int_equal(fake.asked, 1);
}

TEST_F(kilnctl_harvest, a_manifest_without_times_or_digests_makes_every_file_new)
{
    overlay_all(f);
    an_hour_passes(f);
    scratch_write(f->directory, "out/.kiln-overlay.json",
                  "{\"layout\":1,\"files\":[{\"name\":\"cache/gfx90a68.ukdb\",\"digest\":\"12\","
                  "\"file\":{\"size\":7,\"s\":\"-1\"}}]}");
    memset(&fake, 0, sizeof(fake));
    for (int i = 0; i < 3; i++)
        fake.answers[i].reply = "{\"imported\":31,\"damaged\":0,\"bad\":0}";
    assert_int_equal(RUN(&f->run, "miopen", "harvest", f->out), KILN_E_OK);
    assert_int_equal(fake.asked, 3);
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}

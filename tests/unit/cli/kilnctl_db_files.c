/* SPDX-License-Identifier: MIT */

#include "cli/exit_status.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"
#include "tests/unit/cli/slow_clock.h"

#include "engine/miopen/names/miopen_files.h"

#include <errno.h>

struct fixture {
    struct command_run run;
    const char *directory;
    struct reported reported;
    char find[512], perf[512], user[512], out[512], text[256];
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    scratch_create(f->directory, "gfx90a68.HIP.fdb.txt", "find", f->find);
    scratch_create(f->directory, "gfx906_60.db", "perf", f->perf);
    scratch_create(f->directory, "gfx906_60_1.1.0.udb", "user", f->user);
    scratch_path(f->directory, "out", f->out);
}

FIXTURE(kilnctl_db_files, set_up, NULL);

/* ---- import ---- */

#define ALL_IN                                                                                 \
    "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":\"system\"," \
    "\"records\":193590,\"entries\":1148273,\"added\":193590,\"replaced\":0,\"bad\":0,"        \
    "\"verbatim\":12,\"bytes\":60228182}"
#define ONE_BAD                                                                              \
    "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":\"user\"," \
    "\"records\":2,\"entries\":3,\"added\":1,\"replaced\":1,\"bad\":1,\"verbatim\":0,"       \
    "\"conflicts\":1,\"kept\":0}"

TEST_F(kilnctl_db_files, a_find_db_goes_to_kilnd_as_an_open_file_with_its_name)
{
    fake.answers[0].reply = ALL_IN;

    assert_int_equal(RUN(&f->run, "db", "import", f->find), KILN_E_OK);

    assert_string_equal(fake.requests[0], "tuning_import {\"name\":\"gfx90a68.HIP.fdb.txt\"}");
    assert_int_equal(fake.file_counts[0], 1);
    assert_string_equal(fake.sent[0][0], "find");
    assert_int_equal(fake.timeouts[0], -1);
    assert_says(f->run.printed, "193 590");
    assert_says(f->run.printed, "find HIP");
    assert_says(f->run.printed, "gfx90a68");
    assert_says(f->run.printed, "records added");
    assert_says(f->run.printed, "12 records");
}

TEST_F(kilnctl_db_files, the_options_of_an_import_go_to_kilnd)
{
    fake.answers[0].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "db", "import", "--db-id", "gfx90a6e", "--kind", "find",
                         "--backend", "OpenCL", "--tier", "host", "--strict", f->find),
                     KILN_E_OK);
    assert_says(fake.requests[0], ",\"database_id\":\"gfx90a6e\",\"kind\":\"find\",\"backend\":"
                                  "\"OpenCL\",\"tier\":\"host\",\"strict\":true}");
}

TEST_F(kilnctl_db_files, a_directory_stands_for_its_tuning_files_in_order_of_name)
{
    scratch_write(f->directory, "README.md", "no tuning file");
    scratch_write(f->directory, "gfx900_56.db.bz2", "packed");
    scratch_write(f->directory, "mi9000.HIP.fdb.txt", "of a device that is not known");
    for (int i = 0; i < 4; i++)
        fake.answers[i].reply = ALL_IN;

    reported_begin(&f->reported);
    assert_int_equal(RUN(&f->run, "db", "import", f->directory, "--json"), KILN_E_OK);
    reported_end(&f->reported);

    assert_says(f->reported.text, "'mi9000.HIP.fdb.txt'");
    assert_null(strstr(f->reported.text, "README"));
    assert_int_equal(fake.asked, 4);
    assert_says(fake.requests[0], "\"gfx900_56.db.bz2\"");
    assert_string_equal(fake.sent[0][0], "packed");
    assert_says(fake.requests[1], "\"gfx906_60.db\"");
    assert_says(fake.requests[2], "\"gfx906_60_1.1.0.udb\"");
    assert_says(fake.requests[3], "\"gfx90a68.HIP.fdb.txt\"");
    assert_says(f->run.printed, "\"records\":774360,");
}

TEST_F(kilnctl_db_files, the_tuning_files_of_every_miopen_are_among_those_of_a_directory)
{
    assert_int_equal(mkdir(f->out, 0700), 0);
    for (size_t i = 0; i < miopen_file_count; i++) {
        bool has_schema = strstr(miopen_files[i].name, "SCHEMA");
        const struct miopen_words words = { bytes_of_text("gfx906_60"), bytes_of_text("HIP"),
                                            bytes_of_text(has_schema ? "1.1.0" : "3_5_2_") };
        bool has_records = miopen_files[i].content < MIOPEN_KERNELS;
        char name[128], below[160], path[512];
        miopen_file_write(&miopen_files[i], &words, name);
        snprintf(below, sizeof(below), "out/%s", name);
        scratch_write(f->directory, below, "k=v\n");
        memset(&fake, 0, sizeof(fake));
        fake.answers[0].reply = ALL_IN;
        reported_begin(&f->reported);
        int rc = RUN(&f->run, "db", "import", f->out);
        reported_end(&f->reported);
        assert_int_equal(rc, has_records ? KILN_E_OK : KILN_E_NOT_FOUND);
        assert_int_equal(fake.asked, has_records);
        if (has_records)
            assert_says(fake.requests[0], name);
        assert_null(strstr(f->reported.text, "skipped"));
        assert_int_equal(unlink(scratch_path(f->directory, below, path)), 0);
    }
}

TEST_F(kilnctl_db_files, names_like_miopens_that_are_not_known_are_listed_and_counted)
{
    assert_int_equal(mkdir(f->out, 0700), 0);
    scratch_write(f->directory, "out/gfx906_60.db", "perf");
    for (int i = 0; i < 25; i++) {
        char name[64];
        snprintf(name, sizeof(name), "out/gfx90a68.HIP.3_9_0_%d.newer.ufdb.txt", i);
        scratch_write(f->directory, name, "k=v\n");
    }
    fake.answers[0].reply = ALL_IN;
    reported_begin(&f->reported);
    assert_int_equal(RUN(&f->run, "db", "import", f->out), KILN_E_OK);
    reported_end(&f->reported);
    assert_says(f->reported.text, "newer.ufdb.txt");
    assert_says(f->reported.text, "5 more");
}

TEST_F(kilnctl_db_files, kilns_own_files_are_among_those_of_a_directory)
{
    assert_int_equal(mkdir(f->out, 0700), 0);
    scratch_write(f->directory, "out/sm_90_132.CUDA.fdb.txt", "find");
    scratch_write(f->directory, "out/opencl_1a2b3c4d_1.1.0.udb.txt", "perf");
    scratch_write(f->directory, "out/rtx9000.CUDA.fdb.txt", "of a device that is not known");
    fake.answers[0].reply = fake.answers[1].reply = ALL_IN;
    reported_begin(&f->reported);
    assert_int_equal(RUN(&f->run, "db", "import", f->out), KILN_E_OK);
    reported_end(&f->reported);
    assert_int_equal(fake.asked, 2);
    assert_says(fake.requests[0], "\"opencl_1a2b3c4d_1.1.0.udb.txt\"");
    assert_says(fake.requests[1], "\"sm_90_132.CUDA.fdb.txt\"");
    assert_says(f->reported.text, "'rtx9000.CUDA.fdb.txt'");
}

TEST_F(kilnctl_db_files, a_database_that_shrank_by_more_than_half_causes_a_warning)
{
    fake.answers[0].reply =
        "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":"
        "\"system\",\"records\":12,\"entries\":12,\"records_before\":193590,\"shrunk\":true}";
    fake.answers[1] = fake.answers[0];
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "import", f->find);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->reported.text, "warning");
    assert_says(f->reported.text, "gfx90a68");
    reported_begin(&f->reported);
    rc = RUN(&f->run, "db", "import", f->find, "--json");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->run.printed, "\"records_before\":193590,\"shrunk\":true");
}

TEST_F(kilnctl_db_files, a_directory_without_tuning_files_is_not_found)
{
    assert_int_equal(mkdir(f->out, 0700), 0);
    assert_int_equal(RUN(&f->run, "db", "import", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "gfx90a68.HIP.fdb.txt");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_db_files, a_directory_that_cannot_be_read_to_its_end_is_not_imported_in_part)
{
    unsigned nth = 1;
    for (bool failed = true; failed; nth++) {
        memset(&fake, 0, sizeof(fake));
        for (size_t i = 0; i < 3; i++)
            fake.answers[i].reply = ALL_IN;
        fail_call("readdir", nth, EIO);
        int rc = RUN(&f->run, "db", "import", f->directory);
        failed = calls_failed();
        assert_int_equal(rc, failed ? KILN_E_IO : KILN_E_OK);
        assert_int_equal(fake.asked, failed ? 0 : 3);
        if (failed)
            assert_says(f->run.err.text, "cannot read");
    }
    assert_true(nth > 3);
}

TEST_F(kilnctl_db_files, bad_lines_are_reported_as_file_line_and_why_and_fail_in_the_end)
{
    char expected[700];
    fake.answers[0] = (struct fake_answer){
        .reply = ONE_BAD,
        .progress = { "{\"bad\":[{\"line\":7,\"why\":\"no '=' in it\"},{\"line\":9,"
                      "\"why\":\"a \\u001bkey\"}]}" },
    };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "import", f->find);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    snprintf(expected, sizeof(expected), "%s:7: no '=' in it\n", f->find);
    assert_says(f->reported.text, expected);
    assert_says(f->reported.text, ":9: a ?key\n");
    assert_says(f->run.err.text, "1 line");
    assert_says(f->run.printed, "2 records,");
    assert_says(f->run.printed, "3 entries");
}

TEST_F(kilnctl_db_files, bad_lines_and_conflicts_are_in_the_json_too)
{
    fake.answers[0] = (struct fake_answer){
        .reply = ONE_BAD,
        .progress = { "{\"progress\":{\"stage\":\"reading\",\"done\":1,\"total\":2}}",
                      "{\"bad\":[{\"line\":7,\"why\":\"x\"}]}",
                      "{\"conflicts\":[{\"key\":\"k\",\"why\":\"2 ms or 3 ms\"}]}" },
    };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "merge", f->find, "--json");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(fake.requests[0], "tuning_merge {\"name\":\"gfx90a68.HIP.fdb.txt\",\"tier\":"
                                  "\"user\"}");
    assert_says(f->run.printed, "\"bad_lines\":[{\"line\":7,\"why\":\"x\"}]");
    assert_says(f->run.printed, "\"conflicting\":[{\"key\":\"k\",\"why\":\"2 ms or 3 ms\"}]");
    assert_says(f->run.printed, "\"error\":{\"code\":\"CORRUPT\"");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_db_files, a_strict_import_of_a_bad_file_is_not_a_usage_error)
{
    fake.answers[0] =
        (struct fake_answer){ .code = KILN_E_INVALID,
                              .text = "line 7: no '='",
                              .progress = { "{\"bad\":[{\"line\":7,\"why\":\"x\"}]}" } };
    fake.answers[1] = (struct fake_answer){ .code = KILN_E_INVALID, .text = "no such device" };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "import", "--strict", f->find);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.err.text, "line 7:");
    assert_int_equal(RUN(&f->run, "db", "import", f->find), KILN_E_INVALID);
}

TEST_F(kilnctl_db_files, conflicts_of_a_merge_are_shown)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":"
                 "\"host\",\"records\":2,\"entries\":3,\"kept\":1,\"replaced\":1,\"bad\":0}",
        .progress = { "{\"conflicts\":[{\"key\":\"64-1\",\"why\":\"2 ms or 3\"}]}" },
    };
    assert_int_equal(RUN(&f->run, "db", "merge", "--tier", "host", f->find), KILN_E_OK);
    assert_says(f->run.printed, "conflict: 64-1:");
    assert_says(f->run.printed, "merged");
    assert_says(f->run.printed, "host");
    assert_says(f->run.printed, "1 record");
}

TEST_F(kilnctl_db_files, invalid_progress_does_not_end_the_call)
{
    fake.answers[0] = (struct fake_answer){
        .reply = ALL_IN,
        .progress = { "{", "{\"bad\":7}", "{\"bad\":[7,[]]}" },
    };
    assert_int_equal(RUN(&f->run, "db", "import", f->find), KILN_E_OK);
}

TEST_F(kilnctl_db_files, an_import_continues_after_a_failed_file)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_CORRUPT, .text = "no table config" };
    fake.answers[1].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "db", "import", f->perf, "/nonexistent/a.db", f->find),
                     KILN_E_CORRUPT);
    assert_int_equal(fake.asked, 2);
    assert_says(f->run.err.text, "gfx906_60.db:");
}

TEST_F(kilnctl_db_files, an_import_that_is_not_permitted_ends_at_once)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_DENIED, .text = "give --tier user" };
    assert_int_equal(RUN(&f->run, "db", "import", f->find, f->perf), KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
    assert_says(f->run.err.text, "--tier user");
}

TEST_F(kilnctl_db_files, a_users_database_is_imported_with_its_log)
{
    test_setenv(FAKE_TRANSFER, "merge");
    fake.answers[0].reply = ALL_IN;
    scratch_write(f->directory, "gfx906_60_1.1.0.udb-wal", "log");
    assert_int_equal(RUN(&f->run, "db", "import", f->user, "--json"), KILN_E_CORRUPT);
    assert_string_equal(fake.sent[0][0], "user");
    assert_says(f->run.err.text, "one?page");
    assert_says(f->run.printed, "\"note\":\"one?page\"");
}

TEST_F(kilnctl_db_files, a_url_is_fetched_by_kilnd)
{
    fake.answers[0].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "db", "import", "https://host/gfx90a68.HIP.fdb.txt.bz2",
                         "--sha256",
                         "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"),
                     KILN_E_OK);
    assert_string_equal(
        fake.requests[0],
        "tuning_import {\"url\":\"https://host/gfx90a68.HIP.fdb.txt.bz2\",\"sha256\":"
        "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}");
    assert_int_equal(fake.file_counts[0], 0);
}

TEST_F(kilnctl_db_files, nothing_of_a_urls_credentials_or_query_is_reported)
{
    const char *url = "https://me:secret@host/gfx90a68.HIP.fdb.txt?sig=abcdef";
    fake.answers[0] = (struct fake_answer){
        .reply = ALL_IN,
        .progress = { "{\"progress\":{\"stage\":\"fetching\",\"done\":5,\"total\":10}}" },
    };
    fake.answers[1] = (struct fake_answer){ .code = KILN_E_IO, .text = "no" };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "import", url);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(fake.requests[0], url);
    assert_int_equal(strncmp(f->reported.text, "gfx90a68.HIP.fdb.txt: fetching: ", 32), 0);
    assert_null(strstr(f->reported.text, "abcdef"));
    assert_says(f->run.printed, "gfx90a68.HIP.fdb.txt: ");
    assert_null(strstr(f->run.printed, "secret"));
    assert_int_equal(RUN(&f->run, "db", "import", url, "--json"), KILN_E_IO);
    assert_says(f->run.printed, "\"file\":\"gfx90a68.HIP.fdb.txt\"");
    assert_null(strstr(f->run.printed, "secret"));
    assert_null(strstr(f->run.err.text, "secret"));
}

TEST_F(kilnctl_db_files, invalid_choices_are_refused_before_a_request)
{
    assert_int_equal(RUN(&f->run, "db", "import", "--tier", "mine", f->find), KILN_E_INVALID);
    assert_says(f->run.err.text, "'mine'");
    assert_says(f->run.err.text, "system, host,");
    assert_int_equal(RUN(&f->run, "db", "merge", "--tier", "system", f->find), KILN_E_INVALID);
    assert_says(f->run.err.text, "'system'");
    assert_says(f->run.err.text, "host, user");
    assert_int_equal(RUN(&f->run, "db", "import", "--kind", "hos", f->find), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "db", "import", "--sha256", "00", f->find), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "db", "export", "--format", "xml", f->out), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "db", "export", "--dialect", "x", f->out), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

/* ---- export ---- */

#define TWO_FILES                                                                              \
    "{\"files\":[{\"name\":\"gfx90a68.HIP.fdb.txt\",\"kind\":\"find\",\"database_id\":"        \
    "\"gfx90a68\",\"backend\":\"HIP\",\"records\":2,\"bytes\":3},{\"name\":\"gfx90a68.db\","   \
    "\"kind\":\"perf\",\"database_id\":\"gfx90a68\",\"backend\":\"\",\"records\":1,\"bytes\":" \
    "2048}]}"

TEST_F(kilnctl_db_files, an_export_writes_each_file_that_kilnd_sent)
{
    fake.answers[0] = (struct fake_answer){ .reply = TWO_FILES, .files = { "a=b", "sql" } };

    assert_int_equal(RUN(&f->run, "db", "export", f->out, "--db-id", "gfx90a68", "--tier", "host",
                         "--merged", "--dialect", "old", "--format", "text", "--miopen", "2.17.0"),
                     KILN_E_OK);

    assert_string_equal(fake.requests[0],
                        "tuning_export {\"database_id\":\"gfx90a68\",\"tier\":\"host\",\"merged\":"
                        "true,\"dialect\":\"old\",\"format\":\"text\",\"version\":\"2.17.0\"}");
    assert_string_equal(scratch_read(f->directory, "out/gfx90a68.HIP.fdb.txt", f->text, 256),
                        "a=b");
    assert_string_equal(scratch_read(f->directory, "out/gfx90a68.db", f->text, 256), "sql");
    assert_says(f->run.printed, "/gfx90a68.HIP.fdb.txt: 2");
    assert_says(f->run.printed, "/gfx90a68.db: 1");
    assert_says(f->run.printed, "2.0 KiB");
}

TEST_F(kilnctl_db_files, an_export_replaces_files_only_with_force)
{
    fake.answers[0] = (struct fake_answer){ .reply = TWO_FILES, .files = { "new", "sql" } };
    fake.answers[1] = fake.answers[0];
    assert_int_equal(RUN(&f->run, "db", "export", f->directory), KILN_E_IO);
    assert_says(f->run.err.text, "gfx90a68.HIP.fdb.txt");
    assert_says(f->run.err.text, "--force");
    assert_string_equal(scratch_read(f->directory, "gfx90a68.HIP.fdb.txt", f->text, 256), "find");
    assert_int_equal(RUN(&f->run, "db", "export", f->directory, "--force", "--json"), KILN_E_OK);
    assert_string_equal(scratch_read(f->directory, "gfx90a68.HIP.fdb.txt", f->text, 256), "new");
    assert_says(f->run.printed, "\"records\":2,\"bytes\":3}");
}

TEST_F(kilnctl_db_files, an_export_refuses_a_name_with_a_path)
{
    fake.answers[0] = (struct fake_answer){ .reply = "{\"files\":[{\"name\":\"../escaped\"}]}",
                                            .files = { "x" } };
    assert_int_equal(RUN(&f->run, "db", "export", f->out), KILN_E_CORRUPT);
    assert_false(scratch_has(f->directory, "escaped"));
}

TEST_F(kilnctl_db_files, an_answer_that_names_other_files_than_it_sent_is_refused)
{
    fake.answers[0] = (struct fake_answer){ .reply = TWO_FILES, .files = { "x" } };
    assert_int_equal(RUN(&f->run, "db", "export", f->out), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "list of");
}

TEST_F(kilnctl_db_files, an_export_without_records_is_not_found)
{
    fake.answers[0].reply = "{\"files\":[]}";
    assert_int_equal(RUN(&f->run, "db", "export", f->out, "--tier", "user"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "user tier");
    assert_false(scratch_has(f->directory, "out"));
}

/* ---- diff ---- */

#define DIFFERS \
    "{\"a_records\":3,\"b_records\":2,\"same\":1,\"different\":1,\"only_a\":1,\"only_b\":0}"

TEST_F(kilnctl_db_files, a_file_name_gives_the_device_of_the_compared_tier)
{
    fake.answers[0] = (struct fake_answer){
        .reply = DIFFERS,
        .progress = { "{\"differences\":[{\"key\":\"k1\",\"solver\":\"S\",\"what\":"
                      "\"time\",\"a\":0.25,\"b\":0.5},{\"key\":\"k1\",\"solver\":\"T\",\"what\":"
                      "\"only a\"}]}" },
    };
    assert_int_equal(RUN(&f->run, "db", "diff", "host", f->find), KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "tuning_diff {\"a_tier\":\"host\",\"b_name\":\"gfx90a68.HIP.fdb.txt\","
                        "\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\"}");
    assert_int_equal(fake.file_counts[0], 1);
    assert_string_equal(fake.sent[0][0], "find");
    assert_says(f->run.printed, "k1\n  S ");
    assert_says(f->run.printed, "0.25 | 0.5\n");
    assert_says(f->run.printed, " only a\n");
    assert_says(f->run.printed, "3 records");
    assert_says(f->run.printed, "1 different");
    assert_says(f->run.printed, "1 only");
}

TEST_F(kilnctl_db_files, a_file_of_batch_normalisation_is_compared_with_its_own_records)
{
    char path[PATH_MAX];
    fake.answers[0].reply = DIFFERS;
    scratch_write(f->directory, "batchnorm_gfx90a68.db.txt", "bn");
    scratch_path(f->directory, "batchnorm_gfx90a68.db.txt", path);
    assert_int_equal(RUN(&f->run, "db", "diff", "host", path), KILN_E_OK);
    assert_says(fake.requests[0],
                "\"kind\":\"perf\",\"database_id\":\"gfx90a68\",\"backend\":\"batchnorm\"}");
}

TEST_F(kilnctl_db_files, two_files_are_compared_in_their_order)
{
    fake.answers[0].reply = DIFFERS;
    assert_int_equal(RUN(&f->run, "db", "diff", f->perf, f->user, "--json"), KILN_E_OK);
    assert_int_equal(fake.file_counts[0], 2);
    assert_string_equal(fake.sent[0][0], "perf");
    assert_string_equal(fake.sent[0][1], "user");
    assert_says(fake.requests[0], "\"a_name\":\"gfx906_60.db\",\"b_name\":\"gfx906_60_1.1.0.udb\","
                                  "\"kind\":\"perf\",\"database_id\":\"gfx906_60\"}");
    assert_says(f->run.printed, "\"only_b\":0,\"differences\":[]}");
}

TEST_F(kilnctl_db_files, two_tiers_need_a_device_and_a_kind)
{
    assert_int_equal(RUN(&f->run, "db", "diff", "host", "user"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--db-id");
    assert_says(f->run.err.text, "--kind");
    fake.answers[0].reply = DIFFERS;
    assert_int_equal(RUN(&f->run, "db", "diff", "host", "user", "--db-id", "gfx90a68", "--kind",
                         "perf", "--uid", "1000"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "tuning_diff {\"a_tier\":\"host\",\"b_tier\":\"user\",\"kind\":\"perf\","
                        "\"database_id\":\"gfx90a68\",\"uid\":1000}");
}

TEST_F(kilnctl_db_files, an_argument_that_is_neither_tier_nor_file_is_not_found)
{
    assert_int_equal(RUN(&f->run, "db", "diff", "hots", "user"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'hots'");
    assert_says(f->run.err.text, "tier");
}

/* ---- backup ---- */

TEST_F(kilnctl_db_files, a_backup_writes_the_file_that_kilnd_sent)
{
    fake.answers[0] = (struct fake_answer){ .reply = "{\"bytes\":6}", .files = { "sqlite" } };
    fake.answers[1].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "db", "backup", f->out), KILN_E_OK);
    assert_string_equal(scratch_read(f->directory, "out", f->text, 256), "sqlite");
    assert_says(f->run.printed, "/out: 6");
    struct stat seen;
    assert_int_equal(stat(f->out, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600); /* a backup has the private records of all users */
}

#define ONE_SYSTEM                                                  \
    "{\"system\":[{\"database_id\":\"gfx90a68\",\"kind\":\"find\"," \
    "\"source\":\"/db/gfx90a68.HIP.fdb.txt\"}]}"

TEST_F(kilnctl_db_files, a_backup_says_what_it_leaves_out)
{
    fake.answers[0] = (struct fake_answer){ .reply = "{\"bytes\":6}", .files = { "sqlite" } };
    fake.answers[1].reply = ONE_SYSTEM;
    assert_int_equal(RUN(&f->run, "db", "backup", f->out), KILN_E_OK);
    assert_string_equal(fake.requests[1], "tuning_stats -");
    assert_says(f->run.printed, "find database of gfx90a68");
    assert_says(f->run.printed, "'/db/gfx90a68.HIP.fdb.txt'");
    assert_says(f->run.printed, "'kilnctl db import'");
    assert_says(f->run.printed, "packages");

    fake.asked = 0;
    assert_int_equal(RUN(&f->run, "db", "backup", f->out, "--force", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"left_out\":[\"/db/gfx90a68.HIP.fdb.txt\"]");
}

TEST_F(kilnctl_db_files, a_backup_does_not_replace_a_file_and_sends_no_request)
{
    assert_int_equal(RUN(&f->run, "db", "backup", f->find), KILN_E_IO);
    assert_int_equal(fake.asked, 0);
    fake.answers[0] = (struct fake_answer){ .reply = "{\"bytes\":6}", .files = { "sqlite" } };
    fake.answers[1].reply = "{\"system\":[]}";
    assert_int_equal(RUN(&f->run, "db", "backup", f->find, "--force", "--json"), KILN_E_OK);
    assert_string_equal(scratch_read(f->directory, "gfx90a68.HIP.fdb.txt", f->text, 256), "sqlite");
    assert_says(f->run.printed, "\"bytes\":6,\"left_out\":[]}");
}

TEST_F(kilnctl_db_files, a_backup_answer_without_a_file_fails)
{
    fake.answers[0].reply = "{\"bytes\":6}";
    assert_int_equal(RUN(&f->run, "db", "backup", f->out), KILN_E_CORRUPT);
    assert_false(scratch_has(f->directory, "out"));
}

/* ---- keys that are kept verbatim ---- */

static void verbatim_items(unsigned count, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "{\"verbatim\":[");
    for (unsigned i = 1; i <= count; i++)
        used += (size_t)snprintf(text + used, size - used,
                                 "%s{\"line\":%u,\"key\":\"key-%u\",\"why\":\"a bias\"}",
                                 i > 1 ? "," : "", i, i);
    snprintf(text + used, size - used, "]}");
}

TEST_F(kilnctl_db_files, keys_that_are_stored_unparsed_are_listed_with_their_lines)
{
    char items[4096], expected[700];
    verbatim_items(12, items, sizeof(items));
    fake.answers[0] = (struct fake_answer){ .reply = ALL_IN, .progress = { items } };

    assert_int_equal(RUN(&f->run, "db", "import", f->find), KILN_E_OK);

    snprintf(expected, sizeof(expected), "%s:1: kept unchanged: key-1: a bias\n", f->find);
    assert_says(f->run.printed, expected);
    assert_says(f->run.printed, ":10: kept");
    assert_says(f->run.printed, "key-10:");
    assert_null(strstr(f->run.printed, "key-11"));
    assert_says(f->run.printed, "12 records");
    assert_says(f->run.printed, "2 more");
    assert_says(f->run.printed, "--verbose");
}

TEST_F(kilnctl_db_files, verbose_lists_all_keys_that_are_stored_unparsed)
{
    char items[4096];
    verbatim_items(12, items, sizeof(items));
    for (int i = 0; i < 3; i++)
        fake.answers[i] = (struct fake_answer){ .reply = ALL_IN, .progress = { items } };
    assert_int_equal(RUN(&f->run, "db", "import", "--verbose", f->find), KILN_E_OK);
    assert_says(f->run.printed, ":12: kept");
    assert_says(f->run.printed, "key-12:");
    assert_null(strstr(f->run.printed, "more of"));
    assert_int_equal(RUN(&f->run, "db", "merge", "-v", f->find), KILN_E_OK);
    assert_says(f->run.printed, "key-12");
    assert_int_equal(RUN(&f->run, "db", "import", "--json", f->find), KILN_E_OK);
    assert_says(f->run.printed, "\"verbatim_keys\":[{\"line\":1,\"key\":\"key-1\",\"why\":\"a "
                                "bias\"},");
    assert_says(f->run.printed, "{\"line\":12,\"key\":\"key-12\",\"why\":\"a bias\"}]");
}

TEST_F(kilnctl_db_files, an_unreadable_file_is_denied_and_the_next_one_is_imported)
{
    const uid_t nobody = 65534;
    bool is_root = geteuid() == 0;
    fake.answers[0].reply = ALL_IN;
    assert_int_equal(chmod(f->find, 0), 0);
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(is_root ? seteuid(nobody) : 0, 0); /* root could read the file */

    int rc = RUN(&f->run, "db", "import", f->find, f->perf);

    assert_int_equal(is_root ? seteuid(0) : 0, 0);
    assert_int_equal(rc, KILN_E_DENIED);
    assert_int_equal(exit_status_of(rc), EXIT_DENIED);
    assert_says(f->run.err.text, "Permission denied");
    assert_int_equal(fake.asked, 1);
    assert_says(fake.requests[0], "gfx906_60.db");
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}

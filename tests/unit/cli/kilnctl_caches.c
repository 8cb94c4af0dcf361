/* SPDX-License-Identifier: MIT */

#include "tests/support/entries.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

struct fixture {
    struct command_run run;
    const char *directory;
    struct reported reported;
    char first[512], second[512], out[512], text[256];
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    scratch_create(f->directory, "gfx90a68.ukdb", "first", f->first);
    scratch_create(f->directory, "gfx906_60.ukdb", "second", f->second);
    scratch_path(f->directory, "out", f->out);
}

FIXTURE(kilnctl_caches, set_up, NULL);

#define ALL_IN "{\"imported\":978,\"damaged\":0,\"database_id\":\"gfx90a68\",\"scope\":\"own\"}"
#define SOME_DAMAGED                                                           \
    "{\"imported\":970,\"damaged\":5,\"first\":\"row 7: its md5 is another\"," \
    "\"database_id\":\"gfx90a68\",\"scope\":\"everyone\"}"

TEST_F(kilnctl_caches, a_cache_goes_to_kilnd_as_an_open_file_with_its_name_and_source)
{
    char expected[1024];
    fake.answers[0].reply = ALL_IN;

    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_OK);

    snprintf(expected, sizeof(expected),
             "kernel_import {\"name\":\"gfx90a68.ukdb\",\"source\":\"%s\"}", f->first);
    assert_string_equal(fake.requests[0], expected);
    assert_int_equal(fake.file_counts[0], 1);
    assert_string_equal(fake.sent[0][0], "first");
    assert_int_equal(fake.timeouts[0], -1);
    assert_says(f->run.printed, "gfx90a68.ukdb: 978 kernels");
    assert_says(f->run.printed, "for you");
}

TEST_F(kilnctl_caches, an_import_sends_its_device_and_for_all_to_kilnd)
{
    fake.answers[0].reply = "{\"imported\":1,\"database_id\":\"gfx90a6e\",\"scope\":\"everyone\"}";
    assert_int_equal(RUN(&f->run, "kernel", "import", "--for-all", "--db-id", "gfx90a6e", f->first),
                     KILN_E_OK);
    assert_says(fake.requests[0], ",\"database_id\":\"gfx90a6e\",\"for_all\":true}");
    assert_says(f->run.printed, "1 kernel");
    assert_says(f->run.printed, "gfx90a6e");
    assert_says(f->run.printed, "every user");
}

TEST_F(kilnctl_caches, an_import_continues_after_a_bad_file_and_fails_at_the_end)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_CORRUPT, .text = "no kernel database" };
    fake.answers[1].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "kernel", "import", f->second, f->first, "--json"),
                     KILN_E_CORRUPT);
    assert_int_equal(fake.asked, 2);
    assert_says(f->run.err.text, "gfx906_60.ukdb:");
    assert_says(f->run.printed, "{\"files\":[{\"imported\":978,");
    assert_says(f->run.printed, "\"imported\":978,\"damaged\":0,\"failures\":[{\"code\":"
                                "\"CORRUPT\"");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_caches, damaged_rows_of_a_cache_are_reported_and_fail_the_import)
{
    fake.answers[0].reply = SOME_DAMAGED;
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "970 imported");
    assert_says(f->run.err.text, "5 damaged");
    assert_says(f->run.err.text, "row 7:");
    assert_says(f->run.printed, "970 kernels");
}

TEST_F(kilnctl_caches, the_json_of_a_partial_import_counts_all_files_together)
{
    fake.answers[0].reply = SOME_DAMAGED;
    fake.answers[1].reply = SOME_DAMAGED;
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "kernel", "import", f->first, f->second, "--json");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.printed, "\"imported\":1940,\"damaged\":10,");
    assert_says(f->run.printed, "\"error\":{\"code\":\"CORRUPT\"");
    assert_says(f->reported.text, "gfx906_60.ukdb");
    assert_says(f->reported.text, "970 imported");
}

#define BAD(id) "{\"id\":" id ",\"name\":\"conv.s.o\",\"why\":\"its \\u001b[1mmd5 is another\"}"
#define FIVE_BAD BAD("1") "," BAD("2") "," BAD("3") "," BAD("4") "," BAD("5")

TEST_F(kilnctl_caches, damaged_rows_are_named_the_first_ten_for_people_and_all_as_json)
{
    fake.answers[0].reply = fake.answers[1].reply =
        "{\"imported\":970,\"damaged\":14,\"damaged_rows\":[" FIVE_BAD "," FIVE_BAD
        "," BAD("77") "]}";
    fake.answers[2].reply = "{\"imported\":1,\"damaged\":3,\"damaged_rows\":[" BAD("8") "," BAD(
        "9") ",{\"id\":12,"
             "\"name\":\"x\",\"why\":\"row 12 ('x'): no bzip2\"}]}";
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_CORRUPT);
    assert_says(f->run.printed, "row 5, 'conv.s.o': its ?[1mmd5");
    assert_says(f->run.printed, "and 4 more");
    assert_null(strstr(f->run.printed, "row 77"));
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first, "--json"), KILN_E_CORRUPT);
    assert_says(f->run.printed, "\"id\":77");
    f->run.common.json = false;
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_CORRUPT);
    assert_says(f->run.printed, "row 9,");
    assert_says(f->run.printed, "row 12");
    assert_null(strstr(f->run.printed, "more"));
}

TEST_F(kilnctl_caches, a_cache_that_cannot_be_opened_is_not_sent)
{
    test_setenv(FAKE_TRANSFER, "refuse");
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_IO);
    assert_says(f->run.err.text, "gfx90a68.ukdb:");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_caches, a_missing_cache_does_not_stop_the_import_of_others)
{
    fake.answers[0].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "kernel", "import", "/nonexistent/a.ukdb", f->first),
                     KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 1);
    assert_says(f->run.err.text, "'/nonexistent/a.ukdb'");
}

TEST_F(kilnctl_caches, an_import_that_is_not_permitted_ends_at_once)
{
    fake.answers[0].code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "kernel", "import", "--for-all", f->first, f->second),
                     KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
}

/* Makes a directory with a cache file whose name is one that MIOpen would choose. Imports it,
 * and returns the request that kilnd received. */
static const char *import_from(struct fixture *f, const char *directory, const char *option,
                               const char *value)
{
    char path[64], file[600];
    scratch_path(f->directory, directory, f->out);
    assert_int_equal(mkdir(f->out, 0700), 0);
    snprintf(path, sizeof(path), "%s/gfx90a68.ukdb", directory);
    scratch_write(f->directory, path, "cache");
    snprintf(file, sizeof(file), "%s/gfx90a68.ukdb", f->out);
    fake.asked = 0;
    fake.answers[0].reply = ALL_IN;
    int rc = option ? RUN(&f->run, "kernel", "import", file, option, value)
                    : RUN(&f->run, "kernel", "import", file);
    assert_int_equal(rc, KILN_E_OK);
    unlink(file);
    rmdir(f->out);
    return fake.requests[0];
}

TEST_F(kilnctl_caches, the_version_is_read_from_the_name_of_the_caches_directory)
{
    assert_says(import_from(f, "2.17.0.a82233c22", NULL, NULL),
                ",\"version\":\"2.17.0.a82233c22\"}");
    assert_says(f->run.printed, "978 kernels");
    assert_says(f->run.printed, "you alone");
    assert_says(f->run.printed, "2.17.0.a82233c22");
    assert_says(import_from(f, "3.5.1.", NULL, NULL), ",\"version\":\"3.5.1\"}");
    assert_says(import_from(f, "3.5.1", NULL, NULL), ",\"version\":\"3.5.1\"}");
}

TEST_F(kilnctl_caches, the_miopen_option_overrides_the_directory_and_none_means_no_version)
{
    assert_says(import_from(f, "2.17.0.a82233c22", "--miopen", "2.17.0"),
                ",\"version\":\"2.17.0\"}");
    assert_says(f->run.printed, "2.17.0");
    assert_null(strstr(import_from(f, "2.17.0.a82233c22", "--miopen", "none"), "version"));
    assert_null(strstr(f->run.printed, "stored for"));
}

TEST_F(kilnctl_caches, only_directories_named_after_a_version_give_a_version)
{
    static const char *const directories[] = { "backup",       "2.17",      "2.17.0.a b",
                                               "2.17.0-a8",    "v2.17.0.a", "2..0.a823",
                                               "20240101.0.0", "2.17.0.a.b" };
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        assert_null(strstr(import_from(f, directories[i], NULL, NULL), "version"));
}

#define EXPORTED                                                                               \
    "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"kernels\":978,\"damaged\":0,\"descriptor\":0}," \
    "{\"name\":\"gfx906_60.ukdb\",\"kernels\":7,\"damaged\":2,\"descriptor\":1}]}"

TEST_F(kilnctl_caches, exported_caches_are_written_under_their_names)
{
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };

    assert_int_equal(RUN(&f->run, "kernel", "export", "--format", "ukdb", f->out), KILN_E_OK);

    assert_string_equal(fake.requests[0], "kernel_export {\"format\":\"ukdb\"}");
    assert_string_equal(scratch_read(f->directory, "out/gfx90a68.ukdb", f->text, 256), "new 0");
    assert_string_equal(scratch_read(f->directory, "out/gfx906_60.ukdb", f->text, 256), "new 1");
    assert_says(f->run.printed, "/out/gfx90a68.ukdb: 978");
    assert_says(f->run.printed, "/out/gfx906_60.ukdb: 7");
    assert_says(f->run.printed, "2 damaged");
}

TEST_F(kilnctl_caches, kernels_of_one_version_are_written_as_miopen_looks_for_them)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68@2.17.0.ukdb\",\"kernels\":7,\"descriptor\":0},"
                 "{\"name\":\"gfx906_60.ukdb\",\"kernels\":2,\"descriptor\":1}]}",
        .files = { "versioned", "plain" },
    };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_OK);
    assert_string_equal(scratch_read(f->directory, "out/gfx90a68.ukdb", f->text, 256), "versioned");
    assert_string_equal(scratch_read(f->directory, "out/gfx906_60.ukdb", f->text, 256), "plain");
    assert_says(f->run.printed, "/out/gfx90a68.ukdb: 7");
    assert_says(f->run.printed, "2.17.0");
}

/* MIOpen 3.5 appends its version to MIOPEN_CUSTOM_CACHE_DIR. */
TEST_F(kilnctl_caches, kernels_of_miopen_3_5_are_found_below_its_version_too)
{
    static const struct {
        const char *given, *name, *link;
    } cases[] = {
        { NULL, "gfx90a68@3.5.0.1a2b.ukdb", "3.5.0.1a2b" },
        { "3.5.1.1a2b", "gfx90a68.ukdb", "3.5.1.1a2b" },
        { "3.5.2", "gfx90a68.ukdb", "3.5.2." },
        { "3.5.2.", "gfx90a68.ukdb", "3.5.2." },
        { "none", "gfx90a68.ukdb", NULL },
        { NULL, "gfx90a68@3.4.0.1a2b.ukdb", NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char reply[200], path[700], target[8], out[600];
        snprintf(reply, sizeof(reply),
                 "{\"files\":[{\"name\":\"%s\",\"kernels\":1,\"descriptor\":0}]}", cases[i].name);
        snprintf(out, sizeof(out), "%s%zu", f->out, i);
        fake.asked = 0;
        fake.answers[0] = (struct fake_answer){ .reply = reply, .files = { "x" } };
        const char *option = cases[i].given ? "--miopen" : "--force";
        int rc = cases[i].given ? RUN(&f->run, "kernel", "export", out, option, cases[i].given)
                                : RUN(&f->run, "kernel", "export", out, option);
        assert_int_equal(rc, KILN_E_OK);
        snprintf(path, sizeof(path), "%s/%s", out, cases[i].link ? cases[i].link : "3.4.0.1a2b");
        assert_int_equal(readlink(path, target, sizeof(target)), cases[i].link ? 1 : -1);
        assert_true(!cases[i].link || target[0] == '.');
    }
}

TEST_F(kilnctl_caches, a_directory_where_a_version_belongs_is_not_replaced)
{
    char path[600];
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68@3.5.0.1.ukdb\",\"kernels\":1,"
                 "\"descriptor\":0}]}",
        .files = { "x" },
    };
    snprintf(path, sizeof(path), "%s/3.5.0.1", f->out);
    assert_int_equal(mkdir(f->out, 0700) | mkdir(path, 0700), 0);
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_IO);
    assert_says(f->run.err.text, "3.5.0.1");
}

TEST_F(kilnctl_caches, an_overlay_with_several_versions_needs_a_choice)
{
    fake.answers[0] =
        (struct fake_answer){ .code = KILN_E_INVALID, .text = "name one of 2.1, none" };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_INVALID);
    assert_says(f->run.err.text, "2.1, none");
    assert_false(scratch_has(f->directory, "out"));
}

TEST_F(kilnctl_caches, the_version_to_export_is_sent_as_it_is_given)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"kernels\":1,\"descriptor\":0}]}",
        .files = { "x" },
    };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out, "--miopen", "none"), KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "kernel_export {\"format\":\"ukdb\",\"version\":\"none\"}");
}

TEST_F(kilnctl_caches, an_export_of_one_device_as_json_lists_its_file)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"kernels\":1,\"descriptor\":0}]}",
        .files = { "x" },
    };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out, "--db-id", "gfx90a68", "--json"),
                     KILN_E_OK);
    assert_says(fake.requests[0], "\"database_id\":\"gfx90a68\"");
    assert_says(f->run.printed, "/out/gfx90a68.ukdb\",\"kernels\":1,\"damaged\":0}],"
                                "\"failures\":[]}\n");
}

TEST_F(kilnctl_caches, an_export_keeps_existing_files_and_writes_the_others)
{
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    assert_int_equal(unlink(f->second), 0);
    assert_int_equal(RUN(&f->run, "kernel", "export", f->directory, "--json"), KILN_E_IO);
    assert_says(f->run.err.text, "--force");
    assert_string_equal(scratch_read(f->directory, "gfx90a68.ukdb", f->text, 256), "first");
    assert_string_equal(scratch_read(f->directory, "gfx906_60.ukdb", f->text, 256), "new 1");
    assert_says(f->run.printed, "\"error\":{\"code\":\"IO\"");
}

TEST_F(kilnctl_caches, an_export_with_force_replaces_files)
{
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->directory, "--force"), KILN_E_OK);
    assert_string_equal(scratch_read(f->directory, "gfx90a68.ukdb", f->text, 256), "new 0");
}

TEST_F(kilnctl_caches, an_export_never_replaces_a_cache_that_is_in_use)
{
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    scratch_write(f->directory, "gfx90a68.ukdb-wal", "log");
    assert_int_equal(RUN(&f->run, "kernel", "export", f->directory, "--force"), KILN_E_BUSY);
    assert_says(f->run.err.text, "in use");
    assert_string_equal(scratch_read(f->directory, "gfx90a68.ukdb", f->text, 256), "first");
}

TEST_F(kilnctl_caches, an_export_writes_only_into_its_directory)
{
    static const char *const replies[] = {
        "{\"files\":[{\"name\":\"../evil.ukdb\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\".hidden\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\"\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\"a.ukdb\",\"descriptor\":1}]}",
        "{\"files\":[{\"name\":\"a.ukdb\"}]}",
    };
    for (unsigned i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        fake.answers[i] = (struct fake_answer){ .reply = replies[i], .files = { "x" } };
        assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_CORRUPT);
    }
    assert_int_equal(entry_count(f->directory, ""), 3); /* including the empty directory */
}

TEST_F(kilnctl_caches, an_export_without_records_creates_no_directory)
{
    fake.answers[0].code = KILN_E_NOT_FOUND;
    fake.answers[1].reply = "{\"files\":[]}";
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_NOT_FOUND);
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "kernel import");
    assert_false(scratch_has(f->directory, "out"));
}

TEST_F(kilnctl_caches, files_of_an_answer_that_cannot_be_read_are_closed)
{
    int before = dup(0);
    close(before);
    fake.answers[0] = (struct fake_answer){ .reply = "[", .files = { "x", "y" } };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_CORRUPT);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}

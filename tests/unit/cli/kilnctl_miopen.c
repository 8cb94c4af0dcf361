/* SPDX-License-Identifier: MIT */

#include "tests/support/failing_calls.h"
#include "tests/unit/cli/overlay_fixture.h"

#include <errno.h>

FIXTURE(kilnctl_miopen, set_up, NULL);

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
    scratch_path(f->directory, "it's mine", f->out);
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

/* An empty system directory in the overlay would hide MIOpen's own databases, so it must not
 * exist. */
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

TEST_F(kilnctl_miopen, a_kind_that_kilnd_lacks_is_no_matter_if_the_systems_part_is_not_used)
{
    answer_all();
    fake.answers[1] = (struct fake_answer){ .reply = "{\"files\":[]}" };
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0"), KILN_E_OK);
    assert_null(strstr(f->reported.text, "db import"));
}

/* If kilnctl does not know MIOpen's version, it knows neither the names of a user's files, nor
 * in which of two formats MIOpen reads a PerfDb. */
TEST_F(kilnctl_miopen, without_a_version_the_users_records_are_in_the_systems_files)
{
    fake.answers[0] = (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.HIP.3_2_0_x.ufdb.txt", 9),
                                            .files = { "a=1\n" } };
    fake.answers[1] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68_1.1.0.udb", 2), .files = { "sqlite" } };
    fake.answers[2] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.db.txt", 2), .files = { "text" } };
    fake.answers[3] = (struct fake_answer){ .code = KILN_E_INVALID };
    fake.answers[4] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"descriptor\":0,\"kernels\":1}]}",
        .files = { "of none" }
    };
    fake.answers[5].reply = "{\"packages\":[]}";
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_export {\"kind\":\"find\",\"database_id\":"
                                          "\"gfx90a68\",\"tier\":\"user\",\"merged\":true}");
    assert_says(fake.requests[1], "\"tier\":\"user\",\"merged\":true,\"format\":\"sqlite\"");
    assert_says(fake.requests[2], "\"tier\":\"user\",\"merged\":true,\"format\":\"text\"");
    assert_string_equal(out_text(f, "system/gfx90a68.HIP.fdb.txt"), "a=1\n");
    assert_string_equal(out_text(f, "system/gfx90a68.db"), "sqlite");
    assert_string_equal(out_text(f, "system/gfx90a68.db.txt"), "text");
    assert_string_equal(out_text(f, "cache/gfx90a68.ukdb"), "of none");
    assert_says(f->reported.text, "--miopen");
}

TEST_F(kilnctl_miopen, an_installed_package_is_linked_where_miopen_can_read_it)
{
    char reply[1200], package[512], target[512];
    char head[] = "SQLite format 3_\020_\001\001___";
    scratch_write(f->directory, "p.kdb", head);
    snprintf(reply, sizeof(reply),
             "{\"packages\":[{\"format\":\"kiln\",\"database_id\":\"gfx90a68\",\"path\":\"/x\"},"
             "{\"format\":\"kdb\",\"database_id\":\"gfx90a68\",\"path\":\"%s\",\"kernels\":5}]}",
             scratch_path(f->directory, "p.kdb", package));
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
    char head[] = "SQLite format 3_\020_\002\002___"; /* the 2s mean WAL mode */
    scratch_write(f->directory, "p.kdb", head);
    snprintf(reply, sizeof(reply),
             "{\"packages\":[{\"format\":\"kdb\",\"database_id\":\"gfx90a68\",\"path\":\"%s\"}]}",
             scratch_path(f->directory, "p.kdb", package));
    answer_all();
    fake.answers[5].reply = reply;
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    assert_says(f->reported.text, "p.kdb'");
    assert_false(scratch_has(f->directory, "out/system/gfx90a68.kdb"));
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
    assert_false(scratch_has(f->directory, "out"));
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
    assert_false(scratch_has(f->directory, "out/system/gfx90a68.CUDA.fdb.txt"));
    assert_string_equal(out_text(f, "system/gfx90a68.OpenCL.fdb.txt"), "of OpenCL\n");
}

TEST_F(kilnctl_miopen, the_package_of_the_whole_arch_is_linked_as_well)
{
    char reply[1200], packages[2][512], path[600];
    char head[] = "SQLite format 3_\020_\001\001___";
    scratch_write(f->directory, "exact.kdb", head);
    scratch_write(f->directory, "arch.kdb", head);
    snprintf(reply, sizeof(reply),
             "{\"packages\":[{\"format\":\"kdb\",\"database_id\":\"gfx90a68\",\"path\":\"%s\"},"
             "{\"format\":\"kdb\",\"database_id\":\"gfx90a\",\"path\":\"%s\"}]}",
             scratch_path(f->directory, "exact.kdb", packages[0]),
             scratch_path(f->directory, "arch.kdb", packages[1]));
    answer_all();
    fake.answers[5].reply = reply;
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0"), KILN_E_OK);
    static const char *const names[] = { "gfx90a68", "gfx90a" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/system/%s.kdb", f->out, names[i]);
        KILN_AUTO(mem) char *real = realpath(path, NULL);
        KILN_AUTO(mem) char *package = realpath(packages[i], NULL);
        assert_string_equal(real, package);
    }
}

static void install_miopen(struct fixture *f)
{
    char path[512], below[160];
    assert_int_equal(mkdir(scratch_path(f->directory, "db", path), 0700), 0);
    setenv("MIOPEN_SYSTEM_DB_PATH", path, 1);
    for (size_t i = 0; i < miopen_file_count; i++) {
        char name[128];
        if (miopen_files[i].place != MIOPEN_SYSTEM)
            continue;
        snprintf(below, sizeof(below), "db/%s", example(&miopen_files[i], name));
        scratch_write(f->directory, below, "installed");
    }
    scratch_write(f->directory, "db/gfx90a68.db", "not kiln's");
}

TEST_F(kilnctl_miopen, every_file_of_the_installed_miopen_is_seen_in_the_overlay)
{
    install_miopen(f);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0.36bb7fd4a"), KILN_E_OK);
    for (size_t i = 0; i < miopen_file_count; i++) {
        char name[128], below[160];
        snprintf(below, sizeof(below), "system/%s", example(&miopen_files[i], name));
        if (miopen_files[i].place == MIOPEN_SYSTEM)
            assert_string_equal(out_text(f, below), "installed");
    }
    assert_string_equal(out_text(f, "system/gfx90a68.db"), "perf");
    assert_says(f->run.printed, "export MIOPEN_SYSTEM_DB_PATH=");
    /* kilnctl must not advise importing MIOpen's own PerfDb, which MIOpen reads anyway. */
    assert_null(strstr(f->reported.text, "db import"));
}

TEST_F(kilnctl_miopen, a_new_overlay_leads_to_the_files_that_are_installed_now)
{
    char moved[512], path[512];
    install_miopen(f);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0"), KILN_E_OK);
    assert_int_equal(
        rename(scratch_path(f->directory, "db", path), scratch_path(f->directory, "moved", moved)),
        0);
    setenv("MIOPEN_SYSTEM_DB_PATH", moved, 1);
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0", "--force"), KILN_E_OK);
    assert_string_equal(out_text(f, "system/gfx906_60.model"), "installed");
}

TEST_F(kilnctl_miopen, an_overlay_of_a_directory_that_cannot_be_read_to_its_end_is_an_error)
{
    unsigned nth = 1;
    install_miopen(f);
    for (bool failed = true; failed; nth++) {
        answer_all();
        fail_call("readdir", nth, EIO);
        int rc = OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0", "--force");
        failed = calls_failed();
        assert_int_equal(rc, failed ? KILN_E_IO : KILN_E_OK);
        if (failed)
            assert_says(f->run.err.text, "cannot read");
    }
    assert_true(nth > 3);
}

/* At the first FindDb miss, MIOpen 2.20 and later throw an exception if the system directory has no
 * model (*.tn.model). */
TEST_F(kilnctl_miopen,
       without_an_installed_miopen_the_systems_part_is_only_for_those_without_models)
{
    static const struct {
        const char *version;
        bool is_set;
    } cases[] = { { "2.17.0.a82233c22", true },
                  { "2.19.0", true },
                  { "2.20.0", false },
                  { "3.2.0.36bb7fd4a", false },
                  { NULL, false } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[16];
        snprintf(name, sizeof(name), "out%zu", i);
        scratch_path(f->directory, name, f->out);
        answer_all();
        if (!cases[i].version) { /* without a version, kilnctl sends other requests */
            fake.answers[2] = (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.db.txt", 8),
                                                    .files = { "perf" } };
            fake.answers[3] = (struct fake_answer){ .code = KILN_E_NOT_FOUND };
            fake.answers[4] = (struct fake_answer){ .reply = "{\"packages\":[]}" };
        }
        assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", cases[i].version ? "--miopen" : NULL,
                                 cases[i].version),
                         KILN_E_OK);
        assert_int_equal(strstr(f->run.printed, "MIOPEN_SYSTEM_DB_PATH") != NULL, cases[i].is_set);
        assert_int_equal(strstr(f->reported.text, "MIOPEN_SYSTEM_DB_PATH") != NULL,
                         !cases[i].is_set);
    }
}

TEST_F(kilnctl_miopen, the_directory_of_an_overlay_is_not_an_installed_miopen)
{
    char system[600], rocm[512], found[512];
    scratch_path(f->directory, "rocm", rocm);
    overlay_all(f);
    snprintf(system, sizeof(system), "%s/system", f->out);
    setenv("MIOPEN_SYSTEM_DB_PATH", system, 1);
    assert_int_equal(mkdir(rocm, 0700), 0);
    static const char *const below[] = { "rocm/share", "rocm/share/miopen",
                                         "rocm/share/miopen/db" };
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mkdir(scratch_path(f->directory, below[i], found), 0700), 0);
    scratch_write(f->directory, "rocm/share/miopen/db/gfx90a.tn.model", "a model");
    setenv("ROCM_PATH", rocm, 1);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.2.0", "--force"), KILN_E_OK);
    unsetenv("ROCM_PATH");
    assert_string_equal(out_text(f, "system/gfx90a.tn.model"), "a model");
    assert_string_equal(out_text(f, "system/gfx90a68.db"), "perf");
}

static const char *link_text(struct fixture *f, const char *name)
{
    char path[700];
    snprintf(path, sizeof(path), "%s/%s", f->out, name);
    ssize_t size = readlink(path, f->text, sizeof(f->text) - 1);
    f->text[size < 0 ? 0 : size] = '\0';
    return f->text;
}

TEST_F(kilnctl_miopen, the_cache_is_found_with_and_without_miopens_version)
{
    static const struct {
        const char *version, *directory;
    } cases[] = { { "3.5.0.1a2b3c4d5", "cache/3.5.0.1a2b3c4d5" },
                  { "3.5.2", "cache/3.5.2." },
                  { "3.5.2.", "cache/3.5.2." },
                  { "4.0.0.1", "cache/4.0.0.1" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(f->out, sizeof(f->out), "%s/of%zu", f->directory, i);
        answer_all();
        assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", cases[i].version),
                         KILN_E_OK);
        assert_string_equal(link_text(f, cases[i].directory), ".");
    }
    scratch_path(f->directory, "older", f->out);
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "3.4.0.5"), KILN_E_OK);
    assert_string_equal(link_text(f, "cache/3.4.0.5"), "");
}

TEST_F(kilnctl_miopen, the_cache_has_the_version_of_its_kernels_if_none_is_given)
{
    for (int i = 0; i < 3; i++)
        fake.answers[i].reply = "{\"files\":[]}";
    fake.answers[3] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68@3.5.1.1a2b.ukdb\",\"descriptor\":0,"
                 "\"kernels\":3}]}",
        .files = { "kernels" }
    };
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68"), KILN_E_OK);
    assert_string_equal(link_text(f, "cache/3.5.1.1a2b"), ".");
}

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
    scratch_write(f->directory, "out/user/" USER_FIND, "k9=9\n");
    assert_int_equal(chmod(f->out, 0700), 0);
    assert_int_equal(run_harvest(f), KILN_E_OK);
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

/* The directory may contain other files of the user, who chose its mode. */
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
    assert_int_equal(symlink(f->directory, user), 0);
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

/* SPDX-License-Identifier: MIT */
/* Standard tools (cmp, bunzip2, sqlite3) check kilnctl's results. */
#include "tests/integration/cache_steps.h"
#include "tests/integration/host.h"
#include "tests/support/test_data.h"
#include "tests/support/test_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Keys and values as MIOpen writes them. The third key does not describe any problem of kiln. */
#define KEY "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NCHW-FP32-F"
#define OTHER_KEY "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F"
#define ALGORITHM "miopenConvolutionFwdAlgoGEMM"
#define FIRST KEY "=ConvAsm3x3U:0.0321,4096,miopenConvolutionFwdAlgoDirect;ConvOcl:1.5,0," ALGORITHM
#define SECOND OTHER_KEY "=ConvAsm3x3U:0.0213,0,miopenConvolutionFwdAlgoDirect"
#define STRANGE "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-1-NCHW-FP32-F=ConvOcl:2,0," ALGORITHM
#define MIOPEN "2.17.0.a82233c22"
#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define OWN "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"

struct node {
    struct daemon_process daemon;
    struct program_result result;
    const char *in, *system, *own, *out;
};

SET_UP_OF(set_up, struct node)
{
    daemon_process_init(&f->daemon);
    f->daemon.keep_log = true;
    f->daemon.arguments[0] = "--workers=0";
    f->in = test_subdirectory(f->daemon.directory, "in");
    f->out = test_path(f->daemon.directory, "out");
    f->system = test_path(f->in, SYSTEM);
    f->own = test_path(f->in, OWN);
    test_write_text(f->system, FIRST "\n" SECOND "\n" STRANGE "\n");
    test_write_text(f->own, KEY "=MyOwn:0.01,0," ALGORITHM "\n");
    daemon_process_start(&f->daemon);
}

FIXTURE_OF(tuning_cli, struct node, set_up, NULL);

TEST_F(tuning_cli, an_imported_find_db_is_exported_byte_for_byte)
{
    kilnctl_ok(f, "db", "import", f->system);

    assert_says(f->result.output, "3 records");
    assert_says(f->result.output, "kept unchanged");
    assert_says(f->result.output, SYSTEM ":3: ");
    kilnctl_ok(f, "db", "export", f->out);
    shell(f->daemon.directory, "cmp in/" SYSTEM " out/" SYSTEM);
    kilnctl_ok(f, "db", "diff", "system", f->system);
    assert_says(f->result.output, "3 the");
}

TEST_F(tuning_cli, a_directory_is_imported_with_its_packed_files)
{
    shell(f->in, "bzip2 " SYSTEM " && echo nothing >README");
    kilnctl_ok(f, "db", "import", f->in, "--json");
    KILN_AUTO(json) struct json *answer = printed_json(&f->result);
    assert_int_equal(json_count(json_get(answer, "files")), 2);
    assert_int_equal(json_get_u64(answer, "records", 0), 4);
    kilnctl_ok(f, "db", "export", f->out);
    shell(f->daemon.directory, "bunzip2 in/" SYSTEM ".bz2 && cmp in/" SYSTEM " out/" SYSTEM);
}

TEST_F(tuning_cli, genuine_databases_are_exported_unchanged)
{
    static const char *const names[] = { "gfx942130.HIP.fdb.txt", "gfx900_56.OpenCL.fdb.txt" };
    for (size_t i = 0; i < 2; i++) {
        char packed[64], path[512];
        snprintf(packed, sizeof(packed), "%s.bz2", names[i]);
        test_data_path(packed, path);
        kilnctl(f, "db", "import", path);
        /* status 1 means that some lines were no records; genuine files may have such lines */
        assert_true(f->result.status <= 1);
        kilnctl_ok(f, "db", "export", "--force", f->out);
        shell(f->out, "bunzip2 -c '%s' | cmp - %s", path, names[i]);
    }
}

TEST_F(tuning_cli, a_bad_line_is_reported_by_number_and_the_rest_imported)
{
    char reported[320];
    shell(f->in, "sed -i '2s/=.*/=ConvAsm3x3U:fast/' " SYSTEM);
    snprintf(reported, sizeof(reported), "%s:2: ", f->system);

    kilnctl_fails(f, 1, reported, "db", "import", f->system);

    assert_says(f->result.output, "1 line");
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68");
    kilnctl_fails(f, 5, "recorded", "db", "get", OTHER_KEY, "--db-id", "gfx90a68");
}

TEST_F(tuning_cli, a_strict_import_takes_nothing_of_a_file_with_a_bad_line)
{
    kilnctl_ok(f, "db", "import", f->system);
    shell(f->in, "sed -i '2s/=.*/=ConvAsm3x3U:fast/; 1s/0.0321/7/' " SYSTEM);
    kilnctl(f, "db", "import", "--strict", f->system);
    assert_int_equal(f->result.status, 1);
    kilnctl_ok(f, "db", "get", OTHER_KEY, "--db-id", "gfx90a68");
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68");
    assert_says(f->result.output, "0.0321");
}

TEST_F(tuning_cli, imported_records_are_there_after_a_restart)
{
    kilnctl_ok(f, "db", "import", f->system, f->own);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    daemon_process_start(&f->daemon);
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68");
    assert_says(f->result.output, "MyOwn");
    assert_says(f->result.output, "ConvAsm3x3U");
}

TEST_F(tuning_cli, a_problem_is_shown_by_key_and_by_command_line)
{
    kilnctl_ok(f, "db", "import", f->system, f->own);
    kilnctl_ok(f, "db", "get", "--db-id", "gfx90a68", "--json",
               "conv -n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1");
    KILN_AUTO(json) struct json *answer = printed_json(&f->result);
    const struct json *problem = json_first(json_get(answer, "problems"));
    assert_string_equal(json_get_text(problem, "find_key", ""), KEY);
    const struct json *user = json_first(json_get(problem, "find")), *system = json_next(user);
    assert_string_equal(json_get_text(user, "tier", ""), "user");
    assert_string_equal(json_get_text(system, "tier", ""), "system");
    const struct json *entry = json_first(json_get(system, "entries"));
    assert_string_equal(json_get_text(entry, "solver", ""), "ConvAsm3x3U");
    assert_true(json_get_number(entry, "time_ms", 0) == 0.0321);
    assert_int_equal(json_get_u64(entry, "workspace", 0), 4096);
}

TEST_F(tuning_cli, a_neighbour_is_shown_only_when_asked_for)
{
    const char *third = "64-56-56-3x3-64-56-56-128-1x1-1x1-1x1-0-NCHW-FP32-F";
    kilnctl_ok(f, "db", "import", f->system);
    kilnctl_fails(f, 5, "--nearest", "db", "get", third, "--db-id", "gfx90a68");
    kilnctl_ok(f, "db", "get", third, "--db-id", "gfx90a68", "--nearest");
    assert_says(f->result.output, KEY " (batch");
}

TEST_F(tuning_cli, the_keys_of_an_unrecorded_problem_are_shown)
{
    kilnctl_fails(f, 5, "recorded", "db", "get", "--db-id", "gfx90a68",
                  "conv -n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1");
    assert_says(f->result.output, "find key " KEY "\n");
    assert_says(f->result.output,
                "perf key 2x64x56x56x1x3x3x1x64x32x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF\n");
}

TEST_F(tuning_cli, a_text_that_names_no_problem_is_refused_with_its_position)
{
    kilnctl(f, "db", "get", "64-56-", "--db-id", "gfx90a68");
    assert_int_equal(f->result.status, 2);
}

static void run_as_another_user(struct node *f)
{
    need_root();
    run_programs_as(&f->daemon, OTHER_USER);
}

TEST_F(tuning_cli, a_user_changes_only_their_own_records)
{
    kilnctl_ok(f, "db", "import", f->own);
    run_as_another_user(f);
    kilnctl_fails(f, 5, "recorded", "db", "get", KEY, "--db-id", "gfx90a68");
    kilnctl_fails(f, 4, "", "db", "import", f->system);
    kilnctl_fails(f, 4, "", "db", "merge", "--tier", "host", f->own);
    kilnctl_fails(f, 4, "", "db", "promote");
    kilnctl_fails(f, 4, "", "db", "rm", "--uid", "0", "--all", "--yes");
    kilnctl_fails(f, 4, "", "db", "backup", f->out);
    kilnctl_ok(f, "db", "import", "--tier", "user", f->system);
    kilnctl_ok(f, "db", "rm", "--all", "--yes");
    assert_says(f->result.output, "3 records");
    f->daemon.user = 0;
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68");
    assert_says(f->result.output, "MyOwn");
}

TEST_F(tuning_cli, a_file_that_may_not_be_read_is_denied)
{
    run_as_another_user(f);
    assert_int_equal(chmod(f->own, 0), 0);
    kilnctl_fails(f, 4, "Permission denied", "db", "import", "--tier", "user", f->own, f->system);
    assert_says(f->result.output, "3 records");
}

TEST_F(tuning_cli, promoted_records_are_visible_to_all_users)
{
    kilnctl_ok(f, "db", "import", f->own);
    kilnctl_ok(f, "db", "promote", "--db-id", "gfx90a68", "--kind", "find");
    assert_says(f->result.output, "1 added");
    kilnctl_ok(f, "db", "diff", "host", "user", "--db-id", "gfx90a68", "--kind", "find");
    assert_says(f->result.output, "1 the same");
    run_as_another_user(f);
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68");
    assert_says(f->result.output, "host");
}

TEST_F(tuning_cli, a_merge_shows_contradictions_to_recorded_values)
{
    kilnctl_ok(f, "db", "import", f->own);
    shell(f->in, "sed -i 's/0.01/0.02/' " OWN);
    kilnctl_ok(f, "db", "merge", f->own);
    assert_says(f->result.output, "conflict: " KEY);
    kilnctl_ok(f, "db", "get", KEY, "--db-id", "gfx90a68", "--json");
    assert_says(f->result.output, "\"time_ms\":0.01,");
}

TEST_F(tuning_cli, a_system_database_is_dropped_as_a_whole)
{
    kilnctl_ok(f, "db", "import", f->system);
    kilnctl_ok(f, "db", "rm", "--tier", "system", "--db-id", "gfx90a68", "--kind", "find", "--yes");
    kilnctl_fails(f, 5, "recorded", "db", "get", KEY, "--db-id", "gfx90a68");
    kilnctl_ok(f, "db", "stats");
    assert_says(f->result.output, "no system");
}

TEST_F(tuning_cli, a_job_starts_with_all_records_and_returns_its_findings)
{
    char expected[400];
    kilnctl_ok(f, "db", "import", f->system, f->own);

    kilnctl_ok(f, "miopen", "overlay", f->out, "--db-id", "gfx90a68", "--miopen", MIOPEN,
               "--dialect", "new");

    snprintf(expected, sizeof(expected), "export MIOPEN_USER_DB_PATH=%s/user\n", f->out);
    assert_says(f->result.output, expected);
    shell(f->out, "cmp system/" SYSTEM " ../in/" SYSTEM " && cmp user/" OWN " ../in/" OWN);
    shell_says("700 700 700 700", f->out, "echo $(stat -c %%a . system user cache)");
    shell_says("600 600 600", f->out,
               "echo $(stat -c %%a system/" SYSTEM " user/" OWN " .kiln-overlay.json)");
    kilnctl_ok(f, "miopen", "harvest", f->out);
    assert_says(f->result.output, "/user/" OWN ": unchanged");
    assert_says(f->result.output, "nothing new");

    shell(f->out, "echo '" OTHER_KEY "=Found:0.005,0," ALGORITHM "' >>user/" OWN);
    kilnctl_ok(f, "miopen", "harvest", f->out);
    kilnctl_ok(f, "db", "get", OTHER_KEY, "--db-id", "gfx90a68");
    assert_says(f->result.output, "Found");
    kilnctl_ok(f, "miopen", "harvest", f->out);
    assert_says(f->result.output, "nothing new");
}

/* The tables are those that MIOpen makes. */
TEST_F(tuning_cli, a_jobs_perf_db_is_collected_with_its_log)
{
    const char *perf = "2x64x56x56x1x3x3x1x64x32x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF";
    shell(f->in, "printf '%s=ConvAsm3x3U:6,8,3\\n' >gfx90a68_1.1.0.udb.txt", perf);
    kilnctl_ok(f, "db", "import", f->system, f->in);
    kilnctl_ok(f, "miopen", "overlay", f->out, "--db-id", "gfx90a68", "--miopen", MIOPEN);
    shell(f->out, "sqlite3 user/gfx90a68_1.1.0.udb 'pragma journal_mode = wal' "
                  "\"insert into perf_db (solver, config, params) values ('ConvNew', 1, '1,2')\"");
    kilnctl_ok(f, "miopen", "harvest", f->out);
    kilnctl_ok(f, "db", "get", perf, "--db-id", "gfx90a68", "--json");
    assert_says(f->result.output, "\"solver\":\"ConvAsm3x3U\",\"params\":\"6,8,3\"");
    assert_says(f->result.output, "\"solver\":\"ConvNew\",\"params\":\"1,2\"");
    kilnctl_ok(f, "miopen", "harvest", f->out);
    assert_says(f->result.output, "/user/gfx90a68_1.1.0.udb: unchanged\n");
}

TEST(caches, kernels_of_a_job_are_collected)
{
    struct caches *c = *state;
    char out[160], find[200];
    snprintf(out, sizeof(out), "%s/out", c->daemon.directory);
    snprintf(find, sizeof(find), "%s/" CACHE_DEVICE ".HIP.fdb.txt", c->directory);
    use_small_cache(c);
    shell(c->directory, "echo '" FIRST "' >" CACHE_DEVICE ".HIP.fdb.txt");
    daemon_process_start(&c->daemon);
    import_cache(c, c->path);
    expect_status(&c->result, 0, "\"imported\":40");
    kilnctl_ok(c, "pkg", "install", c->path);
    kilnctl_ok(c, "db", "import", find);

    kilnctl_ok(c, "miopen", "overlay", out, "--db-id", CACHE_DEVICE);

    shell_says("40", out, "sqlite3 cache/" CACHE " 'select count(*) from kern_db'");
    shell_says("40", out, "sqlite3 system/" CACHE_DEVICE ".kdb 'select count(*) from kern_db'");
    kilnctl_ok(c, "miopen", "harvest", out);
    assert_says(c->result.output, "nothing new");
    shell(out, "sqlite3 cache/" CACHE " 'pragma journal_mode = wal' \"insert into kern_db "
               "(kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size) select "
               "kernel_name, kernel_args || ' -Dnew', kernel_blob, kernel_hash, "
               "uncompressed_size from kern_db where id = 1\"");
    kilnctl_ok(c, "miopen", "harvest", out);
    assert_says(c->result.output, "/cache/" CACHE ": 41 kernels");
    kilnctl_ok(c, "miopen", "harvest", out);
    assert_says(c->result.output, "nothing new");
}

TEST_F(tuning_cli, a_backup_is_a_database_that_holds_the_records)
{
    char path[200];
    kilnctl_ok(f, "db", "import", f->own);
    snprintf(path, sizeof(path), "%s/copy.db", f->daemon.directory);
    kilnctl_ok(f, "db", "backup", path);
    shell_says("ok", f->daemon.directory, "sqlite3 copy.db 'pragma integrity_check'");
    shell_says("1", f->daemon.directory, "sqlite3 copy.db 'select count(*) from record'");
    kilnctl_fails(f, 1, "already", "db", "backup", path);
    kilnctl_ok(f, "db", "vacuum");
    kilnctl_ok(f, "db", "verify");
    assert_says(f->result.output, "1 record");
    assert_says(f->result.output, "\n0 databases");
}

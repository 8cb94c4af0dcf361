/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "daemon/config/config.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WORDS_MAX 8

struct fixture {
    const char *directory;
    char file[96];
    const char *arguments[WORDS_MAX];
    int argument_count;
    const char *environment[WORDS_MAX];
    struct config config;
    struct kiln_err err;
};

static void add_flag(struct fixture *f, const char *text)
{
    f->arguments[f->argument_count++] = text;
}

static void write_config(struct fixture *f, const char *json)
{
    test_write_text(f->file, json);
    add_flag(f, "--config");
    add_flag(f, f->file);
}

static enum kiln_code load_config(struct fixture *f)
{
    return config_load(f->argument_count, f->arguments, f->environment, &f->config, &f->err);
}

static void load_json(struct fixture *f, const char *json)
{
    write_config(f, json);
    must(load_config(f), f->err);
}

static void expect_invalid(struct fixture *f, const char *says)
{
    assert_int_equal(load_config(f), KILN_INVALID);
    assert_says(f->err.text, says);
}

static const char *origin_of(const struct fixture *f, enum config_key key)
{
    return f->config.entries[key].origin;
}

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    assert_int_equal(chmod(f->directory, 0711), 0);
    snprintf(f->file, sizeof(f->file), "%s/some.json", f->directory);
    add_flag(f, "kilnd");
    add_flag(f, "--compiler=/bin/true");
    setenv("XDG_CONFIG_HOME", f->directory, 1);
}

TEAR_DOWN(tear_down) { assert_true(getuid() != 0 || seteuid(0) == 0); }

FIXTURE(config, set_up, tear_down);

TEST_F(config, without_any_source_each_setting_has_its_default)
{
    load_json(f, "{}");

    assert_int_equal(config_number(&f->config, CONFIG_compile_timeout), 300000);
    assert_int_equal(config_number(&f->config, CONFIG_hot_limit), 512u << 20);
    assert_true(config_number(&f->config, CONFIG_workers) >= 1);
    assert_true(config_number(&f->config, CONFIG_cache_limit) > 0);
    assert_true(config_text(&f->config, CONFIG_socket)[0] == '/');
    assert_string_equal(origin_of(f, CONFIG_hot_limit), "default");
}

TEST_F(config, later_sources_win_and_each_value_remembers_its_origin)
{
    write_config(f, "{\"workers\": 3, \"hot_limit\": \"1GiB\", \"compile_timeout\": 2.5}");
    f->environment[0] = "KILND_HOT_LIMIT=2GiB";
    f->environment[1] = "KILND_WORKERS=5";
    add_flag(f, "--workers");
    add_flag(f, "7");

    must(load_config(f), f->err);

    assert_int_equal(config_number(&f->config, CONFIG_workers), 7);
    assert_string_equal(origin_of(f, CONFIG_workers), "flag --workers");
    assert_int_equal(config_number(&f->config, CONFIG_hot_limit), 2ull << 30);
    assert_string_equal(origin_of(f, CONFIG_hot_limit), "variable KILND_HOT_LIMIT");
    assert_int_equal(config_number(&f->config, CONFIG_compile_timeout), 2500);
    assert_string_equal(origin_of(f, CONFIG_compile_timeout), f->file);
}

TEST_F(config, an_unknown_key_is_refused_with_file_and_key)
{
    write_config(f, "{\"wokers\": 3}");

    expect_invalid(f, f->file);
    assert_says(f->err.text, "'wokers'");
}

TEST_F(config, a_value_of_the_wrong_type_is_refused_with_file_and_key)
{
    write_config(f, "{\"workers\": true}");
    expect_invalid(f, f->file);
    assert_says(f->err.text, "'workers'");
    assert_says(f->err.text, "whole number");
}

TEST_F(config, bad_values_are_refused_by_flag_and_by_variable)
{
    static const char *const bad[] = {
        "--workers=1025",
        "--workers=1.5",
        "--workers=-1",
        "--hot-limit=5 bananas",
        "--hot-limit=",
        "--compile-timeout=soon",
        "--log-level=loud",
        "--log-level=",
        "--hot-limit=99999999999999999999",
        "--hot-limit=18446744073709551615TiB",
        "--socket=",
    };
    write_config(f, "{}");
    int last = f->argument_count++;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        f->arguments[last] = bad[i];
        assert_int_equal(load_config(f), KILN_INVALID);
        assert_says(f->err.text, "flag --");
    }
    f->argument_count--;
    f->environment[0] = "KILND_WORKERS=many";
    expect_invalid(f, "KILND_WORKERS");
}

TEST_F(config, unknown_flags_and_variables_are_refused_by_name)
{
    write_config(f, "{}");
    f->environment[0] = "KILND_SOKET=/tmp/x";
    expect_invalid(f, "KILND_SOKET");
    f->environment[0] = NULL;
    add_flag(f, "--soket=/tmp/x");
    expect_invalid(f, "'--soket'");
}

TEST_F(config, a_duplicate_key_is_refused_with_file_and_key)
{
    write_config(f, "{\"workers\": 3, \"queue\": 5, \"workers\": 4}");

    expect_invalid(f, f->file);
    assert_says(f->err.text, "'workers'");
}

TEST_F(config, limits_too_low_for_any_compiler_are_refused)
{
    /* Each value is too small. compile_output must exceed the largest source, because a compile
     * stores the source in a file. */
    static const char *const flags[] = { "--compile-memory=1023MiB", "--compile-timeout=999ms",
                                         "--compile-cpu=9s", "--compile-output=8MiB" };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        f->argument_count = 2;
        add_flag(f, flags[i]);
        assert_int_equal(load_config(f), KILN_INVALID);
        assert_says(f->err.text, "within");
    }
}

TEST_F(config, a_flag_without_its_value_is_refused)
{
    add_flag(f, "--socket");
    expect_invalid(f, "'--socket'");
}

TEST_F(config, sizes_may_have_the_short_units_of_kilnctl)
{
    load_json(f, "{\"hot_limit\": \"64K\", \"cache_limit\": \"300M\", \"compile_memory\": \"2G\"}");
    assert_int_equal(config_number(&f->config, CONFIG_hot_limit), 64u << 10);
    assert_int_equal(config_number(&f->config, CONFIG_cache_limit), 300u << 20);
    assert_int_equal(config_number(&f->config, CONFIG_compile_memory), 2ull << 30);
}

TEST_F(config, sizes_know_decimal_and_binary_units)
{
    load_json(
        f, "{\"hot_limit\": \"20GB\", \"cache_limit\": \"3 TiB\", \"compile_memory\": 1073741824}");

    assert_int_equal(config_number(&f->config, CONFIG_hot_limit), 20000000000ull);
    assert_int_equal(config_number(&f->config, CONFIG_cache_limit), 3ull << 40);
    assert_int_equal(config_number(&f->config, CONFIG_compile_memory), 1u << 30);
}

TEST_F(config, durations_know_their_units)
{
    load_json(f, "{\"compile_timeout\": \"1250ms\", \"failure_ttl\": \"2h\", \"compile_cpu\": 90}");

    assert_int_equal(config_number(&f->config, CONFIG_compile_timeout), 1250);
    assert_int_equal(config_number(&f->config, CONFIG_failure_ttl), 7200000);
    assert_int_equal(config_number(&f->config, CONFIG_compile_cpu), 90000);
}

TEST_F(config, relative_directories_become_absolute)
{
    load_json(f, "{\"cache_dir\": \"some/cache\"}");
    assert_true(config_text(&f->config, CONFIG_cache_dir)[0] == '/');
    assert_says(config_text(&f->config, CONFIG_cache_dir), "/some/cache");
}

TEST_F(config, a_config_file_that_is_named_must_exist)
{
    add_flag(f, "--config=/nonexistent/kilnd.json");
    assert_int_not_equal(load_config(f), KILN_OK);
    assert_says(f->err.text, "/nonexistent/kilnd.json");
}

TEST_F(config, a_file_that_is_not_json_is_refused_by_name)
{
    write_config(f, "{\"workers\": ");
    expect_invalid(f, f->file);
}

TEST_F(config, a_variable_may_name_the_configuration_file)
{
    char variable[128];
    test_write_text(f->file, "{\"workers\": 4}");
    snprintf(variable, sizeof(variable), "KILND_CONFIG=%s", f->file);
    f->environment[0] = variable;

    must(load_config(f), f->err);

    assert_int_equal(config_number(&f->config, CONFIG_workers), 4);
}

TEST_F(config, a_value_is_described_with_its_origin)
{
    load_json(f, "{\"hot_limit\": \"1024MiB\"}");

    struct json *hot = config_describe(&f->config.entries[CONFIG_hot_limit], CONFIG_hot_limit);

    assert_string_equal(json_get_text(hot, "value", ""), "1GiB");
    assert_string_equal(json_get_text(hot, "origin", ""), f->file);
    json_destroy(hot);
}

/* All users may read the settings. */
TEST_F(config, credentials_in_a_url_are_not_described)
{
    load_json(f, "{\"fleet\": \"https://alice:secret@host/fleet?sig=secret\"}");

    struct json *fleet = config_describe(&f->config.entries[CONFIG_fleet], CONFIG_fleet);

    assert_string_equal(json_get_text(fleet, "value", ""), "https://host/fleet");
    assert_string_equal(config_text(&f->config, CONFIG_fleet),
                        "https://alice:secret@host/fleet?sig=secret");
    json_destroy(fleet);
}

TEST_F(config, printed_values_parse_to_the_same_values)
{
    load_json(f, "{\"hot_limit\": 1000, \"cache_limit\": 1048577, \"compile_timeout\": 1.25}");
    for (int i = 0; i < CONFIG_KEYS; i++) {
        char text[PATH_TEXT_MAX];
        struct setting_value again;
        setting_print(&config_table[i], &f->config.entries[i].value, text, sizeof(text));
        assert_int_equal(setting_parse(&config_table[i], text, &again, &f->err), KILN_OK);
        assert_int_equal(again.number, f->config.entries[i].value.number);
        assert_string_equal(again.text, f->config.entries[i].value.text);
    }
}

TEST_F(config, help_and_version_need_no_configuration)
{
    add_flag(f, "--config=/nonexistent");
    add_flag(f, "--version");
    must(load_config(f), f->err);
    assert_int_equal(f->config.request, CONFIG_VERSION);
}

/* Makes this process an ordinary user, whose XDG directories are the fixture's directory. */
static void become_a_user(const struct fixture *f)
{
    static const char *const names[] = { "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i], f->directory, 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(f->directory, 65534, 65534), 0);
        assert_int_equal(seteuid(65534), 0);
    }
}

static void write_in(const struct fixture *f, const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/kiln/%s", f->directory, name);
    test_write_text(path, text);
}

TEST_F(config, drop_ins_are_read_in_the_order_of_their_names)
{
    char directory[128];
    become_a_user(f);
    snprintf(directory, sizeof(directory), "%s/kiln/kilnd.json.d", f->directory);
    must(fs_make_directories(directory, &f->err), f->err);
    write_in(f, "kilnd.json", "{\"workers\": 2, \"queue\": 10}");
    write_in(f, "kilnd.json.d/20-b.json", "{\"workers\": 4}");
    write_in(f, "kilnd.json.d/10-a.json", "{\"workers\": 3}");
    write_in(f, "kilnd.json.d/30-c.json.off", "{\"workers\": 5}");

    must(load_config(f), f->err);

    assert_int_equal(config_number(&f->config, CONFIG_workers), 4);
    assert_true(strstr(origin_of(f, CONFIG_workers), "kilnd.json.d/20-b.json"));
    assert_int_equal(config_number(&f->config, CONFIG_queue), 10);
}

TEST_F(config, the_default_limit_of_the_cache_is_a_round_number)
{
    char text[64];
    load_json(f, "{}");

    setting_print(&config_table[CONFIG_cache_limit], &f->config.entries[CONFIG_cache_limit].value,
                  text, sizeof(text));

    assert_true(strstr(text, "MiB") || strstr(text, "GiB"));
}

TEST_F(config, temporary_files_go_next_to_a_writable_socket)
{
    char socket[160], directory[128];
    snprintf(directory, sizeof(directory), "%s/not/yet", f->directory);
    snprintf(socket, sizeof(socket), "--socket=%s/kilnd.sock", directory);
    add_flag(f, socket);

    must(load_config(f), f->err);
    must(config_use_socket(&f->config, config_text(&f->config, CONFIG_socket), false, &f->err),
         f->err);

    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), directory);
    assert_string_equal(origin_of(f, CONFIG_socket), "flag --socket");
}

TEST_F(config, a_passed_socket_replaces_the_setting)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/theirs.sock", f->directory);
    add_flag(f, "--socket=/elsewhere/kilnd.sock");
    must(load_config(f), f->err);

    must(config_use_socket(&f->config, path, true, &f->err), f->err);

    assert_string_equal(config_text(&f->config, CONFIG_socket), path);
    assert_string_equal(origin_of(f, CONFIG_socket), "LISTEN_FDS");
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), f->directory);
}

TEST_F(config, temporary_files_go_where_the_compilers_user_may_enter)
{
    char socket[96];
    NEED_ROOT();
    snprintf(socket, sizeof(socket), "--socket=%s/kilnd.sock", f->directory);
    add_flag(f, socket);
    assert_int_equal(chmod(f->directory, 0700), 0);

    must(load_config(f), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), "/tmp");
    add_flag(f, "--compiler-user=root");
    must(load_config(f), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), f->directory);
}

TEST_F(config, keys_next_to_the_configuration_are_trusted)
{
    char keys[128];
    become_a_user(f);

    must(load_config(f), f->err);

    snprintf(keys, sizeof(keys), "%s/kiln/trusted-keys.d", f->directory);
    assert_string_equal(config_text(&f->config, CONFIG_trusted_keys), keys);
    assert_string_equal(config_text(&f->config, CONFIG_require_signature), "no");
}

TEST_F(config, a_text_that_is_no_url_of_a_tree_is_refused)
{
    static const char *const urls[] = { "foo", "/srv/fleet", "file://host/fleet", "s3://bucket",
                                        "http:" };
    static const char *const good[] = { "https://host", "HTTP://host", "file:///srv/fleet", "" };
    char flag[64] = "";
    add_flag(f, flag);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        snprintf(flag, sizeof(flag), "--fleet=%s", urls[i]);
        expect_invalid(f, "flag --fleet");
        assert_says(f->err.text, "file:///");
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(flag, sizeof(flag), "--fleet=%s", good[i]);
        must(load_config(f), f->err);
    }
}

TEST_F(config, a_missing_kiln_transfer_is_not_a_configuration_error)
{
    must(load_config(f), f->err);
    assert_says(config_text(&f->config, CONFIG_transfer), "kiln-transfer");

    add_flag(f, "--transfer=/elsewhere/kiln-transfer");
    must(load_config(f), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_transfer), "/elsewhere/kiln-transfer");
}

TEST_F(config, compilers_of_root_run_as_another_user)
{
    NEED_ROOT();
    must(load_config(f), f->err);
    assert_string_not_equal(config_text(&f->config, CONFIG_compiler_user), "");
    assert_string_not_equal(config_text(&f->config, CONFIG_compiler_user), "root");
    assert_string_equal(origin_of(f, CONFIG_compiler_user), "default");
}

TEST_F(config, compilers_of_an_ordinary_user_run_as_that_user)
{
    become_a_user(f);
    must(load_config(f), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_compiler_user), "");
}

TEST_F(config, a_temp_dir_setting_is_not_replaced)
{
    add_flag(f, "--temp-dir=/some/place");
    must(load_config(f), f->err);
    must(config_use_socket(&f->config, "/run/theirs.sock", true, &f->err), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), "/some/place");
}

TEST_F(config, temporary_files_go_to_tmpdir_or_tmp_when_root_owns_the_socket)
{
    NEED_ROOT();
    become_a_user(f);
    setenv("TMPDIR", f->directory, 1);
    must(load_config(f), f->err);

    must(config_use_socket(&f->config, "/usr/kilnd.sock", true, &f->err), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), f->directory);

    assert_int_equal(chmod(f->directory, 0777), 0); /* any user could replace the files there */
    must(config_use_socket(&f->config, "/usr/kilnd.sock", true, &f->err), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), "/tmp");
    unsetenv("TMPDIR");
    must(config_use_socket(&f->config, "/usr/kilnd.sock", true, &f->err), f->err);
    assert_string_equal(config_text(&f->config, CONFIG_temp_dir), "/tmp");
}

TEST_F(config, a_private_kilnd_has_private_directories_and_reads_no_file)
{
    char path[128];
    become_a_user(f);
    snprintf(path, sizeof(path), "%s/kiln", f->directory);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/kiln/kilnd.json", f->directory);
    test_write_text(path, "{\"no such key\": 1}");
    f->environment[0] = "KILND_CACHE_DIR=/somewhere/else";
    f->environment[1] = "KILND_HOT_LIMIT=2GiB";
    assert_int_equal(load_config(f), KILN_INVALID);
    add_flag(f, "--private");
    add_flag(f, "--drain-timeout=7s");
    must(load_config(f), f->err);
    snprintf(path, sizeof(path), "%s/kiln/private", f->directory);
    assert_string_equal(config_text(&f->config, CONFIG_cache_dir), path);
    assert_string_equal(origin_of(f, CONFIG_socket), "--private");
    assert_int_equal(config_number(&f->config, CONFIG_hot_limit), 2ull << 30);
    assert_int_equal(config_number(&f->config, CONFIG_idle_exit), 60000);
    assert_int_equal(config_number(&f->config, CONFIG_drain_timeout), 7000);
}

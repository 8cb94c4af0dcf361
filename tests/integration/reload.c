/* SPDX-License-Identifier: MIT */
#include "tests/support/daemon_process.h"
#include "tests/support/test_files.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    const char *file;
    const char *awaited;
    size_t log_size; /* size of the log before the last reload */
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    f->file = test_path(f->daemon.directory, "kilnd.json");
    test_write_text(f->file, "{\"workers\": 1, \"hot_limit\": \"64MiB\"}");
    f->daemon.arguments[0] = "--config";
    f->daemon.arguments[1] = f->file;
    f->daemon.arguments[2] = "--queue=500";
    f->daemon.keep_log = true;
    daemon_process_start(&f->daemon);
}

FIXTURE(reload_and_wait, setup, NULL);

static bool log_has(void *context)
{
    struct fixture *f = context;
    KILN_AUTO(mem) char *text = daemon_process_log(&f->daemon);
    return strlen(text) >= f->log_size && strstr(text + f->log_size, f->awaited) != NULL;
}

static void reload_and_wait(struct fixture *f, const char *configuration, const char *words)
{
    KILN_AUTO(mem) char *before = daemon_process_log(&f->daemon);
    f->log_size = strlen(before);
    test_write_text(f->file, configuration);
    assert_int_equal(kill(f->daemon.pid, SIGHUP), 0);
    f->awaited = words;
    if (!holds_in_time(log_has, f))
        fail_msg("the log never said '%s'", words);
}

static void read_setting(struct fixture *f, const char *key, const char *member, char text[256])
{
    run_program(&f->daemon, &f->result, "kilnctl", "config", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *config = result_json(&f->result);
    snprintf(text, 256, "%s", json_get_text(json_get(config, key), member, ""));
}

static void expect_setting(struct fixture *f, const char *key, const char *value)
{
    char text[256];
    read_setting(f, key, "value", text);
    assert_string_equal(text, value);
}

static unsigned long long hot_limit_in_force(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "status", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *status = result_json(&f->result);
    return json_get_u64(json_get(status, "hot"), "limit_bytes", 0);
}

TEST_F(reload_and_wait, a_changed_limit_applies_at_once)
{
    char text[256];
    assert_int_equal(hot_limit_in_force(f), 64u << 20);
    reload_and_wait(f, "{\"workers\": 1, \"hot_limit\": \"32MiB\"}", "all settings are in effect");
    expect_setting(f, "hot_limit", "32MiB");
    read_setting(f, "hot_limit", "origin", text);
    assert_string_equal(text, f->file);
    assert_int_equal(hot_limit_in_force(f), 32u << 20);
}

TEST_F(reload_and_wait, a_removed_key_gets_its_default_again)
{
    reload_and_wait(f, "{\"workers\": 1}", "all settings are in effect");
    expect_setting(f, "hot_limit", "512MiB");
}

TEST_F(reload_and_wait, the_log_level_changes_at_once)
{
    reload_and_wait(f, "{\"workers\": 1, \"log_level\": \"debug\", \"log_format\": \"json\"}",
                    "\"event\":\"reloaded\"");
    expect_setting(f, "log_level", "debug");
}

TEST_F(reload_and_wait, a_changed_setting_that_needs_a_restart_is_shown)
{
    reload_and_wait(f, "{\"workers\": 2, \"require_signature\": \"yes\"}",
                    "wait for a restart: workers, require_signature");
    expect_setting(f, "workers", "1");
    run_program(&f->daemon, &f->result, "kilnctl", "config", "--json", NULL);
    KILN_AUTO(json) struct json *config = result_json(&f->result);
    const struct json *waiting = json_get(json_get(config, "workers"), "after_restart");
    assert_string_equal(json_get_text(waiting, "value", ""), "2");
    run_program(&f->daemon, &f->result, "kilnctl", "config", NULL);
    assert_says(f->result.output, "RESTART");

    reload_and_wait(f, "{\"workers\": 1}", "all settings are in effect");
    run_program(&f->daemon, &f->result, "kilnctl", "config", "--json", NULL);
    assert_null(strstr(f->result.output, "after_restart"));
}

TEST_F(reload_and_wait, a_flag_still_wins_over_the_file)
{
    reload_and_wait(f, "{\"workers\": 1, \"queue\": 7}", "all settings are in effect");
    expect_setting(f, "queue", "500");
}

TEST_F(reload_and_wait, a_broken_file_changes_nothing_and_is_named_with_its_key)
{
    char words[512];
    snprintf(
        words, sizeof(words),
        "the new configuration is invalid, and all settings are unchanged: '%s': key 'hot_limit'",
        f->file);
    reload_and_wait(f, "{\"workers\": 1, \"queue_per_uid\": 5, \"hot_limit\": \"much\"}", words);
    expect_setting(f, "hot_limit", "64MiB");
    expect_setting(f, "queue_per_uid", "20000");
    assert_int_equal(hot_limit_in_force(f), 64u << 20);

    reload_and_wait(f, "{", "all settings are unchanged: ");
    expect_setting(f, "hot_limit", "64MiB");
}

static uint64_t last_reload_successful(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "stats", "--json", NULL);
    KILN_AUTO(json) struct json *stats = result_json(&f->result);
    return json_get_u64(stats, "config_last_reload_successful", 2);
}

TEST_F(reload_and_wait, a_refused_reload_shows_in_status_and_metrics_until_one_is_accepted)
{
    assert_int_equal(last_reload_successful(f), 1);
    reload_and_wait(f, "{\"hot_limit\": \"much\"}", "all settings are unchanged: ");
    assert_int_equal(last_reload_successful(f), 0);
    run_program(&f->daemon, &f->result, "kilnctl", "status", "--json", NULL);
    assert_says(f->result.output, "reload_refused");
    run_program(&f->daemon, &f->result, "kilnctl", "doctor", NULL);
    assert_says(f->result.output, "hot_limit");
    reload_and_wait(f, "{\"workers\": 1}", "all settings are in effect");
    assert_int_equal(last_reload_successful(f), 1);
}

TEST_F(reload_and_wait, an_unavailable_log_format_changes_nothing)
{
    SKIP_IF(access("/run/systemd/journal/socket", F_OK) == 0, "this host has journald");
    reload_and_wait(f, "{\"workers\": 1, \"hot_limit\": \"32MiB\", \"log_format\": \"journal\"}",
                    "log_format journal: cannot reach journald");
    expect_setting(f, "hot_limit", "64MiB");
    expect_setting(f, "log_format", "auto");
}

/* SPDX-License-Identifier: MIT */

#include "cli/kilnctl/show.h"
#include "tests/unit/cli/kilnctl_run.h"

#include <kiln/admin.h>

#include <string.h>

#define ASKED_MAX 16

static struct fake {
    /* one reply for each request; NULL means that the request fails with |code| */
    const char *replies[ASKED_MAX];
    int code;
    unsigned asked;
    char requests[ASKED_MAX][512]; /* "name arguments" */
} fake;

int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err)
{
    (void)client;
    assert_true(fake.asked < ASKED_MAX);
    const char *reply = fake.replies[fake.asked];
    snprintf(fake.requests[fake.asked++], sizeof(fake.requests[0]), "%s %s", call->request,
             call->json ? call->json : "-");
    if (!reply) {
        *err = (struct kiln_error){ .code = fake.code, .text = "the fake says no" };
        return fake.code;
    }
    *ret_json = strdup(reply);
    return KILN_E_OK;
}

int kiln_admin_call(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
                    struct kiln_error *err)
{
    return kiln_admin(client, call, ret_json, err);
}

void kiln_free(void *pointer) { free(pointer); }

struct fixture {
    struct command_run run;
};

SET_UP(set_up) { fake = (struct fake){ 0 }; }

FIXTURE(kilnctl_commands, set_up, NULL);

TEST(kilnctl_commands, every_command_is_complete_and_found_by_its_name)
{
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++) {
        char name[64];
        const char *words[4];
        size_t count = 0;
        size_t used = 0;
        snprintf(name, sizeof(name), "%s", command->name);
        char *rest = NULL;
        for (char *w = strtok_r(name, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
            words[count++] = w;
        assert_ptr_equal(command_find(words, count, &used), command);
        assert_int_equal(used, count);
        assert_non_null(command->run);
        assert_true(*command->summary && *command->help && command->words);
        assert_true(command->least_words <= command->most_words);
    }
}

TEST(kilnctl_commands, no_two_options_of_a_command_share_a_name_or_letter)
{
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++) {
        for (size_t a = 0; a < command->option_count; a++) {
            const struct option *o = &command->options[a];
            assert_true(*o->help);
            assert_true((o->kind == OPTION_FLAG) == (o->value == NULL));
            for (size_t b = 0; b < a; b++) {
                assert_string_not_equal(o->name, command->options[b].name);
                assert_true(!o->letter || o->letter != command->options[b].letter);
            }
            for (size_t b = 0; b < SESSION_OPTION_COUNT; b++) {
                assert_string_not_equal(o->name, session_option_table[b].name);
                assert_true(!o->letter || o->letter != session_option_table[b].letter);
            }
        }
    }
}

TEST(kilnctl_commands, a_part_of_a_name_is_not_a_command)
{
    size_t used = 0;
    assert_null(command_find((const char *[]){ "kernel" }, 1, &used));
    assert_null(command_find((const char *[]){ "kernel", "lsx" }, 2, &used));
    assert_null(command_find((const char *[]){ "stat" }, 1, &used));
    assert_null(command_find(NULL, 0, &used));
}

TEST_F(kilnctl_commands, stats_as_json_is_what_the_daemon_said)
{
    fake.replies[0] = "{\"fetches\":3,\"hits\":{\"hot\":1}}";
    assert_int_equal(RUN(&f->run, "stats", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, "{\"fetches\":3,\"hits\":{\"hot\":1}}\n");
    assert_string_equal(fake.requests[0], "stats -");
}

TEST_F(kilnctl_commands, stats_for_people_name_nested_counters_and_units)
{
    fake.replies[0] = "{\"fetches\":12345,\"hits\":{\"hot\":1},\"store_bytes\":1572864}";
    assert_int_equal(RUN(&f->run, "stats"), KILN_E_OK);
    assert_string_equal(f->run.printed,
                        "fetches      12 345\nhits.hot     1\nstore_bytes  1.5 MiB\n");
}

TEST_F(kilnctl_commands, an_answer_that_is_not_json_is_refused)
{
    fake.replies[0] = "{\"fetches\":";
    fake.replies[1] = "[1]";
    assert_int_equal(RUN(&f->run, "stats"), KILN_E_CORRUPT);
    assert_int_equal(RUN(&f->run, "stats"), KILN_E_CORRUPT);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_commands, config_shows_value_and_origin)
{
    fake.replies[0] = "{\"workers\":{\"value\":2,\"origin\":\"flag --workers\"},"
                      "\"socket\":{\"value\":\"/run/x\",\"origin\":\"default\"}}";
    assert_int_equal(RUN(&f->run, "config"), KILN_E_OK);
    assert_string_equal(f->run.printed, "SETTING  VALUE   ORIGIN\n"
                                        "workers  2       flag --workers\n"
                                        "socket   /run/x  default\n");
}

TEST_F(kilnctl_commands, config_shows_settings_that_wait_for_a_restart)
{
    fake.replies[0] = "{\"workers\":{\"value\":\"2\",\"origin\":\"default\","
                      "\"after_restart\":{\"value\":\"4\",\"origin\":\"/etc/x\"}},"
                      "\"socket\":{\"value\":\"/run/x\",\"origin\":\"default\"}}";
    assert_int_equal(RUN(&f->run, "config"), KILN_E_OK);
    assert_string_equal(f->run.printed, "SETTING  VALUE   ORIGIN   AFTER A RESTART\n"
                                        "workers  2       default  4\n"
                                        "socket   /run/x  default  -\n");
}

TEST_F(kilnctl_commands, kernels_are_listed_over_all_pages)
{
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\",\"size\":10},{\"key\":\"bb\",\"size\":99}],"
                      "\"next\":\"bb\"}";
    fake.replies[1] = "{\"kernels\":[{\"key\":\"cc\",\"size\":50}]}";

    int rc = RUN(&f->run, "kernel", "ls", "--json", "--target", "gfx90a", "--older-than", "30d",
                 "--larger-than", "10");

    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(
        f->run.printed,
        "{\"kernels\":[{\"key\":\"bb\",\"size\":99},{\"key\":\"cc\",\"size\":50}]}\n");
    assert_string_equal(fake.requests[0], "kernel_list {\"target\":\"gfx90a\","
                                          "\"older_than_s\":2592000,\"count\":500}");
    assert_non_null(strstr(fake.requests[1], "\"after\":\"bb\""));
}

TEST_F(kilnctl_commands, imported_kernels_are_listed_with_their_id_and_no_time_of_compiling)
{
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\",\"target\":\"gfx906\",\"compile_s\":0,"
                      "\"database_id\":\"gfx906_60@3.2.0\"},{\"key\":\"bb\",\"target\":\"gfx906\","
                      "\"compile_s\":2}]}";
    assert_int_equal(RUN(&f->run, "kernel", "ls", "--db-id", "gfx906_60"), KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "kernel_list {\"database_id\":\"gfx906_60\",\"count\":500}");
    assert_says(f->run.printed, "DB ID");
    assert_says(f->run.printed, "gfx906_60@3.2.0");
    assert_non_null(strstr(f->run.printed, "            -     0  -\n"));
    assert_null(strstr(f->run.printed, " 0 s"));
    assert_non_null(strstr(f->run.printed, "bb   -     gfx906  -  "));
    assert_non_null(strstr(f->run.printed, "2.00 s"));
}

TEST_F(kilnctl_commands, a_list_stops_its_requests_at_the_limit)
{
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\"},{\"key\":\"bb\"}],\"next\":\"bb\"}";
    assert_int_equal(RUN(&f->run, "kernel", "ls", "--limit", "2", "--json"), KILN_E_OK);
    assert_int_equal(fake.asked, 1);
}

TEST_F(kilnctl_commands, a_list_without_end_is_an_error_and_prints_nothing)
{
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\"}],\"next\":\"aa\"}";
    fake.replies[1] = "{\"kernels\":[{\"key\":\"aa\"}],\"next\":\"aa\"}";
    assert_int_equal(RUN(&f->run, "kernel", "ls", "--json"), KILN_E_CORRUPT);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_commands, an_invalid_key_prefix_is_refused_before_a_request)
{
    assert_int_equal(RUN(&f->run, "kernel", "show", "xyz"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_commands, removing_continues_after_a_failure_and_reports_it)
{
    fake.code = KILN_E_NOT_FOUND;
    fake.replies[1] = "{\"removed\":1}";
    assert_int_equal(RUN(&f->run, "kernel", "rm", "aa", "bb"), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 2);
    assert_non_null(strstr(f->run.err.text, "'aa'"));
    assert_string_equal(f->run.printed, "1 removed\n");
}

TEST_F(kilnctl_commands, removing_as_json_reports_what_failed_and_why)
{
    fake.code = KILN_E_NOT_FOUND;
    fake.replies[1] = "{\"removed\":1}";
    assert_int_equal(RUN(&f->run, "kernel", "rm", "aa", "bb", "--json"), KILN_E_NOT_FOUND);
    assert_int_equal(strncmp(f->run.printed, "{\"removed\":1,\"failures\":[{", 26), 0);
    assert_non_null(strstr(f->run.printed, "\"key\":\"aa\"}]"));
    assert_non_null(strstr(f->run.printed, "\"error\":{\"code\":\"NOT_FOUND\""));
    assert_true(f->run.reported);
}

TEST_F(kilnctl_commands, removing_stops_where_it_is_not_permitted_and_leaves_the_report_to_main)
{
    fake.code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "kernel", "rm", "aa", "bb", "--json"), KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
    assert_string_equal(f->run.printed, "");
    assert_false(f->run.reported);
}

TEST_F(kilnctl_commands, clear_needs_a_selection)
{
    assert_int_equal(RUN(&f->run, "clear", "--yes"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "clear", "--yes", "--all", "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_commands, clear_with_yes_needs_no_confirmation)
{
    fake.replies[0] = "{\"kernels\":3,\"bytes\":4096,\"dry_run\":false}";
    assert_int_equal(RUN(&f->run, "clear", "--target", "gfx90a", "--older-than", "12h", "--yes"),
                     KILN_E_OK);
    assert_says(f->run.printed, "dropped 3");
    assert_says(f->run.printed, "4.0 KiB");
    assert_string_equal(fake.requests[0], "clear {\"target\":\"gfx90a\",\"older_than_s\":43200,"
                                          "\"dry_run\":false}");
}

TEST_F(kilnctl_commands, clear_own_is_sent_to_kilnd_with_further_filters)
{
    fake.replies[0] = fake.replies[1] = "{\"kernels\":1,\"bytes\":0,\"dry_run\":false}";
    assert_int_equal(RUN(&f->run, "clear", "--own", "--yes"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "clear {\"own\":true,\"dry_run\":false}");
    assert_int_equal(RUN(&f->run, "clear", "--own", "--db-id", "gfx906_60@3.2.0", "--yes"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[1], "clear {\"database_id\":\"gfx906_60@3.2.0\",\"own\":true,"
                                          "\"dry_run\":false}");
    assert_int_equal(RUN(&f->run, "clear", "--own", "--all", "--yes"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 2);
}

TEST_F(kilnctl_commands, a_dry_run_of_clear_is_sent_to_kilnd_and_shown_to_the_user)
{
    fake.replies[0] = "{\"kernels\":3,\"bytes\":4096,\"dry_run\":true}";
    assert_int_equal(RUN(&f->run, "clear", "--all", "--dry-run"), KILN_E_OK);
    assert_says(f->run.printed, "would drop");
    assert_says(f->run.printed, "4.0 KiB");
    assert_string_equal(fake.requests[0], "clear {\"all\":true,\"dry_run\":true}");
}

TEST_F(kilnctl_commands, gc_reports_that_the_requested_size_was_missed)
{
    fake.replies[0] = "{\"kernels\":3,\"bytes\":4096,\"store_bytes\":8192}";
    fake.replies[1] = "{\"kernels\":3,\"bytes\":4096,\"store_bytes\":2048}";
    fake.replies[2] = "{\"kernels\":0,\"bytes\":0,\"store_bytes\":8192}";
    assert_int_equal(RUN(&f->run, "gc", "--to", "4K", "--yes"), KILN_E_OK);
    assert_says(f->run.printed, "8.0 KiB");
    assert_says(f->run.printed, "pinned");
    assert_int_equal(RUN(&f->run, "gc", "--to", "4K", "--yes"), KILN_E_OK);
    assert_says(f->run.printed, "dropped 3");
    assert_says(f->run.printed, "4.0 KiB");
    assert_says(f->run.printed, "2.0 KiB");
    assert_int_equal(RUN(&f->run, "gc", "--yes"), KILN_E_OK);
    assert_says(f->run.printed, "dropped 0");
    assert_says(f->run.printed, "8.0 KiB");
}

TEST_F(kilnctl_commands, toolchains_are_probed_for_the_targets_given)
{
    fake.replies[0] =
        "{\"toolchains\":[{\"name\":\"clang\",\"version\":\"19\",\"path\":\"/"
        "c\",\"family\":\"amd\","
        "\"identity\":\"0123456789abcdef\",\"targets\":[{\"target\":\"gfx942\",\"works\":true,"
        "\"detail\":\"\"}]}]}";
    assert_int_equal(RUN(&f->run, "toolchain", "ls", "--probe", "gfx942", "sm_90"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "toolchains {\"probe\":[\"gfx942\",\"sm_90\"]}");
    assert_says(f->run.printed, "0123456789ab");
    assert_says(f->run.printed, "gfx942");
    assert_says(f->run.printed, "yes");
    assert_says(f->run.printed, "ls --all");
}

TEST_F(kilnctl_commands, an_untried_target_is_shown_as_unknown)
{
    fake.replies[0] =
        "{\"toolchains\":[{\"name\":\"clang\",\"targets\":[],\"untried\":[{\"target\":"
        "\"gfx942\",\"detail\":\"no process\"}]}]}";
    assert_int_equal(RUN(&f->run, "toolchain", "ls", "--probe", "gfx942"), KILN_E_OK);
    assert_says(f->run.printed, "not tried");
    assert_says(f->run.printed, "no process");
}

TEST_F(kilnctl_commands, toolchain_ls_all_prints_no_hint_about_all)
{
    fake.replies[0] = "{\"toolchains\":[{\"name\":\"clang\",\"targets\":[]}]}";
    assert_int_equal(RUN(&f->run, "toolchain", "ls", "--all"), KILN_E_OK);
    assert_non_null(strstr(f->run.printed, "clang"));
    assert_null(strstr(f->run.printed, "--all"));
}

TEST_F(kilnctl_commands, terminal_escapes_in_an_answer_are_replaced)
{
    fake.replies[0] = "{\"kernels\":[{\"key\":\"aa\",\"program\":\"\\u001b[2Jx\"}]}";
    assert_int_equal(RUN(&f->run, "kernel", "ls"), KILN_E_OK);
    assert_null(strchr(f->run.printed, '\033'));
    assert_non_null(strstr(f->run.printed, "?[2Jx"));
}

TEST(kilnctl_commands, numbers_are_shown_in_the_unit_of_their_name)
{
    char text[64];
    struct kiln_err why = KILN_ERR_INIT;
    struct json *json = NULL;
    assert_int_equal(json_parse(bytes_of_text("{\"uptime_s\":7500,\"pid\":12345,\"size\":2048,"
                                              "\"ratio\":0.5,\"bad_bytes\":-1}"),
                                "test", &json, &why),
                     0);
    assert_string_equal(show_value("uptime_s", json_get(json, "uptime_s"), text, 64), "2 h 05 m");
    assert_string_equal(show_value("pid", json_get(json, "pid"), text, 64), "12345");
    assert_string_equal(show_value("size", json_get(json, "size"), text, 64), "2.0 KiB");
    assert_string_equal(show_value("ratio", json_get(json, "ratio"), text, 64), "0.5");
    assert_string_equal(show_value("bad_bytes", json_get(json, "bad_bytes"), text, 64), "-1");
    assert_string_equal(show_value("absent", NULL, text, 64), "-");
    json_destroy(json);
}

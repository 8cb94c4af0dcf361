/* SPDX-License-Identifier: MIT */

#include "cli/exit_status.h"
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

struct fixture {
    struct command_run run;
    struct reported reported;
};

SET_UP(set_up) { memset(&fake, 0, sizeof(fake)); }

FIXTURE(kilnctl_db, set_up, NULL);

#define LINE "conv -n 64 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 1"
#define RECORDED                                                                                 \
    "{\"problems\":[{\"driver\":\"" LINE                                                         \
    "\",\"find_key\":\"64-56-56-3x3-F\",\"perf_key\":\"2x64\",\"find\":[{\"tier\":\"user\","     \
    "\"uid\":0,\"database_id\":\"gfx90a68\",\"key\":\"64-56-56-3x3-F\",\"stale\":true,"          \
    "\"entries\":[{\"solver\":\"ConvAsm3x3U\",\"algorithm\":\"miopenConvolutionFwdAlgoDirect\"," \
    "\"time_ms\":0.0321,\"workspace\":4096,\"samples\":7,\"median_ms\":0.0321,\"spread_ms\":"    \
    "0.002,\"measured_at\":1700000000,\"uid\":0,\"device\":\"AMD Instinct\",\"driver\":"         \
    "\"6.2.4\",\"toolchain\":\"hiprtc\",\"stale\":true}]},{\"tier\":\"system\",\"database_id\":" \
    "\"gfx90a6e\","                                                                              \
    "\"key\":\"64-56-56-3x3-2-F\",\"near\":true,\"batch_ratio\":2,\"spatial_ratio\":1,"          \
    "\"entries\":[{\"solver\":\"ConvOcl\",\"algorithm\":\"A\",\"time_ms\":1.5,\"workspace\":0}]" \
    "}],\"perf\":[{\"tier\":\"host\",\"database_id\":\"gfx90a68\",\"key\":\"2x64\",\"entries\":" \
    "[{\"solver\":\"ConvAsm3x3U\",\"params\":\"6,8,3\"}]}]}]}"

TEST_F(kilnctl_db, a_problem_is_shown_with_solvers_times_and_who_measured_them)
{
    fake.answers[0].reply = RECORDED;

    assert_int_equal(RUN(&f->run, "db", "get", LINE, "--db-id", "gfx90a68"), KILN_E_OK);

    assert_string_equal(fake.requests[0],
                        "tuning_show {\"problem\":\"" LINE "\",\"database_id\":\"gfx90a68\"}");
    assert_says(f->run.printed, "64-56-56-3x3-F");
    assert_says(f->run.printed, "2x64");
    assert_says(f->run.printed, "ConvAsm3x3U");
    assert_says(f->run.printed, "miopenConvolutionFwdAlgoDirect");
    assert_says(f->run.printed, "0.0321");
    assert_says(f->run.printed, "user, stale");
    assert_says(f->run.printed, "root");
    assert_says(f->run.printed, "0.002");
    assert_says(f->run.printed, "AMD Instinct");
    assert_says(f->run.printed, "6.2.4");
    assert_says(f->run.printed, "hiprtc");
    assert_says(f->run.printed, "nearest");
    assert_says(f->run.printed, "64-56-56-3x3-2-F");
    assert_says(f->run.printed, "batch 2x");
    assert_says(f->run.printed, "gfx90a6e");
    assert_says(f->run.printed, "6,8,3");
}

TEST_F(kilnctl_db, arguments_after_two_dashes_are_one_problem)
{
    fake.answers[0].reply = RECORDED;
    assert_int_equal(RUN(&f->run, "db", "get", "--db-id", "gfx90a68", "--nearest", "--driver",
                         "6.2", "--toolchain", "clang", "--backend", "OpenCL", "--json", "--",
                         "conv", "-n", "64"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "tuning_show {\"problem\":\"conv -n 64\",\"database_id\":\"gfx90a68\","
                        "\"backend\":\"OpenCL\",\"nearest\":true,\"driver\":\"6.2\",\"toolchain\":"
                        "\"clang\"}");
    assert_says(f->run.printed, "\"solver\":\"ConvAsm3x3U\"");
}

TEST_F(kilnctl_db, a_problem_needs_a_device)
{
    assert_int_equal(RUN(&f->run, "db", "get", LINE), KILN_E_INVALID);
    assert_says(f->run.err.text, "needs --db-id");
    assert_int_equal(fake.asked, 0);
}

#define UNRECORDED                                                 \
    "{\"problems\":[{\"driver\":\"conv -n "                        \
    "1\",\"find_key\":\"64-1\",\"perf_key\":\"2x64\",\"find\":[]," \
    "\"perf\":[]}]}"

TEST_F(kilnctl_db, the_keys_of_an_unrecorded_problem_are_shown)
{
    fake.answers[0].reply = UNRECORDED;
    assert_int_equal(RUN(&f->run, "db", "get", LINE, "--db-id", "gfx90a68"), KILN_E_NOT_FOUND);
    assert_string_equal(f->run.printed,
                        "conv -n 1\nfind key 64-1\nperf key 2x64\nnothing is recorded\n");
    assert_says(f->run.err.text, "gfx90a68");
    assert_says(f->run.err.text, "--nearest");
    assert_int_equal(exit_status_of(f->run.err.code), EXIT_NOT_FOUND);
    fake.answers[1].reply = UNRECORDED;
    assert_int_equal(RUN(&f->run, "db", "get", LINE, "--db-id", "gfx90a68", "--nearest", "--json"),
                     KILN_E_NOT_FOUND);
    assert_says(f->run.printed, "\"find_key\":\"64-1\",\"perf_key\":\"2x64\"");
    assert_says(f->run.printed, "\"error\":{\"code\":\"NOT_FOUND\",\"text\":\"");
    assert_says(f->run.printed, "gfx90a68\"}}");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_db, a_problem_without_an_answer_from_kilnd_is_not_found)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_NOT_FOUND, .text = "" };
    assert_int_equal(RUN(&f->run, "db", "get", LINE, "--db-id", "gfx90a68"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "recorded");
}

#define LEFT_OUT                                                                            \
    "{\"left_out\":2,\"problems\":[{\"driver\":\"conv -n 1\",\"find_key\":\"64-1\","        \
    "\"perf_key\":\"2x64\",\"find\":[{\"tier\":\"host\",\"database_id\":\"gfx90a68\","      \
    "\"stale\":true,\"entries\":[{\"solver\":\"Fresh\",\"time_ms\":2},{\"solver\":\"Old\"," \
    "\"time_ms\":1,\"stale\":true,\"left_out\":true}]},{\"tier\":\"user\",\"entries\":["    \
    "{\"solver\":\"Older\",\"time_ms\":1,\"stale\":true,\"left_out\":true}]}],\"perf\":[]}]}"

TEST_F(kilnctl_db, entries_that_lookups_ignore_are_marked_and_counted)
{
    fake.answers[0].reply = LEFT_OUT;
    assert_int_equal(RUN(&f->run, "db", "get", LINE, "--db-id", "gfx90a68"), KILN_E_OK);
    const char *fresh = strstr(f->run.printed, "Fresh"), *old = strstr(f->run.printed, "Old ");
    assert_true(fresh && old && fresh < old);
    /* Only the entry Old of this record is stale, so Fresh is not marked. */
    assert_says(fresh, "  host  ");
    assert_says(old, "host, left");
    assert_says(f->run.printed, "user, left");
    assert_says(f->run.printed, "2 entries");
    assert_says(f->run.printed, "tuning_stale");
}

TEST_F(kilnctl_db, a_problem_that_kilnd_rejects_is_reported_with_its_message)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_INVALID, .text = "column 3" };
    assert_int_equal(RUN(&f->run, "db", "get", "12-", "--db-id", "gfx90a68"), KILN_E_INVALID);
    assert_string_equal(f->run.err.text, "column 3");
}

TEST_F(kilnctl_db, a_promotion_shows_conflicts_and_counts)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"records\":5,\"entries\":9,\"added\":2,\"replaced\":1,\"conflicts\":1}",
        .progress = { "{\"conflicts\":[{\"key\":\"k\",\"why\":\"1 or 2\"}]}" },
    };
    assert_int_equal(RUN(&f->run, "db", "promote", "--db-id", "gfx90a68", "--kind", "find",
                         "--backend", "HIP", "--problem", "k", "--solver", "S", "--uid", "7"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "tuning_promote {\"database_id\":\"gfx90a68\",\"kind\":\"find\","
                        "\"backend\":\"HIP\",\"problem\":\"k\",\"solver\":\"S\",\"uid\":7}");
    assert_says(f->run.printed, "conflict: k:");
    assert_says(f->run.printed, "5 records");
    assert_says(f->run.printed, "2 added");
    assert_says(f->run.printed, "1 replaced");
    assert_says(f->run.printed, "1 conflict");
}

#define CHANGES                                                                                    \
    "{\"changes\":[{\"uid\":4000000,\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"key\":\"k\"," \
    "\"solver\":\"ConvB\",\"from\":\"\",\"to\":\"ConvB\",\"held\":true}]}"
#define USERS "{\"users\":[{\"uid\":4000000,\"entries\":5,\"promoted\":3,\"changes\":1}]}"

TEST_F(kilnctl_db, a_dry_run_of_a_promotion_shows_changes_and_users)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"records\":5,\"held\":2,\"dry_run\":true}",
        .progress = { CHANGES, USERS },
    };
    assert_int_equal(RUN(&f->run, "db", "promote", "--dry-run"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_promote {\"dry_run\":true}");
    assert_says(f->run.printed, "uid 4000000: find of gfx90a68, k: ConvB: the heuristic -> ConvB "
                                "(held)");
    assert_says(f->run.printed, "5 entries, 3 to promote, 2 held; would decide 1 plan");
    assert_says(f->run.printed, "--uid");
    assert_says(f->run.printed, "nothing was changed");
}

TEST_F(kilnctl_db, a_promotion_lists_users_but_not_every_plan)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"records\":5,\"added\":1}",
        .progress = { CHANGES, USERS },
    };
    assert_int_equal(RUN(&f->run, "db", "promote"), KILN_E_OK);
    assert_null(strstr(f->run.printed, "->"));
    assert_says(f->run.printed, "3 promoted");
}

TEST_F(kilnctl_db, a_promotion_is_undone)
{
    fake.answers[0].reply = "{\"records\":3,\"removed\":2,\"left\":1}";
    assert_int_equal(RUN(&f->run, "db", "promote", "--undo"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_promote {\"undo\":true}");
    assert_says(f->run.printed, "3 records");
    assert_says(f->run.printed, "2 of them removed");
    assert_says(f->run.printed, "1 record left");
}

TEST_F(kilnctl_db, conflicts_of_a_promotion_are_listed_in_json)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"records\":5,\"conflicts\":1}",
        .progress = { "{\"conflicts\":[{\"key\":\"k\",\"why\":\"1 or 2\"}]}" },
    };
    assert_int_equal(RUN(&f->run, "db", "promote", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"conflicts\":1,\"conflicting\":[{\"key\":\"k\",\"why\":\"1 or "
                                "2\"}],\"changes\":[],\"users\":[]}");
}

TEST_F(kilnctl_db, records_are_dropped_by_the_given_filters)
{
    fake.answers[0].reply = "{\"records\":3,\"entries\":4,\"removed\":2,\"replaced\":1}";
    assert_int_equal(RUN(&f->run, "db", "rm", "--yes", "--solver", "S", "--older-than", "2d"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_remove {\"tier\":\"user\",\"solver\":\"S\","
                                          "\"older_than\":172800}");
    assert_says(f->run.printed, "2 records");
    assert_says(f->run.printed, "1 other");
}

TEST_F(kilnctl_db, a_system_database_is_dropped_as_a_whole)
{
    fake.answers[0].reply = "{\"removed\":193590}";
    assert_int_equal(RUN(&f->run, "db", "rm", "--tier", "system", "--db-id", "gfx90a68", "--yes"),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "--db-id");
    assert_says(f->run.err.text, "--kind");
    assert_int_equal(RUN(&f->run, "db", "rm", "--tier", "system", "--db-id", "gfx90a68", "--kind",
                         "find", "--solver", "S", "--yes"),
                     KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "db", "rm", "--tier", "system", "--db-id", "gfx90a68", "--kind",
                         "find", "--yes"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_remove {\"tier\":\"system\",\"database_id\":"
                                          "\"gfx90a68\",\"kind\":\"find\"}");
    assert_says(f->run.printed, "find");
    assert_says(f->run.printed, "gfx90a68");
}

TEST_F(kilnctl_db, db_rm_needs_a_selection_and_a_confirmation)
{
    assert_int_equal(RUN(&f->run, "db", "rm", "--yes"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--db-id");
    assert_says(f->run.err.text, "--all");
    assert_int_equal(RUN(&f->run, "db", "rm", "--all", "--kind", "find", "--yes"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--all");
    assert_int_equal(RUN(&f->run, "db", "rm", "--tier", "mine", "--all"), KILN_E_INVALID);
    FILE *nobody = freopen("/dev/null", "r", stdin);
    assert_non_null(nobody);
    assert_int_equal(RUN(&f->run, "db", "rm", "--all"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--yes");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_db, dropping_another_users_records_needs_an_administrator)
{
    fake.answers[0].code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "db", "rm", "--all", "--uid", "1000", "--yes", "--json"),
                     KILN_E_DENIED);
    assert_string_equal(fake.requests[0],
                        "tuning_remove {\"tier\":\"user\",\"uid\":1000,\"all\":true}");
}

#define STATS                                                                                    \
    "{\"system\":[{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\","          \
    "\"source\":\"gfx90a68.HIP.fdb.txt\",\"records\":193590,\"entries\":1148273,\"rejected\":0," \
    "\"imported_at\":1700000000,\"uid\":0,\"mapped_bytes\":1048576,\"state\":\"ok\"},{\"kind\":" \
    "\"perf\",\"database_id\":\"gfx906_60\",\"records\":1,\"state\":\"damaged\",\"why\":"        \
    "\"its checksum is another\"}],\"host\":{\"records\":4},\"user\":{\"records\":7,\"own\":3}," \
    "\"hits\":{\"system\":1,\"host\":2,\"user\":3},\"misses\":5,\"memory_bytes\":2048,"          \
    "\"policy\":\"warn\"}"

TEST_F(kilnctl_db, statistics_list_imported_databases_and_counts)
{
    fake.answers[0].reply = STATS;
    assert_int_equal(RUN(&f->run, "db", "stats"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_stats -");
    assert_says(f->run.printed, "find HIP");
    assert_says(f->run.printed, "193 590");
    assert_says(f->run.printed, "1.0 MiB");
    assert_says(f->run.printed, "gfx906_60 perf:");
    assert_says(f->run.printed, "user.own");
    assert_says(f->run.printed, "hits.host");
    assert_says(f->run.printed, "memory_bytes");
    assert_says(f->run.printed, "2.0 KiB");
    assert_says(f->run.printed, "policy");
    assert_says(f->run.printed, "warn");
}

TEST_F(kilnctl_db, statistics_without_databases_say_how_to_import)
{
    fake.answers[0].reply = "{\"system\":[],\"misses\":0}";
    fake.answers[1].reply = STATS;
    assert_int_equal(RUN(&f->run, "db", "stats"), KILN_E_OK);
    assert_says(f->run.printed, "db import");
    assert_int_equal(RUN(&f->run, "db", "stats", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"policy\":\"warn\"}");
}

#define STALE                                                                                 \
    "{\"stale\":[{\"tier\":\"user\",\"uid\":0,\"kind\":\"find\",\"database_id\":"             \
    "\"gfx90a68\",\"key\":\"k\",\"solver\":\"S\",\"driver\":\"6.1\",\"toolchain\":\"clang\"," \
    "\"measured_at\":1700000000}]}"

TEST_F(kilnctl_db, stale_entries_are_listed_and_are_no_failure)
{
    fake.answers[0] = (struct fake_answer){ .reply = "{\"checked\":9,\"stale\":1,\"damaged\":0}",
                                            .progress = { STALE } };
    assert_int_equal(
        RUN(&f->run, "db", "verify", "--driver", "6.2", "--toolchain", "c", "--db-id", "gfx90a68"),
        KILN_E_OK);
    assert_string_equal(fake.requests[0], "tuning_verify {\"database_id\":\"gfx90a68\","
                                          "\"driver\":\"6.2\",\"toolchain\":\"c\"}");
    assert_says(f->run.printed, "stale: find");
    assert_says(f->run.printed, "gfx90a68");
    assert_says(f->run.printed, "6.1, clang,");
    assert_says(f->run.printed, ", by root\n");
    assert_says(f->run.printed, "9 records");
    assert_says(f->run.printed, "\n1 entry");
    assert_says(f->run.printed, "\n0 databases");
}

TEST_F(kilnctl_db, records_of_the_host_show_the_user_who_measured_them)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"checked\":9,\"stale\":1,\"damaged\":0}",
        .progress = { "{\"stale\":[{\"tier\":\"host\",\"uid\":4000000000,\"kind\":\"find\","
                      "\"database_id\":\"gfx90a68\",\"key\":\"k\",\"solver\":\"S\","
                      "\"driver\":\"6.1\",\"toolchain\":\"clang\"}]}" }
    };
    fake.answers[1] = fake.answers[0];
    assert_int_equal(RUN(&f->run, "db", "verify"), KILN_E_OK);
    assert_says(f->run.printed, "stale: find");
    assert_says(f->run.printed, "6.1, clang,");
    assert_says(f->run.printed, "4000000000");
    assert_int_equal(RUN(&f->run, "db", "verify", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"stale_entries\":[{\"tier\":\"host\",\"uid\":4000000000,");
}

TEST_F(kilnctl_db, a_verify_that_finds_damage_fails)
{
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"checked\":9,\"unchecked\":7000,\"stale\":1,\"damaged\":2}",
        .progress = { STALE, "{\"damaged\":[{\"what\":\"record 7\",\"why\":\"its "
                             "checksum\"}]}" },
    };
    fake.answers[1] = fake.answers[0];
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "db", "verify");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->reported.text, "damaged: record");
    assert_says(f->run.err.text, "2 tuning");
    assert_says(f->run.printed, "9 records");
    assert_says(f->run.printed, "7 000");
    assert_says(f->run.printed, "1 entry");
    assert_says(f->run.printed, "2 databases");
    reported_begin(&f->reported);
    rc = RUN(&f->run, "db", "verify", "--json");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.printed, "\"damaged\":2,\"stale_entries\":[{\"tier\":\"user\"");
    assert_says(f->run.printed, "\"damaged_parts\":[{\"what\":\"record 7\"");
    assert_says(f->run.printed, "\"error\":{\"code\":\"CORRUPT\"");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_db, a_vacuum_reports_the_freed_space)
{
    fake.answers[0].reply = "{\"freed\":2048,\"bytes\":4096}";
    fake.answers[1] = fake.answers[0];
    fake.answers[2].code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "db", "vacuum"), KILN_E_OK);
    assert_says(f->run.printed, "2.0 KiB");
    assert_says(f->run.printed, "4.0 KiB");
    assert_int_equal(RUN(&f->run, "db", "vacuum", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, "{\"freed\":2048,\"bytes\":4096}\n");
    assert_int_equal(RUN(&f->run, "db", "vacuum"), KILN_E_DENIED);
}

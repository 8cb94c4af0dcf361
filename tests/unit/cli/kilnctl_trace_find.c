/* SPDX-License-Identifier: MIT */

#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include "common/base/fs.h"

#define SMALL "conv -n 1 -c 8 -k 8 -F 1"
#define LARGE "conv -n 2 -c 8 -k 8 -F 1"
#define TRACE                                                     \
    "kiln-trace 1\nprocess 1764288000000000 node7 42 libkiln 1\n" \
    "plan 1 2 hot gfx90a gfx90a68 - Naive " SMALL "\n"            \
    "plan 2 2 hot gfx90a gfx90a68 - - " SMALL "\n"                \
    "plan 3 2 hot gfx90a gfx90a68 - - " LARGE "\n"

#define RECORD(tier) "{\"tier\":\"" tier "\",\"entries\":[{\"solver\":\"S\"}]}"
#define RECORD_OF_KILN(tier) \
    "{\"tier\":\"" tier "\",\"entries\":[{\"solver\":\"S\",\"kilns\":true}]}"
#define SHOWN(find, perf) "{\"problems\":[{\"find\":[" find "],\"perf\":[" perf "]}]}"

struct fixture {
    struct command_run run;
    struct reported reported;
    const char *home;
    char path[512];
};

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    char directory[200];
    f->home = fake_begin();
    f->run.common.json = true;
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    snprintf(directory, sizeof(directory), "%.80s/.cache/kiln/traces/net", f->home);
    must(fs_make_directories_mode(directory, 0700, &err), err);
    scratch_write(directory, "1764288000-node7-42.trace", TRACE);
    for (unsigned i = 0; i < FAKE_MAX; i++)
        fake.answers[i].code = KILN_E_NOT_FOUND;
}

FIXTURE(kilnctl_trace_find, set_up, NULL);

TEST_F(kilnctl_trace_find, each_problem_is_looked_up_once_in_the_order_of_first_use)
{
    fake.answers[0].reply = SHOWN(RECORD("user"), RECORD("host"));
    must(RUN(&f->run, "trace", "find", "net"), f->run.err);
    assert_int_equal(fake.asked, 2);
    assert_says(fake.requests[0], "tuning_show {\"problem\":\"conv -n 1 -c 8 ");
    assert_says(fake.requests[0], "\"database_id\":\"gfx90a68\"");
    assert_says(fake.requests[1], "conv -n 2 ");
    assert_says(f->run.printed, "{\"problems\":2,\"found\":1,\"missing\":1,\"perf\":1,");
    assert_says(f->run.printed, "\"find\":\"user\",\"perf\":\"host\"}");
}

TEST_F(kilnctl_trace_find, records_of_kilns_solvers_are_no_records_for_miopen)
{
    fake.answers[0].reply = SHOWN(RECORD_OF_KILN("user"), "");
    fake.answers[1].reply = SHOWN(RECORD_OF_KILN("user") "," RECORD("system"), "");
    must(RUN(&f->run, "trace", "find", "net"), f->run.err);
    assert_says(f->run.printed, "\"found\":1,\"missing\":1,");
    assert_says(f->run.printed, "\"find\":\"system\"");
}

TEST_F(kilnctl_trace_find, missing_problems_are_printed_for_miopendriver)
{
    f->run.common.json = false;
    fake.answers[0].reply = SHOWN(RECORD("user"), "");
    must(RUN(&f->run, "trace", "find", "net", "--missing"), f->run.err);
    assert_int_equal(strncmp(f->run.printed, "conv -n 2 -c 8 ", 15), 0);
    assert_null(strstr(f->run.printed, "conv -n 1"));
    fake.asked = 0;
    must(RUN(&f->run, "trace", "find", "net"), f->run.err);
    assert_says(f->run.printed, "2 problems: 1 with ");
}

TEST_F(kilnctl_trace_find, a_log_may_have_other_lines_and_needs_a_device)
{
    scratch_create(
        f->home, "log",
        "epoch 1, loss 0.3\n"
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 4 -c 8 -H 8 "
        "-W 8 -k 8 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1\n"
        "MIOpen(HIP): Command [LogCmdPooling] ./bin/MIOpenDriver pool -M 0\n",
        f->path);
    assert_int_equal(RUN(&f->run, "trace", "find", f->path), KILN_E_INVALID);
    assert_says(f->run.err.text, "--db-id");
    must(RUN(&f->run, "trace", "find", f->path, "--db-id", "gfx90a68"), f->run.err);
    assert_says(f->run.printed, "{\"problems\":1,\"found\":0,\"missing\":1,\"perf\":0,"
                                "\"unreadable\":1,");
    scratch_create(f->home, "other", "nothing of MIOpen's\n", f->path);
    assert_int_equal(RUN(&f->run, "trace", "find", f->path, "--db-id", "gfx90a68"), KILN_E_INVALID);
}

TEST_F(kilnctl_trace_find, a_kilnd_that_is_away_fails_the_command)
{
    fake.answers[0].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "trace", "find", "net"), KILN_E_UNAVAILABLE);
    assert_int_equal(fake.asked, 1);
}

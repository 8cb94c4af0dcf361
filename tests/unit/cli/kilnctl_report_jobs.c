/* SPDX-License-Identifier: MIT */
/* Tests the pages of jobs in `kilnctl report`. */
#include "cli/kilnctl/report_page.h"
#include "tests/unit/cli/kilnctl_run.h"
#include "tests/unit/cli/scratch_directory.h"

#include "common/base/fs.h"

#include <string.h>

#define HOSTILE "<script>alert(1)</script>\"'&amp;"
#define KEY(digit) #digit "5ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e0000"
#define PLAN "gfx90a gfx90a68 - - conv -n "
/* A process of node7 that started |second| seconds after the test's first process. */
#define HEAD(second, pid) "kiln-trace 1\nprocess 17642880" second "000000 node7 " pid " libkiln 1\n"

struct fixture {
    struct command_run run;
    const char *home;
    char directory[128]; /* the trace directory of the job "net" */
    char file[80];
    char *page; /* owned */
};

static void make_job(const struct fixture *f, const char *job, char directory[128])
{
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(directory, 128, "%.80s/.cache/kiln/traces/%.16s", f->home, job);
    must(fs_make_directories_mode(directory, 0700, &err), err);
}

SET_UP(set_up)
{
    f->home = test_directory();
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    snprintf(f->file, sizeof(f->file), "%s/job.html", f->home);
    make_job(f, "net", f->directory);
}

TEAR_DOWN(tear_down) { free(f->page); }

FIXTURE(kilnctl_report_jobs, set_up, tear_down);

static void write_trace(const struct fixture *f, const char *name, const char *text)
{
    scratch_write(f->directory, name, text);
}

/* Returns the summary of the job "net" as JSON. */
static const char *summary(struct fixture *f)
{
    f->run.common.json = true;
    must(RUN(&f->run, "report", "--job", "net", "--json"), f->run.err);
    return f->run.printed;
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

/* If scripts/look-report names a directory, stores the page there for a browser. */
static void read_page(struct fixture *f, const char *kept_name)
{
    char path[512];
    const char *directory = getenv("KILN_LOOK_DIRECTORY");
    must(RUN(&f->run, "report", "--job", "net", "-o", f->file), f->run.err);
    f->page = strdup(test_read_text(f->file));
    if (!directory)
        return;
    snprintf(path, sizeof(path), "%s/%s.html", directory, kept_name);
    test_write_text(path, f->page);
}

/* Lines of traces.  |times|: wanted, waited; in microseconds */
#define PLAN_LINE(times, tier, number) "plan " times " " tier " " PLAN number "\n"
#define OBJECT_LINE(tier, compile, key) "object " tier " " compile " " KEY(key) "\n"
#define KERNEL_LINE(kind, times, tier, compile, key) \
    kind " " times " " tier " " compile " sm_90 " KEY(key) "\n"

#define EACH_CAUSE                                            \
    PLAN_LINE("10 4000000", "compiled", "1")                  \
    OBJECT_LINE("compiled", "3500000", 1)                     \
    OBJECT_LINE("hot", "99000000", 2)                         \
    PLAN_LINE("20 3000000", "compiled", "2")                  \
    OBJECT_LINE("compiled", "3500000", 3)                     \
    PLAN_LINE("30 500000", "compiled", "3")                   \
    KERNEL_LINE("kernel", "40 250000", "fleet", "0", 4)       \
    KERNEL_LINE("kernel", "50 125000", "package", "0", 5)     \
    PLAN_LINE("60 2000", "hot", "4")                          \
    PLAN_LINE("70 4000", "disk", "5")                         \
    KERNEL_LINE("compile", "80 7000000", "own", "6000000", 6) \
    PLAN_LINE("90 1000000", "failed", "6")

/* Of the plans that kilnd compiled, the second waited for less time than its compile took, and the
 * third has no object that the process had not requested before. */
TEST_F(kilnctl_report_jobs, each_wait_counts_for_one_cause)
{
    write_trace(f, "1764288000-node7-1.trace", HEAD("00", "1") EACH_CAUSE);
    const char *json = summary(f);
    assert_says(json, "\"compiled\":{\"waited_s\":4,\"count\":1}");
    assert_says(json, "\"joined\":{\"waited_s\":3.5,\"count\":2}");
    assert_says(json, "\"own\":{\"waited_s\":7,\"count\":1}");
    assert_says(json, "\"fleet\":{\"waited_s\":0.25,\"count\":1}");
    assert_says(json, "\"package\":{\"waited_s\":0.125,\"count\":1}");
    assert_says(json, "\"look_up\":{\"waited_s\":0.006,\"count\":2}");
    assert_says(json, "\"failed\":{\"waited_s\":1,\"count\":1}");
    assert_says(json, "\"cold\":true,\"waited_s\":15.881,\"longest_s\":15.881");
}

TEST_F(kilnctl_report_jobs, plans_for_which_the_job_did_not_wait_have_no_cause)
{
    write_trace(f, "1764288000-node7-1.trace",
                HEAD("00", "1") PLAN_LINE("10 2000", "hot", "1") PLAN_LINE("20 0", "compiled", "2")
                    OBJECT_LINE("compiled", "3500000", 1));
    const char *json = summary(f);
    assert_says(json, "\"compiled\":{\"waited_s\":0,\"count\":0}");
    assert_says(json, "\"look_up\":{\"waited_s\":0.002,\"count\":1}");
    assert_says(json, "\"cold\":false,\"waited_s\":0.002");
}

TEST_F(kilnctl_report_jobs, a_prefetch_saves_waits_for_kilnd_but_not_for_other_compilers)
{
    write_trace(f, "1764288000-node7-1.trace", HEAD("00", "1") EACH_CAUSE);
    /* 4 + 3.5 + 0.25 + 0.125 seconds, minus five look-ups of 2 ms */
    assert_says(summary(f), "\"prefetch_would_save_s\":7.865");
}

TEST_F(kilnctl_report_jobs, of_two_processes_only_the_first_started_the_compile)
{
    write_trace(f, "1764288000-node7-1.trace",
                HEAD("00", "1") PLAN_LINE("1500000 9000000", "compiled", "1")
                    OBJECT_LINE("compiled", "5000000", 1));
    write_trace(f, "1764288001-node7-2.trace",
                HEAD("01", "2") PLAN_LINE("400000 9100000", "compiled", "1")
                    OBJECT_LINE("compiled", "5000000", 1));
    write_trace(f, "1764288002-node8-3.trace",
                "kiln-trace 1\nprocess 1764288002000000 node8 3 libkiln 1\n" PLAN_LINE(
                    "0 8000000", "compiled", "1") OBJECT_LINE("compiled", "5000000", 1));
    const char *json = summary(f);
    assert_says(json, "\"processes\":3,\"hosts\":2");
    assert_says(json, "\"compiled\":{\"waited_s\":17.1,\"count\":2}");
    assert_says(json, "\"joined\":{\"waited_s\":9,\"count\":1}");
    assert_says(json, "\"longest_s\":9.1");
}

TEST_F(kilnctl_report_jobs, a_run_ends_after_its_last_answer)
{
    write_trace(f, "1764288000-node7-1.trace",
                HEAD("00", "1") PLAN_LINE("0 9000000", "compiled", "1")
                    OBJECT_LINE("compiled", "5000000", 1));
    write_trace(f, "1764288008-node7-2.trace", HEAD("08", "2") PLAN_LINE("0 50", "hot", "2"));
    write_trace(f, "1764288010-node7-3.trace", HEAD("10", "3") PLAN_LINE("0 50", "hot", "1"));
    write_trace(f, "1764288014-node7-4.trace", HEAD("14", "4") PLAN_LINE("0 50", "hot", "1"));
    write_trace(f, "1764288024-node7-5.trace", HEAD("24", "5") PLAN_LINE("0 50", "hot", "1"));
    const char *json = summary(f);
    assert_int_equal(count_of(json, "\"start\":"), 3);
    assert_says(json, "\"start\":1764288000,\"processes\":2,\"hosts\":1,\"cold\":true");
    assert_says(json, "\"start\":1764288010,\"processes\":2,\"hosts\":1,\"cold\":false");
    assert_says(json, "\"start\":1764288024,\"processes\":1,\"hosts\":1,\"cold\":false");
}

/* Slurm starts a prolog on each node, which prefetches before the node's processes start. */
TEST_F(kilnctl_report_jobs, a_prefetch_on_a_further_host_begins_no_run)
{
    write_trace(f, "1764288000-node7-1.prefetch", HEAD("00", "1"));
    write_trace(f, "1764288001-node7-2.trace", HEAD("01", "2") PLAN_LINE("0 50", "hot", "1"));
    write_trace(f, "1764288002-node8-3.prefetch",
                "kiln-trace 1\nprocess 1764288002000000 node8 3 libkiln 1\n");
    write_trace(
        f, "1764288003-node8-4.trace",
        "kiln-trace 1\nprocess 1764288003000000 node8 4 libkiln 1\n" PLAN_LINE("0 50", "hot", "1"));
    const char *json = summary(f);
    assert_says(json, "\"processes\":2,\"hosts\":2");
    assert_int_equal(count_of(json, "\"start\":"), 1);
}

TEST_F(kilnctl_report_jobs, a_prefetch_begins_no_run_while_the_run_waits)
{
    write_trace(f, "1764288000-node7-1.trace",
                HEAD("00", "1") PLAN_LINE("0 9000000", "compiled", "1")
                    OBJECT_LINE("compiled", "5000000", 1));
    write_trace(f, "1764288001-node7-2.prefetch", HEAD("01", "2"));
    write_trace(f, "1764288002-node7-3.trace", HEAD("02", "3") PLAN_LINE("0 50", "hot", "1"));
    assert_int_equal(count_of(summary(f), "\"start\":"), 1);
}

TEST_F(kilnctl_report_jobs, a_prefetch_that_starts_with_the_run_is_not_for_this_run)
{
    write_trace(f, "1764288000-node7-1.trace", HEAD("00", "1") PLAN_LINE("0 50", "hot", "1"));
    write_trace(f, "1764288000-node7-2.prefetch", HEAD("00", "2"));
    const char *json = summary(f);
    assert_int_equal(count_of(json, "\"start\":"), 1);
    assert_int_equal(count_of(json, "\"prefetch\":"), 0);
}

/* The second run used two of the three fetched kernels, and compiled a third one. */
TEST_F(kilnctl_report_jobs, a_run_after_a_prefetch_says_what_it_used)
{
    write_trace(f, "1764288000-node7-1.trace",
                HEAD("00", "1") PLAN_LINE("0 900000", "compiled", "1")
                    OBJECT_LINE("compiled", "500000", 1));
    write_trace(f, "1764288001-node7-2.prefetch",
                HEAD("01", "2") OBJECT_LINE("compiled", "5000000", 1)
                    OBJECT_LINE("compiled", "5000000", 2) OBJECT_LINE("compiled", "5000000", 3));
    write_trace(f, "1764288002-node7-3.trace",
                HEAD("02", "3") PLAN_LINE("0 200", "compiled", "1") OBJECT_LINE("hot", "0", 1)
                    OBJECT_LINE("hot", "0", 2) OBJECT_LINE("compiled", "100", 4));
    const char *json = summary(f);
    assert_int_equal(count_of(json, "\"start\":"), 2);
    assert_int_equal(count_of(json, "\"prefetch\":"), 1);
    assert_says(json, "\"prefetch\":{\"fetched\":3,\"used\":2,\"lost\":0,\"unused\":1,"
                      "\"needed\":3,\"missing\":1,\"missing_compiled\":1");
}

TEST_F(kilnctl_report_jobs, the_longest_waits_come_first)
{
    write_trace(f, "1764288000-node7-1.trace", HEAD("00", "1") EACH_CAUSE);
    const char *json = summary(f);
    const char *waits = strstr(json, "\"longest_waits\":[{\"waited_s\":7,\"from\":\"own\"");
    assert_non_null(waits);
    assert_int_equal(count_of(waits, "\"waited_s\""), 9);
    assert_says(waits, "{\"waited_s\":0.002,\"from\":\"hot\",\"processes\":1,"
                       "\"what\":\"conv -n 4\"}]");
}

#define HOSTILE_PLAN "plan 5 900 compiled " HOSTILE " - " HOSTILE " " HOSTILE " conv " HOSTILE "\n"

TEST_F(kilnctl_report_jobs, no_text_of_a_trace_reaches_the_page_unescaped)
{
    write_trace(f, "1764288000-node7-1.trace",
                "kiln-trace 1\nprocess 1764288000000000 " HOSTILE " 1 " HOSTILE "\n" HOSTILE_PLAN);
    read_page(f, "hostile");
    assert_int_equal(strncmp(f->page, REPORT_MARK, strlen(REPORT_MARK)), 0);
    assert_int_equal(count_of(f->page, "<script"), 0);
    /* the problem and the solver of the longest wait */
    assert_int_equal(count_of(f->page, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;amp;"),
                     2);
    assert_int_equal(count_of(f->page, "http"), 1); /* the attribute http-equiv */
    assert_int_equal(count_of(f->page, "url("), 0);
}

#define LARGEST "9007199254740992"

TEST_F(kilnctl_report_jobs, the_largest_numbers_and_damaged_lines_make_a_page)
{
    write_trace(f, "1764288000-node7-1.trace",
                "kiln-trace 1\nprocess " LARGEST " - " LARGEST " x\n"
                "plan " LARGEST " " LARGEST " compiled - - - - conv\nobject compiled " LARGEST
                " " KEY(1) "\nobject x\n");
    write_trace(f, "1764288001-node7-2.trace", "kiln-trace 1\nobject compiled 5 " KEY(2) "\n");
    read_page(f, "largest");
    assert_int_equal(count_of(f->page, "nan"), 0);
    assert_int_equal(count_of(f->page, "inf"), 0);
    assert_says(f->page, "1 damaged lines");
    assert_says(f->page, "</html>");
}

TEST_F(kilnctl_report_jobs, a_job_without_waits_has_a_page_without_a_chart)
{
    write_trace(f, "1764288000-node7-1.trace", HEAD("00", "1") PLAN_LINE("0 0", "hot", "1"));
    read_page(f, "idle");
    assert_says(f->page, "No process waited.");
    assert_int_equal(count_of(f->page, "<svg"), 0);
    assert_int_equal(count_of(f->page, "nan"), 0);
}

TEST_F(kilnctl_report_jobs, a_job_without_traces_has_no_report)
{
    assert_int_equal(RUN(&f->run, "report", "--job", "net", "-o", f->file), KILN_E_NOT_FOUND);
    assert_int_not_equal(access(f->file, F_OK), 0);
    assert_int_equal(RUN(&f->run, "report", "--job", "../net", "-o", f->file), KILN_E_INVALID);
}

static void write_dated_job(const struct fixture *f, unsigned number)
{
    char job[16], directory[128];
    const struct timespec changed[2] = { { .tv_sec = 1764288000 + number },
                                         { .tv_sec = 1764288000 + number } };
    snprintf(job, sizeof(job), "job%02u", number);
    make_job(f, job, directory);
    scratch_write(directory, "1764288000-node7-1.trace",
                  HEAD("00", "1") PLAN_LINE("0 50", "hot", "1"));
    assert_int_equal(utimensat(AT_FDCWD, directory, changed, 0), 0);
}

TEST_F(kilnctl_report_jobs, only_the_newest_jobs_are_in_the_report)
{
    f->run.common.json = true;
    for (unsigned i = 0; i < 12; i++)
        write_dated_job(f, (i * 5) % 12);
    assert_int_equal(rmdir(f->directory), 0);
    must(RUN(&f->run, "report", "--json"), f->run.err);
    assert_int_equal(count_of(f->run.printed, "\"job\":"), 10);
    assert_int_equal(strncmp(f->run.printed, "{\"jobs\":[{\"job\":\"job11\",", 24), 0);
    assert_null(strstr(f->run.printed, "job01"));
    assert_says(f->run.printed, "\"left_out_jobs\":2");
}

/* A job as on a node with eight GPUs: a cold run, a warm one, and one after a prefetch. */
static void write_busy_job(const struct fixture *f)
{
    static const char *const tiers[3][6] = {
        { "compiled", "compiled", "package", "fleet", "compiled", "hot" },
        { "hot", "hot", "disk", "hot", "hot", "disk" },
        { "hot", "hot", "compiled", "hot", "hot", "hot" },
    };
    for (unsigned i = 0; i < 24; i++) {
        char name[64], text[8192];
        unsigned run = i / 8, rank = i % 8, start = run * 3600 + rank / 3;
        int used =
            snprintf(text, sizeof(text), "kiln-trace 1\nprocess %u000000 node7 %u libkiln 1\n",
                     1789900000 + start, 100 + i);
        for (unsigned plan = 0; plan < 24; plan++) {
            const char *tier = tiers[run][plan % 6];
            bool is_compiled = strcmp(tier, "compiled") == 0;
            unsigned waited = is_compiled                    ? 400000 + plan * 60000 - rank * 20000
                              : strcmp(tier, "fleet") == 0   ? 120000
                              : strcmp(tier, "package") == 0 ? 65000
                              : strcmp(tier, "disk") == 0    ? 9000
                                                             : 700;
            used += snprintf(text + used, sizeof(text) - (size_t)used,
                             "plan %u %u %s gfx90a:sramecc+:xnack- gfx90a68 - - conv -n 64 -c %u "
                             "-H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1\n"
                             "object %s 390000 %064u\n",
                             plan * 700000, waited, tier, 8 + 8 * plan, tier, plan);
        }
        if (run == 0)
            used += snprintf(text + used, sizeof(text) - (size_t)used,
                             "compile 900 1700000 own 1600000 - %064u\n"
                             "plan 950 310000 failed gfx90a - - Naive conv -n 3\n",
                             900 + rank);
        snprintf(name, sizeof(name), "%u-node7-%u.trace", 1789900000 + start, 100 + i);
        write_trace(f, name, text);
    }
}

TEST_F(kilnctl_report_jobs, a_page_compares_cold_and_warm_runs)
{
    char prefetch[4096];
    int used = snprintf(prefetch, sizeof(prefetch),
                        "kiln-trace 1\nprocess 1789906000000000 node7 90 kilnctl 1\n");
    write_busy_job(f);
    for (unsigned i = 0; i < 26; i++)
        used += snprintf(prefetch + used, sizeof(prefetch) - (size_t)used,
                         "object compiled 390000 %064u\n", i < 23 ? i : i + 50);
    write_trace(f, "1789906000-node7-90.prefetch", prefetch);
    read_page(f, "job");
    assert_int_equal(count_of(f->page, "<section>"), 1);
    assert_int_equal(count_of(f->page, "<svg"), 3);
    assert_says(f->page, "Job net");
    assert_says(f->page, "cold, 8 processes");
    assert_says(f->page, "warm, 8 processes");
    assert_says(f->page, "after a prefetch, 8 processes");
    assert_says(f->page, "prefetch net");
}

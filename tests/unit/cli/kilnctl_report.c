/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/unit/cli/kilnctl_fake.h"

#include "cli/kilnctl/report_chart.h"
#include "cli/kilnctl/report_html.h"
#include "cli/kilnctl/report_page.h"
#include "tests/unit/cli/report_answers.h"

#include <sys/stat.h>

const char *kiln_version(void) { return "0.1.0"; }

struct fixture {
    struct command_run run;
    const char *directory;
    char file[80];
    char *page; /* owned */
    size_t page_size;
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    test_setenv("HOME", f->directory);
    test_setenv("XDG_CACHE_HOME", NULL);
    snprintf(f->file, sizeof(f->file), "%s/r.html", f->directory);
}

TEAR_DOWN(tear_down) { free(f->page); }

FIXTURE(kilnctl_report, set_up, tear_down);

/* If scripts/look-report names a directory, stores the page there for a browser. */
static void keep_page(const struct fixture *f, const char *name)
{
    char path[512];
    const char *directory = getenv("KILN_LOOK_DIRECTORY");
    if (!directory)
        return;
    snprintf(path, sizeof(path), "%s/%s.html", directory, name);
    test_write(path, bytes_of(f->page, f->page_size));
}

static void write_page(struct fixture *f, const struct report *report)
{
    FILE *out = open_memstream(&f->page, &f->page_size);
    report_write(report, out);
    fclose(out);
}

static void write_busy_page(struct fixture *f)
{
    static const char *const targets[] = { "gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-",
                                           "sm_90", "gfx1030" };
    static const char *const programs[] = { "conv_implicit_gemm_mfma.hip", HOSTILE, "(private)" };
    KILN_AUTO(json) struct json *status = read_json(BUSY_STATUS);
    KILN_AUTO(json) struct json *stats = read_json(BUSY_STATS);
    KILN_AUTO(json) struct json *history = busy_history();
    KILN_AUTO(json) struct json *by_target = busy_accounting("target", targets, 4);
    KILN_AUTO(json) struct json *by_user = busy_accounting("uid", NULL, 5);
    KILN_AUTO(json) struct json *by_program = busy_accounting("program", programs, 3);
    KILN_AUTO(json) struct json *tuning = read_json(BUSY_TUNING);
    KILN_AUTO(json) struct json *coverage = read_json(BUSY_COVERAGE);
    const struct report report = { .host = "gpu-node-17" HOSTILE,
                                   .now = REPORT_END,
                                   .status = status,
                                   .stats = stats,
                                   .history = history,
                                   .by_target = by_target,
                                   .by_user = by_user,
                                   .by_program = by_program,
                                   .tuning = tuning,
                                   .coverage = coverage };
    write_page(f, &report);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

TEST_F(kilnctl_report, hostile_text_in_a_report_is_escaped)
{
    FILE *out = open_memstream(&f->page, &f->page_size);
    html_text(out, HOSTILE "\x80");
    fclose(out);
    assert_string_equal(f->page, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=x "
                                 "&amp;amp; ?[2J?");
}

TEST_F(kilnctl_report, a_name_without_end_is_cut)
{
    char name[5000];
    memset(name, '&', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    FILE *out = open_memstream(&f->page, &f->page_size);
    html_text(out, name);
    fclose(out);
    assert_true(f->page_size < 6000);
    assert_says(f->page, "&hellip;");
    assert_int_equal(count_of(f->page, "&amp;"), 1023);
}

TEST_F(kilnctl_report, no_hostile_name_reaches_the_page_unescaped)
{
    write_busy_page(f);
    keep_page(f, "busy");
    assert_int_equal(count_of(f->page, "<script"), 0);
    assert_null(strchr(f->page, '\x1b'));
    /* HOSTILE occurs in the title, the heading and two tables. */
    assert_int_equal(count_of(f->page, "&lt;script&gt;"), 4);
}

TEST_F(kilnctl_report, the_report_needs_no_other_files)
{
    write_busy_page(f);
    assert_int_equal(count_of(f->page, "http://"), 0);
    assert_int_equal(count_of(f->page, "https://"), 0);
    assert_int_equal(count_of(f->page, "src="), 0);
    assert_int_equal(count_of(f->page, "<link"), 0);
    assert_int_equal(count_of(f->page, "@import"), 0);
    assert_int_equal(count_of(f->page, "url("), 0);
}

TEST_F(kilnctl_report, each_html_element_that_begins_ends)
{
    static const char *const tags[] = { "section", "table", "tbody",  "tr", "td", "th",
                                        "svg",     "g",     "figure", "ul", "li", "dl",
                                        "dt",      "code",  "p",      "div" };
    write_busy_page(f);
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        char begins[16], with_class[16], ends[16];
        snprintf(begins, sizeof(begins), "<%s>", tags[i]);
        snprintf(with_class, sizeof(with_class), "<%s ", tags[i]);
        snprintf(ends, sizeof(ends), "</%s>", tags[i]);
        assert_int_equal(count_of(f->page, begins) + count_of(f->page, with_class),
                         count_of(f->page, ends));
    }
}

TEST_F(kilnctl_report, the_report_of_a_busy_node_shows_its_numbers)
{
    write_busy_page(f);
    assert_int_equal(strncmp(f->page, REPORT_MARK, strlen(REPORT_MARK)), 0);
    /* Two kernels of one program differ in this option, so the report shows it. The report omits
     * options that have the same value in both kernels. */
    assert_says(f->page, "-DTILE=32</code>");
    assert_null(strstr(f->page, "-DGROUPS"));
    assert_says(f->page, "2 d");
    assert_says(f->page, "evicted");
    assert_says(f->page, "<td class=\"n\">9 120</td><td class=\"n\">95.5 %</td>");
    assert_says(f->page, "gfx942:sramecc+:xnack-");
    assert_says(f->page, "97.4 %");
    assert_says(f->page, "gfx942130");
    assert_int_equal(count_of(f->page, "<rect class=\"miss\""),
                     93 * 2 - 1); /* a column for each sample */
    assert_says(f->page, "100.0 %");
}

TEST_F(kilnctl_report, the_hit_rate_at_the_top_is_that_of_the_charts)
{
    KILN_AUTO(json) struct json *stats = read_json("{\"hits\":{\"hot\":90},\"misses\":10}");
    KILN_AUTO(json)
    struct json *history = read_json(
        "{\"now\":1790000000,\"step_s\":21600,"
        "\"samples\":[{\"time\":1789956800,\"span_s\":21600,\"hits\":{\"hot\":2},\"misses\":3,"
        "\"miss_reasons\":{\"uncached\":2}}],"
        "\"current\":{\"time\":1790000000,\"span_s\":60,\"hits\":{\"disk\":1},\"misses\":0}}");
    const struct report report = {
        .host = "node", .now = REPORT_END, .stats = stats, .history = history
    };
    write_page(f, &report);
    assert_says(f->page, "<b>75.0 %</b>");
    assert_says(f->page, "last 12 h");
    assert_says(f->page, "6 h 00 m");
}

TEST_F(kilnctl_report, kernels_of_the_fleet_have_their_own_layer)
{
    KILN_AUTO(json)
    struct json *history = read_json(
        "{\"now\":1790000000,\"step_s\":300,\"samples\":[],"
        "\"current\":{\"time\":1790000000,\"span_s\":60,\"hits\":{\"fleet\":3},\"misses\":1}}");
    KILN_AUTO(json)
    struct json *status = read_json("{\"fleet\":{\"up\":true,\"leases\":\"on\","
                                    "\"shards\":[{\"kernels\":84},{\"target\":\"sm_90\"}]}}");
    const struct report report = { .host = "n", .now = 1, .status = status, .history = history };
    write_page(f, &report);
    assert_int_equal(count_of(f->page, "<rect class=\"fleet\""), 1);
    assert_says(f->page, "75.0 %");
    assert_says(f->page, "its indices have 84 kernels, leases on");
}

TEST_F(kilnctl_report, the_ticks_of_a_chart_are_round)
{
    write_busy_page(f);
    const char *times = strstr(f->page, "class=\"times\"");
    assert_non_null(times);
    for (unsigned i = 0; i < 3; i++) {
        times = strstr(times, "<span>");
        assert_non_null(times);
        assert_int_equal(strncmp(times + strlen("<span>2026-01-01 00"), ":00", 3), 0);
        times++;
    }
    assert_says(f->page, "<span>1 h 00 m</span>");
}

TEST_F(kilnctl_report, the_report_of_an_idle_node_says_that_it_is_empty)
{
    KILN_AUTO(json) struct json *status = read_json(BUSY_STATUS);
    KILN_AUTO(json)
    struct json *history =
        read_json("{\"samples\":[],\"current\":{\"time\":1790000000,\"span_s\":7},\"misses\":0}");
    KILN_AUTO(json) struct json *accounting = read_json("{\"rows\":[],\"total\":{},\"others\":{}}");
    const struct report report = { .host = "new-node",
                                   .now = REPORT_END,
                                   .status = status,
                                   .history = history,
                                   .by_target = accounting,
                                   .by_user = accounting,
                                   .by_program = accounting };
    write_page(f, &report);
    keep_page(f, "empty");
    assert_says(f->page, "class=\"none\"");
    assert_says(f->page, "db import");
    assert_int_equal(count_of(f->page, "<svg"), 0);
    assert_int_equal(count_of(f->page, "nan"), 0);
}

TEST_F(kilnctl_report, the_report_accepts_empty_answers)
{
    const struct report report = { .host = "", .now = 0 };
    write_page(f, &report);
    assert_says(f->page, "</html>");
    assert_says(f->page, "answer is");
}

TEST_F(kilnctl_report, a_chart_column_stays_within_the_chart)
{
    const struct chart_column column = { .time = 150, .span_s = 10, .layers = { 70, 70 } };
    const struct chart chart = { .name = "n",
                                 .classes = { "hot", "disk", "x", "x" },
                                 .words = { "a", "b" },
                                 .columns = &column,
                                 .count = 1,
                                 .begin = 100,
                                 .end = 200,
                                 .top = 100,
                                 .top_label = "100",
                                 .middle_label = "50" };
    FILE *out = open_memstream(&f->page, &f->page_size);
    chart_write(&chart, out);
    fclose(out);
    assert_says(f->page,
                "<rect class=\"hot\" x=\"500.00\" y=\"30.00\" width=\"88.00\" height=\"70.00\"");
    assert_says(f->page,
                "<rect class=\"disk\" x=\"500.00\" y=\"0.00\" width=\"88.00\" height=\"30.00\"");
}

static void answer_all(void)
{
    static const char *const replies[] = { BUSY_STATUS, BUSY_STATS, "{}",        "{}",
                                           "{}",        "{}",       BUSY_TUNING, BUSY_COVERAGE };
    for (size_t i = 0; i < 8; i++)
        fake.answers[i].reply = replies[i];
}

TEST_F(kilnctl_report, report_sends_requests_and_writes_one_file)
{
    struct stat seen;
    answer_all();
    assert_int_equal(RUN(&f->run, "report", "-o", f->file), KILN_E_OK);
    assert_string_equal(fake.requests[3], "accounting {\"by\":\"target\"}");
    assert_string_equal(fake.requests[2], "history {\"step\":21600}");
    assert_int_equal(stat(f->file, &seen), 0);
    assert_true(seen.st_size > 5000);
    assert_int_equal(seen.st_mode & 0777, 0600); /* the page names users and programs */
    assert_int_equal(chmod(f->file, 0644), 0);

    fake.asked = 0; /* the next report replaces this one */
    assert_int_equal(RUN(&f->run, "report", "-o", f->file, "--since", "7d"), KILN_E_OK);
    assert_says(fake.requests[2], "\"since\":");
    assert_int_equal(stat(f->file, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0644); /* the owner has set this mode */
}

TEST_F(kilnctl_report, the_report_works_without_tuning_records_and_gpus)
{
    answer_all();
    fake.answers[6] = (struct fake_answer){ .code = KILN_E_UNAVAILABLE };
    fake.answers[7] = (struct fake_answer){ .code = KILN_E_UNSUPPORTED };
    assert_int_equal(RUN(&f->run, "report", "-o", f->file), KILN_E_OK);
}

TEST_F(kilnctl_report, another_file_of_that_name_stays)
{
    test_write_text(f->file, "my thesis");
    answer_all();
    assert_int_equal(RUN(&f->run, "report", "-o", f->file), KILN_E_INVALID);
    assert_says(f->run.err.text, "not a");
    assert_int_equal(fake.asked, 0);
    assert_string_equal(test_read_text(f->file), "my thesis");
}

TEST_F(kilnctl_report, a_directory_or_no_name_is_refused)
{
    answer_all();
    assert_int_equal(RUN(&f->run, "report"), KILN_E_INVALID);
    assert_says(f->run.err.text, "-o FILE");
    assert_int_not_equal(RUN(&f->run, "report", "-o", f->directory), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "report", "-o", "/dev/null"), KILN_E_INVALID);
}

TEST_F(kilnctl_report, without_kilnd_no_report_is_written)
{
    fake.answers[0].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "report", "-o", f->file), KILN_E_UNAVAILABLE);
    assert_int_not_equal(access(f->file, F_OK), 0);
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/entries.h"
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct command_run run;
    const char *directory;
    char file[80];
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    snprintf(f->file, sizeof(f->file), "%s/kiln.prom", f->directory);
}

TEAR_DOWN(tear_down) {}

FIXTURE(kilnctl_metrics, set_up, tear_down);

static const char *read_content(const struct fixture *f)
{
    static char text[1024];
    FILE *file = fopen(f->file, "r");
    size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[size] = '\0';
    if (file)
        fclose(file);
    return text;
}

#define TEXT "{\"content_type\":\"text/plain\",\"text\":\"# TYPE kiln_up gauge\\nkiln_up 1\\n\"}"

TEST_F(kilnctl_metrics, metrics_prints_kilnds_text_unchanged)
{
    fake.answers[0].reply = TEXT;
    assert_int_equal(RUN(&f->run, "metrics"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "metrics -");
    assert_string_equal(f->run.printed, "# TYPE kiln_up gauge\nkiln_up 1\n");
}

TEST_F(kilnctl_metrics, a_textfile_replaces_the_previous_one)
{
    struct stat seen;
    fake.answers[0].reply = TEXT;
    fake.answers[1].reply = "{\"text\":\"kiln_up 1\\nkiln_clients 2\\n\"}";
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", f->file), KILN_E_OK);
    assert_string_equal(read_content(f), "# TYPE kiln_up gauge\nkiln_up 1\n");
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", f->file), KILN_E_OK);
    assert_string_equal(read_content(f), "kiln_up 1\nkiln_clients 2\n");
    assert_string_equal(f->run.printed, "");
    assert_int_equal(stat(f->file, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0644);
    assert_int_equal(entry_count(f->directory, ""), 1);
}

TEST_F(kilnctl_metrics, the_textfile_says_that_no_kilnd_answers)
{
    fake.answers[0].reply = TEXT;
    fake.answers[1].code = KILN_E_UNAVAILABLE;
    fake.answers[1].text = "no kilnd answers";
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", f->file), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", f->file), KILN_E_UNAVAILABLE);
    assert_says(f->run.err.text, "kilnd");
    assert_says(read_content(f), "\nkiln_up 0\n");
    assert_null(strstr(read_content(f), "\nkiln_up 1\n"));
}

TEST_F(kilnctl_metrics, a_textfile_name_that_node_exporter_ignores_is_refused)
{
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", "/tmp/kiln.txt"), KILN_E_INVALID);
    assert_says(f->run.err.text, ".prom");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_metrics, a_textfile_that_cannot_be_written_is_a_failure)
{
    fake.answers[0].reply = TEXT;
    assert_int_equal(RUN(&f->run, "metrics", "--textfile", "/nowhere/at/all/kiln.prom"), KILN_E_IO);
    assert_says(f->run.err.text, "/nowhere/at/all/kiln.prom");
}

TEST_F(kilnctl_metrics, an_answer_without_a_text_is_refused)
{
    fake.answers[0].reply = "{}";
    assert_int_equal(RUN(&f->run, "metrics"), KILN_E_CORRUPT);
}

#define SUMS(saved, hits)                  \
    "\"saved_s\":" saved ",\"hits\":" hits \
    ",\"compiles\":3,\"compile_s\":6.5,\"kernels\":3,\"bytes\":4096}"
#define NONE "{\"saved_s\":0,\"hits\":0,\"compiles\":0,\"compile_s\":0,\"kernels\":0,\"bytes\":0}"

TEST_F(kilnctl_metrics, saved_time_is_shown_as_a_table)
{
    fake.answers[0].reply = "{\"by\":\"program\",\"since\":0,\"kept\":true,\"total\":{" SUMS(
        "7325", "12345") ","
                         "\"rows\":[{\"program\":\"conv.cl\"," SUMS(
                             "7325", "12345") "],\"others\":" NONE "}";
    assert_int_equal(RUN(&f->run, "stats", "--by", "program"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "accounting {\"by\":\"program\"}");
    assert_says(f->run.printed, "conv.cl");
    assert_says(f->run.printed, "2 h");
    assert_says(f->run.printed, "12 345");
    assert_says(f->run.printed, "total");
    assert_null(strstr(f->run.printed, "others"));
    assert_null(strstr(f->run.printed, "not kept"));
}

TEST_F(kilnctl_metrics, users_have_names_and_others_are_one_row)
{
    fake.answers[0].reply = "{\"by\":\"uid\",\"since\":0,\"kept\":false,\"total\":{" SUMS(
        "9", "4") ","
                  "\"rows\":[{\"uid\":0," SUMS("5", "3") "],\"others\":{" SUMS("4", "1") "}";
    assert_int_equal(RUN(&f->run, "stats", "--by", "uid"), KILN_E_OK);
    assert_says(f->run.printed, "root");
    assert_says(f->run.printed, "others");
    assert_says(f->run.printed, "cache");
}

TEST_F(kilnctl_metrics, an_invalid_choice_for_by_is_refused_with_the_choices)
{
    assert_int_equal(RUN(&f->run, "stats", "--by", "moon"), KILN_E_INVALID);
    assert_says(f->run.err.text, "uid, target,");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_metrics, as_json_it_is_what_kilnd_said)
{
    fake.answers[0].reply = "{\"by\":\"uid\",\"rows\":[]}";
    fake.answers[1].reply = "{\"fetches\":7}";
    assert_int_equal(RUN(&f->run, "stats", "--by", "uid", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, "{\"by\":\"uid\",\"rows\":[]}\n");
    assert_int_equal(RUN(&f->run, "stats", "--json"), KILN_E_OK);
    assert_string_equal(fake.requests[1], "stats -");
    assert_string_equal(f->run.printed, "{\"fetches\":7}\n");
}

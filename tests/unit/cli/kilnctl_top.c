/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

#include "cli/kilnctl/nap.h"
#include "cli/kilnctl/top_page.h"

#define STATS(requests, hot, misses)                                              \
    "{\"requests\":" #requests ",\"fetches\":" #requests ",\"compiles\":" #misses \
    ",\"hits\":{\"hot\":" #hot ",\"disk\":0,\"package\":0},\"misses\":" #misses   \
    ",\"clients\":3,\"hot_bytes\":2048}"
#define STATUS(pid)                                                                       \
    "{\"version\":\"0.1.0\",\"pid\":" #pid ",\"uptime_s\":100,\"store\":{\"kernels\":12," \
    "\"taken_bytes\":1048576,\"limit_bytes\":1073741824}}"
#define IDLE "{\"compiles\":[],\"users\":[],\"others\":{\"running\":0,\"waiting\":0},\"slots\":2}"
#define BUSY                                                                                      \
    "{\"compiles\":[{\"kind\":\"kernel\",\"program\":\"young.cl\",\"target\":\"gfx90a\","         \
    "\"toolchain\":\"clang\",\"age_s\":1.5,\"uid\":90002},{\"kind\":\"kernel\",\"program\":"      \
    "\"a\\u001b[2Jold.cl\",\"target\":\"sm_90\",\"toolchain\":\"nvrtc\",\"age_s\":250,"           \
    "\"prefetch\":true,\"uid\":90001},{\"kind\":\"probe\",\"target\":\"gfx906\",\"age_s\":0.1}]," \
    "\"users\":[{\"uid\":90001,\"running\":1,\"waiting\":7,\"prefetch\":5}],"                     \
    "\"others\":{\"running\":1,\"waiting\":2,\"prefetch\":0},\"slots\":8}"

/* Replaces cli/kilnctl/nap.c. */
static unsigned naps;
void nap_ms(unsigned ms) { naps += ms > 0; }

struct fixture {
    struct command_run run;
    struct top_sample before, now;
    struct top_page page;
};

static struct json *read_json(const char *text)
{
    struct json *j = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(json_parse(bytes_of_text(text), "a test's text", &j, &err), err);
    return j;
}

static struct top_sample make_sample(const char *stats, const char *status, const char *activity,
                                     double at)
{
    return (struct top_sample){ .stats = read_json(stats),
                                .status = read_json(status),
                                .activity = read_json(activity),
                                .at_s = at };
}

SET_UP(set_up)
{
    fake = (struct fake){ 0 };
    naps = 0;
}

TEAR_DOWN(tear_down)
{
    top_sample_done(&f->before);
    top_sample_done(&f->now);
}

FIXTURE(kilnctl_top, set_up, tear_down);

static const char *page_text(const struct top_page *page)
{
    static char text[TOP_LINES_MAX * (TOP_WIDTH_MAX + 2)];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < page->count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", page->lines[i]);
    return text;
}

static const char *show_busy(struct fixture *f, enum top_sort sort, size_t width, size_t height)
{
    if (!f->now.stats)
        f->now = make_sample(STATS(10, 5, 5), STATUS(1), BUSY, 1);
    struct top_rates rates = { .known = false };
    top_page_fill(
        &(struct top_view){
            .sample = &f->now, .rates = &rates, .sort = sort, .width = width, .height = height },
        &f->page);
    return page_text(&f->page);
}

TEST_F(kilnctl_top, rates_refer_to_the_time_between_two_samples)
{
    f->before = make_sample(STATS(100, 50, 50), STATUS(1), IDLE, 10);
    f->now = make_sample(STATS(300, 200, 100), STATUS(1), IDLE, 12);
    struct top_rates r = top_rates_of(&f->before, &f->now);
    assert_true(r.known && r.has_lookups);
    assert_true(r.requests_s == 100 && r.compiles_s == 25);
    assert_true(r.hits_share[TOP_HOT] == 0.75 && r.misses_share == 0.25);
}

#define FLEET(rest) \
    "{\"version\":\"0.1.0\",\"pid\":1,\"uptime_s\":100,\"fleet\":{\"leases\":\"on\"," rest "}}"

static const char *show_fleet(struct fixture *f, const char *status)
{
    top_sample_done(&f->now);
    f->now = make_sample("{\"requests\":4,\"hits\":{\"hot\":1,\"fleet\":3},\"misses\":0}", status,
                         IDLE, 1);
    struct top_rates rates = top_rates_since_start(&f->now);
    top_page_fill(&(struct top_view){ .sample = &f->now, .rates = &rates }, &f->page);
    return page_text(&f->page);
}

TEST_F(kilnctl_top, the_fleet_and_its_share_are_shown)
{
    const char *text = show_fleet(f, FLEET("\"up\":true,\"uploads\":{\"waiting\":7}"));
    assert_says(text, "fleet     75.0 %");
    assert_says(text, "Fleet works   leases on   uploads waiting 7");
    text = show_fleet(f, FLEET("\"up\":false,\"broken_s\":5,\"last_error\":\"no route\""));
    assert_says(text, "Fleet fails since");
    assert_says(text, "no route");
    assert_null(strstr(show_fleet(f, STATUS(1)), "Fleet"));
}

TEST_F(kilnctl_top, a_restarted_kilnd_has_no_rates_yet)
{
    f->before = make_sample(STATS(100, 50, 50), STATUS(1), IDLE, 10);
    f->now = make_sample(STATS(3, 2, 1), STATUS(2), IDLE, 12);
    assert_false(top_rates_of(&f->before, &f->now).known);
    assert_false(top_rates_of(&(struct top_sample){ 0 }, &f->now).known);
    assert_true(top_rates_since_start(&f->now).requests_s == 0.03);
}

TEST_F(kilnctl_top, a_hit_rate_without_requests_is_not_a_number)
{
    f->before = make_sample(STATS(100, 50, 50), STATUS(1), IDLE, 10);
    f->now = make_sample(STATS(101, 50, 50), STATUS(1), IDLE, 11);
    struct top_rates r = top_rates_of(&f->before, &f->now);
    assert_true(r.known && !r.has_lookups && r.misses_share == 0);
}

TEST_F(kilnctl_top, compiles_come_oldest_first_with_age_and_program)
{
    const char *text = show_busy(f, TOP_BY_AGE, 100, 0);
    assert_says(text, "3 of");
    assert_says(text, "by age");
    assert_says(text, "4 m");
    assert_true(strstr(text, "old.cl (ahead)") < strstr(text, "young.cl"));
    assert_says(text, "(tries");
    assert_says(text, "uid 90001");
    assert_says(text, "others");
}

TEST_F(kilnctl_top, compiles_can_be_sorted_by_program_and_by_user)
{
    const char *text = show_busy(f, TOP_BY_PROGRAM, 100, 0);
    assert_true(strstr(text, "(tries") < strstr(text, "old.cl"));
    assert_says(text, "by program");
    text = show_busy(f, TOP_BY_USER, 100, 0);
    assert_true(strstr(text, "young.cl") < strstr(text, "(tries"));
}

TEST_F(kilnctl_top, no_name_in_top_prints_control_characters)
{
    const char *text = show_busy(f, TOP_BY_AGE, 100, 0);
    assert_null(strchr(text, '\x1b'));
    assert_says(text, "a?[2Jold.cl");
}

TEST_F(kilnctl_top, compiles_of_programs_have_a_line_of_their_own)
{
    assert_null(strstr(show_busy(f, TOP_BY_AGE, 100, 0), "NVRTC"));
    top_sample_done(&f->now);
    f->now = make_sample("{\"client_hits\":12,\"client_compiles\":3,\"client_saved_ms\":4500}",
                         STATUS(1), IDLE, 1);
    assert_says(show_busy(f, TOP_BY_AGE, 100, 0), "comgr: 12 answered, 3 stored");
    assert_says(show_busy(f, TOP_BY_AGE, 100, 0), "saved 4.50 s");
}

TEST_F(kilnctl_top, a_small_window_shows_as_much_as_fits)
{
    show_busy(f, TOP_BY_AGE, 20, 5);
    assert_int_equal(f->page.count, 5);
    for (size_t i = 0; i < f->page.count; i++)
        assert_true(strlen(f->page.lines[i]) <= 20);
    show_busy(f, TOP_BY_AGE, 1, 1);
    assert_int_equal(f->page.count, 1);
}

TEST_F(kilnctl_top, top_keeps_the_last_numbers_when_kilnd_has_ended)
{
    struct top_rates rates = { .known = false };
    struct top_view view = { .sample = &f->now, .rates = &rates, .trouble = "no socket" };
    top_page_fill(&view, &f->page);
    assert_says(page_text(&f->page), "no socket");
    f->now = make_sample(STATS(10, 5, 5), STATUS(7), IDLE, 1);
    top_page_fill(&view, &f->page);
    assert_int_equal(f->page.styles[0], TOP_WARNING);
    assert_says(page_text(&f->page), "pid 7");
}

TEST_F(kilnctl_top, the_report_accepts_answers_without_members)
{
    f->now = make_sample("{}", "{}", "{}", 1);
    f->before = make_sample("{}", "{}", "{}", 0);
    struct top_rates rates = top_rates_since_start(&f->now);
    top_page_fill(&(struct top_view){ .sample = &f->now, .rates = &rates }, &f->page);
    assert_says(page_text(&f->page), "0 of");
}

static void answer_twice(void)
{
    static const char *const replies[] = { STATS(100, 50, 50),   IDLE, STATUS(1),
                                           STATS(300, 200, 100), BUSY, STATUS(1) };
    for (size_t i = 0; i < 6; i++)
        fake.answers[i].reply = replies[i];
}

TEST_F(kilnctl_top, top_once_samples_one_second)
{
    answer_twice();
    assert_int_equal(RUN(&f->run, "top", "--once"), KILN_E_OK);
    assert_int_equal(naps, 1);
    assert_int_equal(fake.asked, 6);
    assert_string_equal(fake.requests[1], "activity -");
    assert_says(f->run.printed, "75.0 %");
    assert_says(f->run.printed, "###############.....");
    assert_says(f->run.printed, "young.cl");
}

TEST_F(kilnctl_top, with_json_doctor_prints_one_object)
{
    answer_twice();
    assert_int_equal(RUN(&f->run, "top", "--json"), KILN_E_OK);
    KILN_AUTO(json) struct json *j = read_json(f->run.printed);
    assert_true(json_get_number(json_get(json_get(j, "rates"), "hit_ratio"), "hot", 0) == 0.75);
    assert_int_equal(json_count(json_get(j, "compiles")), 3);
    assert_int_equal(json_get_u64(json_first(json_get(j, "users")), "waiting", 0), 7);
    assert_int_equal(json_get_u64(json_get(j, "others"), "waiting", 0), 2);
}

TEST_F(kilnctl_top, top_once_fails_without_kilnd)
{
    fake.answers[0].code = KILN_E_UNAVAILABLE;
    assert_int_equal(RUN(&f->run, "top", "--once"), KILN_E_UNAVAILABLE);
}

TEST_F(kilnctl_top, top_without_a_terminal_names_the_alternatives)
{
    assert_int_equal(RUN(&f->run, "top"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--once");
    assert_int_equal(fake.asked, 0);
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/nap.h"
#include "cli/kilnctl/top_page.h"
#include "cli/kilnctl/top_sample.h"
#include "cli/kilnctl/top_screen.h"
#include "cli/output.h"
#include "common/base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS 1000
/* Timeout of a request: a kilnd that takes longer to answer counts as absent. The timeout is short
 * because kilnctl reads no keys while it waits for an answer. */
#define ASK_MS 3000
#define ASK_AGAIN_MS 300
#define KEYS "q: quit   s: sort"

struct top_options {
    bool once;
};

static const struct option options[] = {
    { "once", 0, OPTION_FLAG, offsetof(struct top_options, once), NULL,
      "print one page, sampled over a second, and exit; needs no terminal", 0, 0 },
};

struct top {
    const struct invocation *invocation;
    struct top_sample sample;
    struct top_rates rates;
    struct kiln_error err;
    bool failed;
    enum top_sort sort;
    uint64_t due_ns;
};

static int print_one_page(const struct invocation *invocation, struct kiln_error *err)
{
    TOP_SAMPLE_AUTO struct top_sample before = { 0 };
    TOP_SAMPLE_AUTO struct top_sample now = { 0 };
    int rc = top_sample_take(invocation, ASK_MS, &before, err);
    if (!rc)
        nap_ms(EVERY_MS);
    if (!rc)
        rc = top_sample_take(invocation, ASK_MS, &now, err);
    if (rc)
        return rc;
    struct top_rates rates = top_rates_of(&before, &now);
    if (!rates.known)
        rates = top_rates_since_start(&now);
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *all = top_to_json(&now, &rates);
        return output_json(all, err);
    }
    static struct top_page page;
    top_page_fill(&(struct top_view){ .sample = &now, .rates = &rates }, &page);
    for (size_t i = 0; i < page.count; i++)
        puts(page.lines[i]);
    return KILN_E_OK;
}

static volatile sig_atomic_t should_end;

static void on_signal(int signal)
{
    (void)signal;
    should_end = 1;
}

static void catch_signals(void)
{
    const struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void refresh_sample(struct top *t)
{
    struct top_sample now = { 0 };
    int timeout_ms = t->failed ? ASK_AGAIN_MS : ASK_MS;
    t->err = (struct kiln_error){ 0 };
    t->failed = top_sample_take(t->invocation, timeout_ms, &now, &t->err) != KILN_E_OK;
    t->due_ns = clock_monotonic_ns() + (uint64_t)EVERY_MS * 1000000u;
    if (t->failed)
        return;
    t->rates = top_rates_of(&t->sample, &now);
    top_sample_done(&t->sample);
    t->sample = now;
}

static void show_page(const struct top *t)
{
    static struct top_page page;
    struct top_view view = { .sample = &t->sample,
                             .rates = &t->rates,
                             .trouble = t->failed ? t->err.text : NULL,
                             .sort = t->sort };
    top_screen_size(&view.width, &view.height);
    size_t whole = view.height;
    view.height = whole > 1 ? whole - 1 : 1;
    top_page_fill(&view, &page);
    while (page.count < TOP_LINES_MAX - 1 && page.count + 1 < whole) {
        page.styles[page.count] = TOP_PLAIN;
        page.lines[page.count++][0] = '\0';
    }
    if (whole > 1) {
        page.styles[page.count] = TOP_TITLE;
        snprintf(page.lines[page.count++], sizeof(page.lines[0]), KEYS);
    }
    top_screen_show(&page);
}

static unsigned left_ms(const struct top *t)
{
    uint64_t now = clock_monotonic_ns();
    return t->due_ns > now ? (unsigned)((t->due_ns - now) / 1000000u) + 1 : 0;
}

static void watch_kilnd(struct top *t)
{
    enum top_key key = TOP_KEY_NONE;
    while (key != TOP_KEY_QUIT && !should_end) {
        if (left_ms(t) == 0)
            refresh_sample(t);
        show_page(t);
        key = top_screen_key(left_ms(t));
        if (key == TOP_KEY_SORT)
            t->sort = (enum top_sort)((t->sort + 1) % TOP_SORTS);
    }
}

static int run_top(const struct invocation *invocation, struct kiln_error *err)
{
    const struct top_options *o = invocation->options;
    if (o->once || invocation->common->json)
        return print_one_page(invocation, err);
    struct top top = { .invocation = invocation };
    int rc = top_screen_open(err);
    if (rc)
        return rc;
    catch_signals();
    watch_kilnd(&top);
    top_screen_close();
    top_sample_done(&top.sample);
    return KILN_E_OK;
}

const struct command command_top = {
    .name = "top",
    .words = "",
    .summary = "show kilnd's activity, updated each second",
    .help =
        "Shows requests per second, where kernels were found, the sizes of the store and the hot\n"
        "set, running compiles and their ages, and users who wait for compilers.  Users can\n"
        "identify their own compiles; administrators see those of all users.  If kilnd restarts,\n"
        "top waits for it.\n"
        "\n"
        "Keys: q quits; s sorts the compiles by age, program or user.  Without a terminal, --once\n"
        "or --json takes one sample of a second.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct top_options),
    .run = run_top,
};

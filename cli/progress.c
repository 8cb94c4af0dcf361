/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "common/base/clock.h"
#include "common/base/units.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 30u
#define WIDTH_UNKNOWN 80u
#define REDRAW_NS 50000000u
#define SILENCE_NS 10000000000u
#define TICK_S 1
/* Work that takes less time than this prints no line, unless the output is a terminal.  For
 * example, 'miopen harvest' may send thousands of files, each with its own progress. */
#define BRIEF_NS 1000000000u

static unsigned terminal_width(FILE *out)
{
    struct winsize size = { 0 };
    if (!isatty(fileno(out)))
        return 0;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH_UNKNOWN;
    return size.ws_col;
}

void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns)
{
    *progress = (struct progress){
        .out = out,
        .label = label,
        .width = terminal_width(out),
        .total = total,
        .started_ns = now_ns,
        .counted_ns = now_ns,
        .said_ns = now_ns,
    };
}

static const char *time_spent(const struct progress *progress, uint64_t now_ns,
                              char text[UNITS_TEXT_MAX])
{
    return units_seconds((double)(now_ns - progress->started_ns) / 1e9, text);
}

static const char *time_left(const struct progress *progress, uint64_t done, uint64_t now_ns,
                             char text[UNITS_TEXT_MAX])
{
    if (done == 0 || done >= progress->total)
        return time_spent(progress, now_ns, text);
    double spent = (double)(now_ns - progress->counted_ns) / 1e9;
    return units_seconds(spent / (double)done * (double)(progress->total - done), text);
}

static const char *format_amount(const struct progress *progress, uint64_t count,
                                 char text[UNITS_TEXT_MAX])
{
    if (progress->bytes)
        return units_size(count, text);
    snprintf(text, UNITS_TEXT_MAX, "%llu", (unsigned long long)count);
    return text;
}

static void draw_line(const struct progress *progress, const char *line)
{
    fprintf(progress->out, "\r\033[K%.*s", (int)progress->width - 1, line);
    fflush(progress->out);
}

static void draw_count(const struct progress *progress, uint64_t done, uint64_t now_ns)
{
    char count[UNITS_TEXT_MAX], time[UNITS_TEXT_MAX], line[256];
    snprintf(line, sizeof(line), "%s %s, %s", progress->label, format_amount(progress, done, count),
             time_spent(progress, now_ns, time));
    draw_line(progress, line);
}

/* Draws the bar on one line, because a wrapped line could not be redrawn.  So on a narrow terminal
 * the bar becomes shorter, and then the line is truncated. */
static void draw_bar(const struct progress *progress, uint64_t done, uint64_t failed,
                     uint64_t now_ns)
{
    char time[UNITS_TEXT_MAX], failures[40] = "", after[192], line[384];
    char count[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], bar[BAR_WIDTH + 1];
    if (failed > 0)
        snprintf(failures, sizeof(failures), ", %llu failed", (unsigned long long)failed);
    snprintf(after, sizeof(after), "%s/%s%s, %s%s", format_amount(progress, done, count),
             format_amount(progress, progress->total, total), failures,
             time_left(progress, done, now_ns, time),
             done > 0 && done < progress->total ? " left" : "");
    size_t others = strlen(progress->label) + strlen(" [] ") + strlen(after) + 1;
    size_t most = progress->width > others ? progress->width - others : 0;
    size_t width = most < BAR_WIDTH ? most : BAR_WIDTH;
    size_t full = done < progress->total ? (size_t)(done * width / progress->total) : width;
    memset(bar, '.', width);
    memset(bar, '#', full);
    bar[width] = '\0';
    snprintf(line, sizeof(line), "%s [%s] %s", progress->label, bar, after);
    draw_line(progress, line);
}

static void print_line(struct progress *progress, uint64_t now_ns)
{
    char time[UNITS_TEXT_MAX], count[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX];
    char of_total[UNITS_TEXT_MAX + 8] = "", failures[40] = "";
    if (!progress->no_total)
        snprintf(of_total, sizeof(of_total), " of %s",
                 format_amount(progress, progress->total, total));
    if (progress->failed > 0)
        snprintf(failures, sizeof(failures), " %llu failed,", (unsigned long long)progress->failed);
    fprintf(progress->out, "%s: %s%s done,%s %s\n", progress->label,
            format_amount(progress, progress->done, count), of_total, failures,
            time_spent(progress, now_ns, time));
    fflush(progress->out);
    progress->said_ns = now_ns;
}

static bool is_brief(const struct progress *progress, uint64_t now_ns)
{
    return now_ns - progress->started_ns < BRIEF_NS;
}

static void print_due_line(struct progress *progress, uint64_t now_ns)
{
    unsigned tenths = progress->total ? (unsigned)(progress->done * 10 / progress->total) : 10;
    bool is_new = tenths > progress->tenths && !progress->no_total && !is_brief(progress, now_ns);
    if (!is_new && now_ns - progress->said_ns < SILENCE_NS)
        return;
    progress->tenths = is_new ? tenths : progress->tenths;
    print_line(progress, now_ns);
}

static void draw(struct progress *progress, uint64_t now_ns)
{
    progress->drawn_ns = now_ns;
    if (progress->no_total)
        draw_count(progress, progress->done, now_ns);
    else
        draw_bar(progress, progress->done, progress->failed, now_ns);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns)
{
    progress->done = done;
    progress->failed = failed;
    bool last = done >= progress->total && !progress->no_total;
    if (progress->width == 0)
        print_due_line(progress, now_ns);
    else if (last || !progress->drawn_ns || now_ns - progress->drawn_ns >= REDRAW_NS)
        draw(progress, now_ns);
}

void progress_tick(struct progress *progress, uint64_t now_ns)
{
    bool last = progress->done >= progress->total && !progress->no_total;
    if (last)
        return;
    if (progress->width == 0)
        print_due_line(progress, now_ns);
    else if (progress->drawn_ns)
        draw(progress, now_ns);
}

void progress_finish(struct progress *progress, uint64_t now_ns)
{
    unsigned tenths = progress->tenths;
    if (progress->width > 0 || progress->total == 0 || progress->no_total || tenths >= 10 ||
        is_brief(progress, now_ns))
        return;
    progress->done = progress->total;
    progress->failed = 0;
    progress->tenths = 10;
    print_line(progress, now_ns);
}

void progress_clear(struct progress *progress)
{
    if (progress->width == 0 || !progress->drawn_ns)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn_ns = 0;
}

static void *tick(void *context)
{
    struct ticker *t = context;
    pthread_mutex_lock(t->lock);
    while (!t->stops) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += TICK_S;
        if (pthread_cond_timedwait(&t->stop, t->lock, &until) == ETIMEDOUT && !t->stops)
            progress_tick(t->progress, clock_monotonic_ns());
    }
    pthread_mutex_unlock(t->lock);
    return NULL;
}

void ticker_start(struct ticker *ticker, struct progress *progress, pthread_mutex_t *lock)
{
    pthread_condattr_t attributes;
    *ticker = (struct ticker){ .progress = progress, .lock = lock };
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ticker->stop, &attributes);
    pthread_condattr_destroy(&attributes);
    ticker->runs = pthread_create(&ticker->thread, NULL, tick, ticker) == 0;
}

void ticker_stop(struct ticker *ticker)
{
    pthread_mutex_lock(ticker->lock);
    ticker->stops = true;
    pthread_cond_signal(&ticker->stop);
    pthread_mutex_unlock(ticker->lock);
    if (ticker->runs)
        pthread_join(ticker->thread, NULL);
    pthread_cond_destroy(&ticker->stop);
}

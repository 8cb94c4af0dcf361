/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "common/units.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_WIDTH 30u
#define WIDTH_UNKNOWN 80u
/* Twenty redraws per second look smooth and cost little. */
#define REDRAW_NS 50000000u

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

/* A wrapped line could not be redrawn.  On a narrow terminal the bar shrinks first, then the line
 * is truncated. */
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

static void print_tenth(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns)
{
    unsigned tenths = progress->total ? (unsigned)(done * 10 / progress->total) : 10;
    if (tenths <= progress->tenths || progress->no_total)
        return;
    char time[UNITS_TEXT_MAX], count[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], failures[40] = "";
    progress->tenths = tenths;
    if (failed > 0)
        snprintf(failures, sizeof(failures), " %llu failed,", (unsigned long long)failed);
    fprintf(progress->out, "%s: %s of %s done,%s %s\n", progress->label,
            format_amount(progress, done, count), format_amount(progress, progress->total, total),
            failures, time_spent(progress, now_ns, time));
    fflush(progress->out);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns)
{
    if (progress->width == 0) {
        print_tenth(progress, done, failed, now_ns);
        return;
    }
    bool last = done >= progress->total && !progress->no_total;
    if (!last && progress->drawn_ns && now_ns - progress->drawn_ns < REDRAW_NS)
        return;
    progress->drawn_ns = now_ns;
    if (progress->no_total)
        draw_count(progress, done, now_ns);
    else
        draw_bar(progress, done, failed, now_ns);
}

void progress_finish(struct progress *progress, uint64_t now_ns)
{
    if (progress->width == 0 && progress->total > 0)
        print_tenth(progress, progress->total, 0, now_ns);
}

void progress_clear(struct progress *progress)
{
    if (progress->width == 0 || !progress->drawn_ns)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn_ns = 0;
}

/* SPDX-License-Identifier: MIT */
#include "cli/driver/find_progress.h"

#include "common/base/clock.h"
#include "common/base/units.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_WIDTH 20u
#define WIDTH_UNKNOWN 80u
#define REDRAW_NS 50000000u

void find_progress_init(struct find_progress *progress, FILE *out, const char *label)
{
    struct winsize size = { 0 };
    *progress = (struct find_progress){ .out = out, .label = label };
    if (!isatty(fileno(out)))
        return;
    bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    progress->width = known ? size.ws_col : WIDTH_UNKNOWN;
}

static double completed_part(const struct kiln_conv_progress *reported)
{
    double by_time = reported->budget_ms > 0 ? reported->spent_ms / reported->budget_ms : 0;
    double by_count = reported->total > 0 ? (double)reported->done / reported->total : 0;
    double part = by_time > by_count ? by_time : by_count;
    return part < 1 ? part : 1;
}

static void write_counts(const struct kiln_conv_progress *reported, char text[160])
{
    char total[24] = "", failed[32] = "", best[40] = "", time[UNITS_TEXT_MAX];
    if (reported->total > 0)
        snprintf(total, sizeof(total), " of %u", reported->total);
    if (reported->failed > 0)
        snprintf(failed, sizeof(failed), ", %u failed", reported->failed);
    if (reported->best_ms > 0)
        snprintf(best, sizeof(best), ", best %.6f ms", reported->best_ms);
    snprintf(text, 160, "%u%s tried%s%s, %s", reported->done, total, failed, best,
             units_seconds(reported->spent_ms / 1e3, time));
}

static void draw_bar(struct find_progress *p, const char *head,
                     const struct kiln_conv_progress *reported)
{
    char counts[160], bar[BAR_WIDTH + 1], line[384];
    uint64_t now = clock_monotonic_ns();
    unsigned full = (unsigned)(completed_part(reported) * BAR_WIDTH);
    if (p->drawn_ns && now - p->drawn_ns < REDRAW_NS)
        return;
    p->drawn_ns = now;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', full);
    bar[BAR_WIDTH] = '\0';
    write_counts(reported, counts);
    snprintf(line, sizeof(line), "%s [%s] %s", head, bar, counts);
    fprintf(p->out, "\r\033[K%.*s", (int)p->width - 1, line);
    fflush(p->out);
}

int find_progress_reported(void *context, const struct kiln_conv_progress *reported)
{
    struct find_progress *p = context;
    char head[96], counts[160];
    snprintf(head, sizeof(head), "%s%s%.64s", p->label, reported->solver[0] ? " " : "",
             reported->solver);
    if (p->width > 0) {
        draw_bar(p, head, reported);
        return 0;
    }
    if (strcmp(p->solver, reported->solver) != 0)
        p->tenths = 0;
    snprintf(p->solver, sizeof(p->solver), "%s", reported->solver);
    unsigned tenths = (unsigned)(completed_part(reported) * 10);
    if (tenths > p->tenths) {
        p->tenths = tenths;
        write_counts(reported, counts);
        fprintf(p->out, "%s: %s\n", head, counts);
        fflush(p->out);
    }
    return 0;
}

void find_progress_done(struct find_progress *progress)
{
    if (progress->width == 0 || !progress->drawn_ns)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
}

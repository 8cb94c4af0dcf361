/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "cli/units.h"

#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 30u
/* Twenty redraws a second look smooth and cost nothing. */
#define REDRAW_NS 50000000u

void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns)
{
    *progress = (struct progress){
        .out = out,
        .label = label,
        .terminal = isatty(fileno(out)) != 0,
        .total = total,
        .started_ns = now_ns,
    };
}

static const char *time_left(const struct progress *progress, uint64_t done, uint64_t now_ns,
                             char text[UNITS_TEXT_MOST])
{
    double spent = (double)(now_ns - progress->started_ns) / 1e9;
    if (done == 0 || done >= progress->total)
        return units_seconds(spent, text);
    return units_seconds(spent / (double)done * (double)(progress->total - done), text);
}

static void draw_bar(const struct progress *progress, uint64_t done, uint64_t failed,
                     uint64_t now_ns)
{
    char time[UNITS_TEXT_MOST];
    char bar[BAR_WIDTH + 1];
    unsigned full = progress->total ? (unsigned)(done * BAR_WIDTH / progress->total) : BAR_WIDTH;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', full < BAR_WIDTH ? full : BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    fprintf(progress->out, "\r\033[K%s [%s] %llu/%llu", progress->label, bar,
            (unsigned long long)done, (unsigned long long)progress->total);
    if (failed > 0)
        fprintf(progress->out, ", %llu failed", (unsigned long long)failed);
    fprintf(progress->out, ", %s%s", time_left(progress, done, now_ns, time),
            done > 0 && done < progress->total ? " left" : "");
    fflush(progress->out);
}

static void print_tenth(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns)
{
    unsigned tenths = progress->total ? (unsigned)(done * 10 / progress->total) : 10;
    if (tenths <= progress->tenths)
        return;
    char time[UNITS_TEXT_MOST];
    progress->tenths = tenths;
    fprintf(progress->out, "%s: %llu of %llu done, %llu failed, %s\n", progress->label,
            (unsigned long long)done, (unsigned long long)progress->total,
            (unsigned long long)failed,
            units_seconds((double)(now_ns - progress->started_ns) / 1e9, time));
    fflush(progress->out);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns)
{
    if (!progress->terminal) {
        print_tenth(progress, done, failed, now_ns);
        return;
    }
    if (done < progress->total && progress->drawn_ns && now_ns - progress->drawn_ns < REDRAW_NS)
        return;
    progress->drawn_ns = now_ns;
    draw_bar(progress, done, failed, now_ns);
}

void progress_clear(struct progress *progress)
{
    if (!progress->terminal || !progress->drawn_ns)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn_ns = 0;
}

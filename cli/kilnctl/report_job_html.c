/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_chart.h"
#include "cli/kilnctl/report_html.h"
#include "cli/kilnctl/report_job.h"
#include "common/base/units.h"

#define WIDTH 1000.0
#define THIN 2.0
#define GAP 1.0
#define LABEL_MAX 160
#define MEAN_NOTE "mean over its processes"

static const struct {
    const char *class, *words;
} causes[CAUSES] = {
    [CAUSE_COMPILED] = { "w-compiled", "compile by kilnd" },
    [CAUSE_JOINED] = { "w-joined", "compile that another request had started" },
    [CAUSE_OWN] = { "w-own", "compile by the program's own library" },
    [CAUSE_FLEET] = { "w-fleet", "fetched from the fleet" },
    [CAUSE_PACKAGE] = { "w-package", "read from packages" },
    [CAUSE_LOOKUP] = { "w-lookup", "look-up in memory and on disk" },
    [CAUSE_FAILED] = { "w-failed", "failed requests" },
};

static const char *const tiers[TRACE_TIERS] = {
    [TRACE_HOT] = "memory",    [TRACE_DISK] = "disk",      [TRACE_PACKAGE] = "package",
    [TRACE_FLEET] = "fleet",   [TRACE_COMPILED] = "kilnd", [TRACE_OWN] = "own library",
    [TRACE_FAILED] = "failed",
};

static const char *const kinds[REPORT_KINDS] = {
    [REPORT_COLD] = "cold",
    [REPORT_WARM] = "warm",
    [REPORT_PREFETCHED] = "after a prefetch",
};

static double mean_of(const struct trace_run *run, double seconds)
{
    return seconds / (double)run->count;
}

static void seconds_cell(FILE *out, double seconds)
{
    char text[UNITS_TEXT_MAX];
    html_element(out, "td", "n", "%s", units_seconds(seconds, text));
}

static void count_cell(FILE *out, size_t count)
{
    char text[UNITS_TEXT_MAX];
    html_element(out, "td", "n", "%s", units_count(count, text));
}

static const char *start_text(const struct report_run *r, char text[UNITS_TEXT_MAX])
{
    return units_when(r->run.start_us / 1000000u, text);
}

static void start_cell(FILE *out, const struct report_run *r)
{
    char text[UNITS_TEXT_MAX];
    html_element(out, "td", "when", "%s", start_text(r, text));
}

static bool has_cause(const struct report_job *job, int cause)
{
    size_t count = 0;
    for (size_t i = 0; i < job->run_count; i++)
        count += job->runs[i].run.waits[cause].count;
    return count > 0;
}

/* ---- the tiles ---- */

static void write_tile(FILE *out, double seconds, const char *what)
{
    char text[UNITS_TEXT_MAX];
    fputs("<li>", out);
    html_element(out, "b", "", "%s", units_seconds(seconds, text));
    html_element(out, "span", "", "%s", what);
    fputs("</li>", out);
}

static void write_tiles(const struct report_job *job, FILE *out)
{
    char what[LABEL_MAX], text[UNITS_TEXT_MAX];
    const struct report_run *last = report_job_last(job);
    fputs("<ul class=\"tiles\">", out);
    for (int i = 0; i < REPORT_KINDS; i++) {
        const struct report_run *run = report_job_newest(job, (enum report_kind)i);
        snprintf(what, sizeof(what), "of waiting in the newest run that was %s, " MEAN_NOTE,
                 kinds[i]);
        if (run)
            write_tile(out, mean_of(&run->run, trace_run_waited(&run->run)), what);
    }
    snprintf(what, sizeof(what), "of the run of %s would have been saved by a prefetch, " MEAN_NOTE,
             start_text(last, text));
    write_tile(out, mean_of(&last->run, report_run_savable(job, last)), what);
    fputs("</ul>", out);
}

/* ---- the chart ---- */

static void write_parts(const struct trace_run *run, double top, FILE *out)
{
    double x = 0;
    for (int i = 0; i < CAUSES; i++) {
        char text[UNITS_TEXT_MAX];
        double seconds = mean_of(run, run->waits[i].seconds);
        double width = WIDTH * seconds / top;
        if (!(seconds > 0))
            continue;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"><title>",
                causes[i].class, x < WIDTH - THIN ? x : WIDTH - THIN,
                width - GAP > THIN ? width - GAP : THIN);
        html_text(out, causes[i].words);
        fprintf(out, ": %s</title></rect>", units_seconds(seconds, text));
        x += width;
    }
}

static void write_bar(const struct report_run *r, double top, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    const struct trace_run *run = &r->run;
    fputs("<span class=\"run\">", out);
    html_element(out, "b", "", "%s", start_text(r, text));
    html_element(out, "span", "soft", "%s, %zu process%s", kinds[report_run_kind(r)], run->count,
                 run->count == 1 ? "" : "es");
    fprintf(out,
            "</span><svg viewBox=\"0 0 %.0f 10\" preserveAspectRatio=\"none\" role=\"img\"><title>"
            "run of ",
            WIDTH);
    html_text(out, text);
    fputs("</title>", out);
    for (int i = 0; i <= 4; i++)
        fprintf(out, "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"0\" y2=\"10\"/>", WIDTH / 4 * i,
                WIDTH / 4 * i);
    write_parts(run, top, out);
    fputs("</svg>", out);
    html_element(out, "span", "total", "%s",
                 units_seconds(mean_of(run, trace_run_waited(run)), text));
}

static void write_axis(double top, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    fputs("<div class=\"times\">", out);
    for (int i = 0; i <= 4; i++)
        html_element(out, "span", "", "%s", i ? units_seconds(top / 4 * i, text) : "0");
    fputs("</div>", out);
}

static void write_legend(const struct report_job *job, FILE *out)
{
    fputs("<ul class=\"legend\">", out);
    for (int i = 0; i < CAUSES; i++) {
        if (!has_cause(job, i))
            continue;
        fprintf(out, "<li><i class=\"%s\"></i>", causes[i].class);
        html_text(out, causes[i].words);
        fputs("</li>", out);
    }
    fputs("</ul>", out);
}

static void write_chart(const struct report_job *job, FILE *out)
{
    double most = 0;
    for (size_t i = 0; i < job->run_count; i++) {
        double seconds = mean_of(&job->runs[i].run, trace_run_waited(&job->runs[i].run));
        most = seconds > most ? seconds : most;
    }
    fputs("<h3>Waiting time by cause</h3>", out);
    if (!(most > 0)) {
        fputs("<p class=\"none\">No process waited.</p>", out);
        return;
    }
    const double top = chart_round_top(most);
    fputs("<p class=\"soft\">Each bar is a run, the newest at the bottom. Its length is the "
          "waiting time, as the " MEAN_NOTE ".</p><figure class=\"bars\">",
          out);
    for (size_t i = 0; i < job->run_count; i++)
        write_bar(&job->runs[i], top, out);
    write_axis(top, out);
    write_legend(job, out);
    fputs("</figure>\n", out);
}

/* ---- cold and warm ---- */

static void write_run_heads(const struct report_job *job, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    for (int i = 0; i < REPORT_KINDS; i++) {
        const struct report_run *r = report_job_newest(job, (enum report_kind)i);
        if (!r)
            continue;
        html_element(out, "th", "n", "%s, %s", kinds[i], start_text(r, text));
        html_element(out, "th", "n", "Requests");
    }
}

static void write_cause_row(const struct report_job *job, int cause, FILE *out)
{
    fprintf(out, "<tr><td class=\"name\"><i class=\"key %s\"></i>", causes[cause].class);
    html_text(out, causes[cause].words);
    fputs("</td>", out);
    for (int i = 0; i < REPORT_KINDS; i++) {
        const struct report_run *r = report_job_newest(job, (enum report_kind)i);
        if (!r)
            continue;
        seconds_cell(out, mean_of(&r->run, r->run.waits[cause].seconds));
        count_cell(out, r->run.waits[cause].count);
    }
    fputs("</tr>", out);
}

static void write_sum_row(const struct report_job *job, FILE *out)
{
    fputs("<tr class=\"sum\"><td>total</td>", out);
    for (int i = 0; i < REPORT_KINDS; i++) {
        const struct report_run *r = report_job_newest(job, (enum report_kind)i);
        size_t count = 0;
        if (!r)
            continue;
        for (int cause = 0; cause < CAUSES; cause++)
            count += r->run.waits[cause].count;
        seconds_cell(out, mean_of(&r->run, trace_run_waited(&r->run)));
        count_cell(out, count);
    }
    fputs("</tr>", out);
}

static void write_causes(const struct report_job *job, FILE *out)
{
    fputs(
        "<h3>Newest runs compared</h3><p class=\"soft\">Waiting time of a run by cause, " MEAN_NOTE
        ", and requests of all its processes: plans, kernels and compiles.</p>"
        "<div class=\"wide\"><table><thead><tr><th>Waited for</th>",
        out);
    write_run_heads(job, out);
    fputs("</tr></thead><tbody>", out);
    for (int i = 0; i < CAUSES; i++)
        if (has_cause(job, i))
            write_cause_row(job, i, out);
    write_sum_row(job, out);
    fputs("</tbody></table></div>\n", out);
}

/* ---- all runs ---- */

static void write_run_row(const struct report_job *job, const struct report_run *r, FILE *out)
{
    const struct trace_run *run = &r->run;
    fputs("<tr>", out);
    start_cell(out, r);
    html_element(out, "td", "", "%s", kinds[report_run_kind(r)]);
    count_cell(out, run->count);
    count_cell(out, run->hosts);
    seconds_cell(out, mean_of(run, trace_run_waited(run)));
    seconds_cell(out, run->longest_s);
    seconds_cell(out, mean_of(run, report_run_savable(job, r)));
    fputs("</tr>", out);
}

static void write_runs(const struct report_job *job, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    fputs("<h3>What a prefetch would have saved</h3>", out);
    if (job->hot_s > 0)
        html_element(out, "p", "soft",
                     "'kilnctl trace prefetch %s' before the run would have replaced waits for "
                     "kilnd's compiles, packages and the fleet by look-ups in memory, which take "
                     "this job %s each.",
                     job->name, units_seconds(job->hot_s, text));
    else
        html_element(out, "p", "soft",
                     "'kilnctl trace prefetch %s' before the run would have avoided waits for "
                     "kilnd's compiles, packages and the fleet. No process of this job found a "
                     "plan in memory, so the time for such look-ups is not subtracted.",
                     job->name);
    fputs("<div class=\"wide\"><table><thead><tr><th>Start</th><th>Run</th><th "
          "class=\"n\">Processes</th><th class=\"n\">Hosts</th><th class=\"n\">Waited, mean</th>"
          "<th class=\"n\">Waited, longest</th><th class=\"n\">Would be saved, mean</th></tr>"
          "</thead><tbody>",
          out);
    for (size_t i = 0; i < job->run_count; i++)
        write_run_row(job, &job->runs[i], out);
    fputs("</tbody></table></div>\n", out);
}

/* ---- prefetches ---- */

static void write_use_row(const struct report_run *r, FILE *out)
{
    const struct trace_use *use = &r->use;
    fputs("<tr>", out);
    start_cell(out, r);
    count_cell(out, use->fetched);
    count_cell(out, use->used);
    count_cell(out, use->lost);
    count_cell(out, trace_use_unused(use));
    count_cell(out, use->needed);
    count_cell(out, trace_use_missing(use));
    count_cell(out, use->missing_compiled);
    count_cell(out, use->missing_found);
    count_cell(out, use->missing_failed);
    html_share_cell(out, (double)use->used, (double)use->needed);
    fputs("</tr>", out);
}

static void write_uses(const struct report_job *job, FILE *out)
{
    size_t count = 0;
    for (size_t i = 0; i < job->run_count; i++)
        count += job->runs[i].has_use;
    fputs("<h3>Kernels that prefetches made ready</h3>", out);
    if (count == 0) {
        fputs("<p class=\"none\">No prefetch of this job preceded one of these runs.</p>", out);
        return;
    }
    fputs("<p class=\"soft\">Fetched kernels were used, were lost before the job requested them, "
          "or were not used. Needed kernels that no prefetch had made ready were compiled, were "
          "found nevertheless, or failed. The bar is the share of needed kernels that a prefetch "
          "had made ready.</p><div class=\"wide\"><table><thead><tr><th>Run</th>"
          "<th class=\"n\">Fetched</th><th class=\"n\">Used</th><th class=\"n\">Lost</th>"
          "<th class=\"n\">Not used</th><th class=\"n\">Needed</th>"
          "<th class=\"n\">Missing</th><th class=\"n\">Compiled</th>"
          "<th class=\"n\">Found</th><th class=\"n\">Failed</th><th></th></tr></thead><tbody>",
          out);
    for (size_t i = 0; i < job->run_count; i++)
        if (job->runs[i].has_use)
            write_use_row(&job->runs[i], out);
    fputs("</tbody></table></div>\n", out);
}

/* ---- the longest waits ---- */

static void write_waits(const struct report_job *job, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    if (job->wait_count == 0)
        return;
    fputs("<h3>Longest waits</h3>", out);
    html_element(out, "p", "soft",
                 "In the run of %s: the longest wait of a process for each plan or kernel.",
                 start_text(report_job_last(job), text));
    fputs("<div class=\"wide\"><table><thead><tr><th class=\"n\">Waited</th><th>From</th>"
          "<th class=\"n\">Processes</th><th>Plan or kernel</th></tr></thead><tbody>",
          out);
    for (size_t i = 0; i < job->wait_count; i++) {
        fputs("<tr>", out);
        seconds_cell(out, job->waits[i].seconds);
        html_element(out, "td", "", "%s", tiers[job->waits[i].tier]);
        count_cell(out, job->waits[i].processes);
        fputs("<td class=\"name\"><code>", out);
        html_text(out, job->waits[i].text);
        fputs("</code></td></tr>", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- the section ---- */

static void write_gaps(const struct report_job *job, FILE *out)
{
    if (job->older_runs)
        html_element(out, "p", "soft", "%zu older runs are not shown.", job->older_runs);
    if (job->damaged + job->refused)
        html_element(out, "p", "soft",
                     "Not read: %zu damaged lines, and %zu files that are not traces.",
                     job->damaged, job->refused);
    if (job->cut)
        html_element(out, "p", "soft",
                     "%zu processes used more than their traces have, because the files reached "
                     "their limit.",
                     job->cut);
}

void report_job_html(const struct report_job *job, FILE *out)
{
    char title[LABEL_MAX];
    snprintf(title, sizeof(title), "Job %s", job->name);
    fputs("<div class=\"job\">", out);
    html_begin_section(out, title,
                       "From the traces of the job's processes. A run without a prefetch before it "
                       "is cold if it waited for a compile, else warm.");
    write_gaps(job, out);
    write_tiles(job, out);
    write_chart(job, out);
    write_causes(job, out);
    write_runs(job, out);
    write_uses(job, out);
    write_waits(job, out);
    fputs("</section></div>\n", out);
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_page.h"

#include "cli/kilnctl/report_html.h"
#include "common/base/units.h"

#include <kiln/client.h>

static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d5dae0;"
    "--panel:#f5f7f9;--hot:#14566b;--disk:#3f8ea6;--package:#8fc1cf;--fleet:#dcd6f0;"
    "--miss:#b8503c;--bar:#3f8ea6;--shade:#b3bbc4;"
    /* the causes of waiting: their brightness differs, too, for printers without colours */
    "--w-compiled:#5c221b;--w-joined:#b44c3a;--w-own:#e39d44;--w-fleet:#504882;--w-package:#2397b5;"
    "--w-lookup:#8fd1dd;--w-failed:#dfe6ec}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e3e7eb;--soft:#9aa5b1;"
    "--rule:#333a42;--panel:#1d2228;--hot:#a5dcec;--disk:#5fb0c9;--package:#367388;--fleet:#4b4275;"
    "--miss:#e07b63;--bar:#5fb0c9;--shade:#4a545f;"
    "--w-compiled:#ffd4b9;--w-joined:#e87d66;--w-own:#ebb156;--w-fleet:#7e73b4;--w-package:#57b8d1;"
    "--w-lookup:#1e6772;--w-failed:#41484c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,\"Segoe UI\","
    "Roboto,\"Helvetica Neue\",\"Liberation Sans\",Arial,sans-serif}\n"
    "main{max-width:66rem;margin:0 auto;padding:2rem 1.25rem 4rem}\n"
    "h1{font-size:1.75rem;line-height:1.2;margin:0;font-weight:650;overflow-wrap:anywhere}\n"
    "h2{font-size:1.2rem;line-height:1.3;margin:3rem 0 .25rem;font-weight:650}\n"
    "h3{font-size:1rem;margin:1.75rem 0 .25rem;font-weight:600}\n"
    "p{margin:.25rem 0 1rem;max-width:44rem}\n"
    ".soft,figcaption,.none{color:var(--soft)}\n"
    ".none{border:1px dashed var(--rule);border-radius:.5rem;padding:1rem;max-width:none}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.75rem;"
    "margin:1.5rem 0;padding:0;list-style:none}\n"
    ".tiles li{background:var(--panel);border-radius:.5rem;padding:.9rem 1rem}\n"
    ".tiles b{display:block;font-size:1.5rem;line-height:1.25;font-weight:600;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".tiles span{color:var(--soft);font-size:.875rem}\n"
    /* A wide table scrolls.  An edge is shaded while more of the table is hidden beyond it.  For
     * this, each edge has a fixed shade, and a cover that scrolls with the table. */
    ".wide{overflow-x:auto;margin:.5rem 0 1rem;background:"
    "linear-gradient(90deg,var(--paper) 40%,transparent) local 0 0/2.5rem 100% no-repeat,"
    "linear-gradient(270deg,var(--paper) 40%,transparent) local 100% 0/2.5rem 100% no-repeat,"
    "linear-gradient(90deg,var(--shade),transparent) scroll 0 0/.8rem 100% no-repeat,"
    "linear-gradient(270deg,var(--shade),transparent) scroll 100% 0/.8rem 100% no-repeat}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9375rem;font-variant-numeric:tabular-"
    "nums}\n"
    "th{color:var(--soft);font-weight:500;font-size:.8125rem;text-align:left;white-space:nowrap}\n"
    "th,td{padding:.4rem .75rem .4rem 0;border-bottom:1px solid var(--rule);vertical-align:top}\n"
    "th:last-child,td:last-child{padding-right:0}\n"
    "th.n,td.n{text-align:right;white-space:nowrap}td.when{white-space:nowrap}\n"
    "td.name{overflow-wrap:anywhere;min-width:10rem}\n"
    "tr.sum td{font-weight:600;border-bottom:0}\n"
    "td.share{width:22%;min-width:6rem}\n"
    "td.share i{display:block;height:.6rem;margin-top:.45rem;background:var(--bar);"
    "border-radius:2px;min-width:1px}\n"
    "code{font:.875em/1.5 ui-monospace,\"Liberation Mono\",Menlo,Consolas,monospace}\n"
    ".chart{margin:1rem 0 1.5rem;display:grid;grid-template-columns:auto 1fr;column-gap:.6rem}\n"
    ".scale,.times{display:flex;justify-content:space-between;font-size:.8125rem;"
    "color:var(--soft);font-variant-numeric:tabular-nums}\n"
    ".scale{flex-direction:column;min-width:4.6rem;text-align:right;margin:-.6rem 0}\n"
    ".times{grid-column:2;margin-top:.35rem;gap:.5rem}\n"
    ".times span:nth-child(2){text-align:center}.times span:nth-child(3){text-align:right}\n"
    ".chart svg{width:100%;height:11rem;display:block}\n"
    ".chart line{stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke}\n"
    ".legend{grid-column:2;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;margin:.6rem 0 0;"
    "padding:0;list-style:none;font-size:.875rem}\n"
    ".legend i{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;"
    "margin-right:.4rem;vertical-align:-.05rem}\n"
    "rect.hot{fill:var(--hot)}rect.disk{fill:var(--disk)}rect.package{fill:var(--package)}"
    "rect.fleet{fill:var(--fleet)}rect.miss{fill:var(--miss)}\n"
    "i.hot{background:var(--hot)}i.disk{background:var(--disk)}i.package{background:var(--package)}"
    "i.fleet{background:var(--fleet)}i.miss{background:var(--miss)}\n"
    "dl{display:grid;grid-template-columns:minmax(8rem,auto) 1fr;gap:.3rem 1.25rem;margin:.5rem "
    "0}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n";
static const char style_of_jobs[] =
    ".bars{margin:1rem 0 1.5rem;display:grid;grid-template-columns:auto 1fr auto;"
    "gap:.5rem .8rem;align-items:center}\n"
    ".bars svg{width:100%;height:1.6rem;display:block}\n"
    ".bars line{stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke}\n"
    ".bars b,.bars .run span{display:block;font-size:.8125rem;line-height:1.35;font-weight:500;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".bars .total{font-size:.875rem;font-variant-numeric:tabular-nums;text-align:right}\n"
    ".bars .times{display:block;position:relative;height:1.3em;margin:0}"
    ".bars .times span{position:absolute;transform:translateX(-50%);white-space:nowrap}"
    ".bars .times span:first-child{transform:none}"
    ".bars .times span:last-child{transform:translateX(-100%)}"
    ".bars .times span:nth-child(2){left:25%}.bars .times span:nth-child(3){left:50%}"
    ".bars .times span:nth-child(4){left:75%}.bars .times span:nth-child(5){left:100%}"
    ".bars .legend{grid-column:2/4}\n"
    "i.key{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.5rem}\n"
    "rect.w-compiled{fill:var(--w-compiled)}rect.w-joined{fill:var(--w-joined)}"
    "rect.w-own{fill:var(--w-own)}rect.w-fleet{fill:var(--w-fleet)}"
    "rect.w-package{fill:var(--w-package)}rect.w-lookup{fill:var(--w-lookup)}"
    "rect.w-failed{fill:var(--w-failed);stroke:var(--soft);vector-effect:non-scaling-stroke}\n"
    "i.w-compiled{background:var(--w-compiled)}i.w-joined{background:var(--w-joined)}"
    "i.w-own{background:var(--w-own)}i.w-fleet{background:var(--w-fleet)}"
    "i.w-package{background:var(--w-package)}i.w-lookup{background:var(--w-lookup)}"
    "i.w-failed{background:var(--w-failed);box-shadow:inset 0 0 0 1px var(--soft)}\n";
static const char style_by_medium[] =
    "@media(max-width:34rem){main{padding:1.25rem .9rem 3rem}h1{font-size:1.4rem}"
    ".tiles{grid-template-columns:1fr 1fr}.tiles b{font-size:1.2rem;white-space:normal}"
    ".times span:nth-child(2),.bars .times "
    "span:nth-child(4){display:none}dl{grid-template-columns:1fr}dd{margin-bottom:.5rem}"
    "table{font-size:.875rem}th,th.n{white-space:normal}td.name{min-width:12rem}"
    "td.share,th:empty{display:none}}\n"
    "@media print{*{-webkit-print-color-adjust:exact;print-color-adjust:exact}"
    "main{max-width:none;padding:0}.wide{overflow:visible;background:none}"
    ".job{break-before:page}header+.job{break-before:auto}h2,h3,thead{break-after:avoid}tr,figure,"
    "li{break-inside:avoid}"
    "table{font-size:.8125rem}}\n";

static void write_tile(FILE *out, const char *value, const char *what)
{
    fputs("<li>", out);
    html_element(out, "b", "", "%s", value);
    html_element(out, "span", "", "%s", what);
    fputs("</li>", out);
}

struct job_requests {
    double found, missed;
    uint64_t begin;
};

/* Adds the jobs' requests in a sample to |sum|.  A sample counts requests that bypass the cache,
 * such as those of `doctor`, as misses, so this function subtracts them.  Samples do not count
 * prefetches. */
static void add_requests(struct job_requests *sum, const struct json *sample)
{
    for (const struct json *j = json_first(json_get(sample, "hits")); j; j = json_next(j))
        sum->found += json_as_number(j, 0);
    sum->missed += json_get_number(sample, "misses", 0) -
                   json_get_number(json_get(sample, "miss_reasons"), "uncached", 0);
}

static void tile_hits(const struct report *r, FILE *out)
{
    char text[UNITS_TEXT_MAX] = "\xe2\x80\x93";
    char span[UNITS_TEXT_MAX], what[128];
    const struct json *first = json_first(json_get(r->history, "samples"));
    const struct json *current = json_get(r->history, "current");
    struct job_requests sum = { .begin = json_get_u64(first, "time", 0) };
    if (!first)
        sum.begin = json_get_u64(current, "time", r->now) - json_get_u64(current, "span_s", 0);
    for (const struct json *j = first; j; j = json_next(j))
        add_requests(&sum, j);
    add_requests(&sum, current);
    if (sum.found + sum.missed > 0)
        snprintf(text, sizeof(text), "%.1f %%", 100 * sum.found / (sum.found + sum.missed));
    uint64_t now = json_get_u64(r->history, "now", r->now);
    snprintf(what, sizeof(what),
             "of the kernels that jobs requested were found, in the last %s, as in the charts",
             units_seconds(now > sum.begin ? (double)(now - sum.begin) : 0, span));
    write_tile(out, text, what);
}

static void write_tiles(const struct report *r, FILE *out)
{
    char text[UNITS_TEXT_MAX], what[128], limit[UNITS_TEXT_MAX];
    const struct json *total = json_get(r->by_target, "total"),
                      *store = json_get(r->status, "store");
    fputs("<ul class=\"tiles\">", out);
    write_tile(out, units_seconds(json_get_number(total, "saved_s", 0), text),
               "of compile time saved, for all users");
    tile_hits(r, out);
    write_tile(out, units_count(json_get_u64(store, "kernels", 0), text), "kernels in the store");
    snprintf(what, sizeof(what), "on disk, of at most %s",
             units_size(json_get_u64(store, "limit_bytes", 0), limit));
    write_tile(out, units_size(json_get_u64(store, "taken_bytes", 0), text), what);
    fputs("</ul>\n", out);
}

static void write_head(const struct report *r, FILE *out)
{
    char when[UNITS_TEXT_MAX], title[320];
    snprintf(title, sizeof(title), r->only_jobs ? "Jobs with kiln, read on %s" : "kiln on %s",
             r->host);
    fputs(REPORT_MARK "\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                      "<meta name=\"referrer\" content=\"no-referrer\">"
                      "<meta http-equiv=\"Content-Security-Policy\" "
                      "content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>",
          out);
    html_text(out, title);
    fprintf(out, "</title>\n<style>\n%s%s%s</style></head>\n<body><main>\n<header>", style,
            style_of_jobs, style_by_medium);
    html_element(out, "h1", "", "%s", title);
    html_element(out, "p", "soft", "%s, by kilnctl %s", units_when(r->now, when), kiln_version());
    fputs("</header>\n", out);
}

static void write_jobs(const struct report *r, FILE *out)
{
    for (size_t i = 0; i < r->job_count; i++)
        report_job_html(&r->jobs[i], out);
    if (r->left_out_jobs)
        html_element(out, "p", "soft",
                     "Only the %zu newest jobs are shown. The traces of %zu older jobs are not.",
                     r->job_count, r->left_out_jobs);
}

static void write_host(const struct report *r, FILE *out)
{
    write_tiles(r, out);
    report_over_time(r, out);
    report_misses(r, out);
    report_accounting(r, out);
    report_slowest(r, out);
    report_tuning(r, out);
    report_facts(r, out);
}

void report_write(const struct report *r, FILE *out)
{
    write_head(r, out);
    if (!r->only_jobs)
        write_host(r, out);
    write_jobs(r, out);
    fputs("</main></body></html>\n", out);
}

/* SPDX-License-Identifier: MIT */
#pragma once

/* kilnd's answers for `kilnctl report`. One answer is that of a busy node after four weeks, with
 * names that would break an HTML page without escapes. The other is that of a node without any
 * requests. */
#include "common/base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOSTILE "<script>alert(1)</script>\"' onload=x &amp; \x1b[2J"
#define REPORT_END 1790000000u
#define REPORT_STEP 24192u

static inline struct json *hits_of(double hot, double disk, double package)
{
    struct json *hits = json_object();
    json_set_u64(hits, "hot", (uint64_t)hot);
    json_set_u64(hits, "disk", (uint64_t)disk);
    json_set_u64(hits, "package", (uint64_t)package);
    return hits;
}

static inline struct json *busy_sample(unsigned i)
{
    double wave = 0.5 + 0.5 * sin(i / 4.0), load = 200 + 4000 * wave;
    double missed = 0.35 * exp(-(double)i / 18) + 0.02 + (i == 60 ? 0.3 : 0);
    struct json *j = json_object();
    json_set_u64(j, "time", REPORT_END - (100 - i) * REPORT_STEP);
    json_set_u64(j, "span_s", REPORT_STEP);
    json_set(
        j, "hits",
        hits_of(load * (1 - missed) * 0.7, load * (1 - missed) * 0.2, load * (1 - missed) * 0.1));
    json_set_u64(j, "misses", (uint64_t)(load * missed));
    /* in the last sample, kilnd counted misses of requests that forbade the use of the cache */
    if (i == 99) {
        struct json *reasons = json_object();
        json_set_u64(reasons, "uncached", (uint64_t)(load * missed));
        json_set(j, "miss_reasons", reasons);
    }
    json_set_number(j, "saved_s", load * (1 - missed) * 0.8);
    json_set_number(j, "compile_s", load * missed * 0.8);
    return j;
}

static inline struct json *busy_history(void)
{
    static const char *const names[] = { "new", "uncached", "remembered", "unknown", "damaged" };
    static const unsigned counts[] = { 9120, 310, 77, 41, 1 };
    struct json *j = json_object(), *samples = json_array(), *why = json_object();
    struct json *slowest = json_array();
    for (unsigned i = 0; i < 100; i++) {
        if (i < 30 || i > 36) /* kilnd did not run during samples 30 to 36 */
            json_append(samples, busy_sample(i));
    }
    for (unsigned i = 0; i < 5; i++)
        json_set_u64(why, names[i], counts[i]);
    for (unsigned i = 0; i < 8; i++) {
        struct json *kernel = json_object();
        json_set_text(kernel, "program", i == 2 ? HOSTILE : "conv_implicit_gemm_mfma.hip");
        json_set_text(kernel, "target", "gfx90a:sramecc+:xnack-");
        json_set_text(kernel, "toolchain", i % 2 ? "clang" : "hiprtc");
        char options[64];
        snprintf(options, sizeof(options), "-O3 -DTILE=%u -DGROUPS=1", 16 + 16 * i);
        json_set_text(kernel, "options", options);
        json_set_number(kernel, "compile_s", 41.5 / (i + 1));
        json_set_u64(kernel, "uses", 900 - 100 * i);
        json_set_u64(kernel, "size", 180000 + 9000 * i);
        json_append(slowest, kernel);
    }
    json_set_u64(j, "now", REPORT_END);
    json_set_u64(j, "step_s", REPORT_STEP);
    json_set(j, "samples", samples);
    json_set(j, "slowest", slowest);
    json_set_u64(j, "misses", 9549);
    json_set(j, "miss_reasons", why);
    return j;
}

static inline struct json *busy_row(double scale)
{
    struct json *row = json_object();
    json_set_number(row, "saved_s", 91234.5 * scale);
    json_set_u64(row, "hits", (uint64_t)(181000 * scale));
    json_set_u64(row, "compiles", (uint64_t)(5200 * scale));
    json_set_u64(row, "kernels", (uint64_t)(4900 * scale));
    json_set_u64(row, "bytes", (uint64_t)(8.1e9 * scale));
    return row;
}

static inline struct json *busy_accounting(const char *by, const char *const *names, unsigned count)
{
    struct json *j = json_object(), *rows = json_array();
    for (unsigned i = 0; i < count; i++) {
        struct json *row = busy_row(pow(0.55, i));
        if (names)
            json_set_text(row, by, names[i]);
        else
            json_set_u64(row, by, 90001 + i);
        json_append(rows, row);
    }
    json_set_text(j, "by", by);
    json_set(j, "rows", rows);
    json_set(j, "others", busy_row(0.01));
    json_set(j, "total", busy_row(2.2));
    return j;
}

/* The caller owns the result. */
static inline struct json *read_json(const char *text)
{
    struct json *j = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    if (json_parse(bytes_of(text, strlen(text)), "a test's text", &j, &err))
        return NULL;
    return j;
}

#define BUSY_STATUS                                                                                \
    "{\"version\":\"0.1.0\",\"pid\":812,\"uptime_s\":2345678,\"socket\":\"/run/kiln/kilnd.sock\"," \
    "\"cache_dir\":\"/var/cache/kiln\",\"state_dir\":\"/var/lib/"                                  \
    "kiln\",\"workers\":{\"total\":128},"                                                          \
    "\"hot\":{\"bytes\":402653184,\"limit_bytes\":536870912},"                                     \
    "\"store\":{\"kernels\":10780,\"taken_bytes\":18038862643,\"limit_bytes\":21474836480,"        \
    "\"health\":\"ok\"},\"toolchains\":[{\"name\":\"hiprtc\",\"version\":\"hiprtc 5.2.3\"},"       \
    "{\"name\":\"clang\",\"version\":\"Debian clang version 19.1.7\"}]}"
#define BUSY_STATS                                                                         \
    "{\"hits\":{\"hot\":250000,\"disk\":70000,\"package\":31000},\"prefetch_hits\":51000," \
    "\"misses\":10549,\"misses_prefetch\":1000,\"misses_uncached\":310}"
#define BUSY_TUNING                                                                              \
    "{\"host\":{\"records\":5210},\"user\":{\"records\":812},\"system\":[{\"records\":193590}]," \
    "\"hits\":{\"system\":80211,\"host\":5120,\"user\":711},\"misses\":2310}"
#define BUSY_COVERAGE                                                                      \
    "{\"gpus\":[{\"database_id\":\"gfx90a68\",\"coverage\":\"exact\"},{\"database_id\":\"" \
    "gfx942130\",\"coverage\":\"none\"}]}"

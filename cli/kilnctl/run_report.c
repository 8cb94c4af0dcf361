/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/run_report.h"

#include "cli/output.h"
#include "cli/result.h"
#include "common/base/json.h"
#include "common/base/units.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Maximum numbers of different reasons and of libraries in the report. A reason says why kilnd did
 * not answer a compile, for example. The last reason counts all for which there is no space. */
#define REASONS_MAX 64
#define LIBRARIES_MAX 16
#define TEXT_SIZE 512

struct reason {
    char text[160];
    uint64_t count;
};

struct run_report {
    uint64_t hits, built, stored, forwarded, saved_ms; /* |hits| includes |built| */
    struct reason reasons[REASONS_MAX];
    char libraries[LIBRARIES_MAX][TEXT_SIZE];
    struct {
        uint64_t by_kiln, by_pytorch, failed;
        /* reasons why PyTorch ran a convolution instead of kiln */
        struct reason reasons[REASONS_MAX];
        struct reason failures[REASONS_MAX]; /* why kiln.torch is not installed */
    } torch;
};

static void add_reason(struct reason reasons[REASONS_MAX], const char *text, uint64_t count,
                       uint64_t *total)
{
    size_t at = 0;
    *total += count;
    while (at < REASONS_MAX - 1 && reasons[at].count && strcmp(reasons[at].text, text) != 0)
        at++;
    snprintf(reasons[at].text, sizeof(reasons[at].text), "%.150s",
             at < REASONS_MAX - 1 ? text : "other reasons");
    reasons[at].count += count;
}

static void add_library(struct run_report *report, const char *text)
{
    for (size_t i = 0; i < LIBRARIES_MAX; i++) {
        if (report->libraries[i][0] && strcmp(report->libraries[i], text) != 0)
            continue;
        snprintf(report->libraries[i], TEXT_SIZE, "%s", text);
        return;
    }
}

/* Adds the counts of one line. Ignores lines that have none of these forms, because any process of
 * the run can write to the file. */
static void add_line(struct run_report *report, const char *line)
{
    unsigned long long n;
    char text[TEXT_SIZE];
    if (sscanf(line, "hit %llu", &n) == 1)
        report->hits += n;
    else if (sscanf(line, "built %llu", &n) == 1)
        report->built += n;
    else if (sscanf(line, "stored %llu", &n) == 1)
        report->stored += n;
    else if (sscanf(line, "saved_ms %llu", &n) == 1)
        report->saved_ms += n;
    else if (sscanf(line, "forwarded %llu %159[^\n]", &n, text) == 2)
        add_reason(report->reasons, text, n, &report->forwarded);
    else if (sscanf(line, "torch_kiln %llu", &n) == 1)
        report->torch.by_kiln += n;
    else if (sscanf(line, "torch_original %llu %159[^\n]", &n, text) == 2)
        add_reason(report->torch.reasons, text, n, &report->torch.by_pytorch);
    else if (sscanf(line, "torch_failed %llu %159[^\n]", &n, text) == 2)
        add_reason(report->torch.failures, text, n, &report->torch.failed);
    else if (sscanf(line, "library %511[^\n]", text) == 1)
        add_library(report, text);
}

/* Returns 0, or the errno if the report cannot be read. */
static int read_report(int fd, struct run_report *report)
{
    char line[TEXT_SIZE + 16];
    FILE *file = fdopen(fd, "r");
    if (!file) {
        int number = errno;
        close(fd);
        return number;
    }
    rewind(file);
    errno = 0;
    while (fgets(line, sizeof(line), file))
        add_line(report, line);
    int number = ferror(file) ? errno : 0;
    fclose(file);
    return number;
}

static void print_failure(int number, bool json)
{
    struct kiln_error err = { .code = KILN_E_OK };
    cli_fail_errno(&err, number, "there is no report of the run: its file cannot be read");
    if (!json) {
        output_error(stderr, "kilnctl", &err, NULL);
        return;
    }
    KILN_AUTO(json) struct json *j = json_object();
    json_set(j, "error", result_error_json(&err));
    KILN_AUTO(mem) char *text = json_print(j, false);
    fprintf(stderr, "%s\n", text ? text : "kilnctl: out of memory");
}

static uint64_t compiles_of(const struct run_report *r)
{
    return r->hits + r->stored + r->forwarded;
}

static void print_reasons(const struct reason reasons[REASONS_MAX], const char *what)
{
    for (size_t i = 0; i < REASONS_MAX && reasons[i].count; i++)
        fprintf(stderr, "kilnctl: %llu %s: %s\n", (unsigned long long)reasons[i].count, what,
                reasons[i].text);
}

static void print_text(const struct run_report *report)
{
    char saved[UNITS_TEXT_MAX];
    for (size_t i = 0; i < LIBRARIES_MAX && report->libraries[i][0]; i++)
        fprintf(stderr, "kilnctl: loaded: %s\n", report->libraries[i]);
    if (!report->libraries[0][0])
        fprintf(stderr, "kilnctl: the program loaded none of NVRTC, hiprtc and comgr\n");
    else if (compiles_of(report) == 0)
        fprintf(stderr, "kilnctl: the program compiled nothing by NVRTC, hiprtc or comgr\n");
    if (compiles_of(report) == 0)
        return;
    fprintf(stderr,
            "kilnctl: %llu compiles: %llu answered by kilnd, %llu compiled and stored, "
            "%llu compiled without kilnd\n",
            (unsigned long long)compiles_of(report), (unsigned long long)report->hits,
            (unsigned long long)report->stored, (unsigned long long)report->forwarded);
    if (report->built)
        fprintf(stderr, "kilnctl: kilnd compiled %llu of the answered ones now\n",
                (unsigned long long)report->built);
    if (report->hits > report->built)
        fprintf(stderr, "kilnctl: the answered ones once took %s to compile\n",
                units_seconds((double)report->saved_ms / 1e3, saved));
    print_reasons(report->reasons, "without kilnd");
}

static void print_torch(const struct run_report *report)
{
    uint64_t calls = report->torch.by_kiln + report->torch.by_pytorch;
    if (calls == 0)
        fprintf(stderr, "kilnctl: no process reported convolutions of PyTorch on a GPU\n");
    else
        fprintf(stderr,
                "kilnctl: %llu calls of PyTorch's convolutions: %llu by kiln, "
                "%llu by PyTorch\n",
                (unsigned long long)calls, (unsigned long long)report->torch.by_kiln,
                (unsigned long long)report->torch.by_pytorch);
    print_reasons(report->torch.reasons, "by PyTorch");
    print_reasons(report->torch.failures, "processes without kiln.torch");
}

static struct json *libraries_to_json(const struct run_report *report)
{
    struct json *libraries = json_array();
    for (size_t i = 0; i < LIBRARIES_MAX && report->libraries[i][0]; i++) {
        const char *path = strchr(report->libraries[i], ' ');
        struct json *j = json_object();
        char compiler[16];
        snprintf(compiler, sizeof(compiler), "%.*s", (int)strcspn(report->libraries[i], " "),
                 report->libraries[i]);
        json_set_text(j, "compiler", compiler);
        json_set_text(j, "path", path ? path + 1 : "");
        json_append(libraries, j);
    }
    return libraries;
}

static struct json *reasons_to_json(const struct reason reasons[REASONS_MAX])
{
    struct json *list = json_array();
    for (size_t i = 0; i < REASONS_MAX && reasons[i].count; i++) {
        struct json *j = json_object();
        json_set_text(j, "reason", reasons[i].text);
        json_set_u64(j, "count", reasons[i].count);
        json_append(list, j);
    }
    return list;
}

static struct json *torch_to_json(const struct run_report *report)
{
    struct json *j = json_object();
    json_set_u64(j, "by_kiln", report->torch.by_kiln);
    json_set_u64(j, "by_pytorch", report->torch.by_pytorch);
    json_set(j, "reasons", reasons_to_json(report->torch.reasons));
    json_set(j, "failures", reasons_to_json(report->torch.failures));
    return j;
}

static void print_json(const struct run_report *report, bool with_torch)
{
    KILN_AUTO(json) struct json *j = json_object();
    json_set_u64(j, "compiles", compiles_of(report));
    json_set_u64(j, "answered", report->hits);
    json_set_u64(j, "compiled_by_kilnd", report->built);
    json_set_u64(j, "stored", report->stored);
    json_set_u64(j, "without_kilnd", report->forwarded);
    json_set_number(j, "saved_s", (double)report->saved_ms / 1e3);
    json_set(j, "libraries", libraries_to_json(report));
    json_set(j, "reasons", reasons_to_json(report->reasons));
    if (with_torch)
        json_set(j, "torch", torch_to_json(report));
    KILN_AUTO(mem) char *text = json_print(j, false);
    fprintf(stderr, "%s\n", text ? text : "kilnctl: out of memory");
}

void run_report_print(int fd, bool with_torch, bool json)
{
    struct run_report report = { .hits = 0 };
    int number = read_report(fd, &report);
    if (number) {
        print_failure(number, json);
        return;
    }
    if (json) {
        print_json(&report, with_torch);
        return;
    }
    print_text(&report);
    if (with_torch)
        print_torch(&report);
}

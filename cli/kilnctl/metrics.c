/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"

#include <stdio.h>
#include <string.h>

struct metrics_options {
    const char *textfile;
};

static const struct option options[] = {
    { "textfile", 0, OPTION_TEXT, offsetof(struct metrics_options, textfile), "FILE",
      "write to FILE (NAME.prom), for node_exporter's textfile collector", 0, 0 },
};

/* The file's contents while kilnd does not answer. If the old contents stayed, kilnd would seem to
 * run. */
static const char down[] = "# HELP kiln_up 1 while kilnd answers\n"
                           "# TYPE kiln_up gauge\n"
                           "kiln_up 0\n";

static int write_textfile(const char *path, const char *text, struct kiln_error *err)
{
    const struct new_file file = {
        .path = path, .replace = true, .mode = 0644, .from = -1, .data = text, .size = strlen(text)
    };
    return new_file_write(&file, err);
}

/* node_exporter's collector silently ignores files whose name does not end in .prom. */
static int check_name(const char *path, struct kiln_error *err)
{
    const char *end = strrchr(new_file_name(path), '.');
    if (end && strcmp(end, ".prom") == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "'%s' does not end in .prom: node_exporter would ignore it", path);
}

static int take_text(const struct json *reply, char **ret_text, struct kiln_error *err)
{
    const char *text = json_get_text(reply, "text", "");
    if (!*text)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer to 'metrics' has no text");
    *ret_text = strdup(text);
    if (!*ret_text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for kilnd's metrics");
    output_clean(*ret_text, true);
    return KILN_E_OK;
}

static int fetch_metrics(const struct invocation *invocation, struct json **ret_reply,
                         char **ret_text, struct kiln_error *err)
{
    int rc = admin_ask(invocation, "metrics", admin_no_arguments, ret_reply, err);
    return rc ? rc : take_text(*ret_reply, ret_text, err);
}

static int run_metrics(const struct invocation *invocation, struct kiln_error *err)
{
    const char *path = ((const struct metrics_options *)invocation->options)->textfile;
    KILN_AUTO(json) struct json *reply = NULL;
    KILN_AUTO(mem) char *text = NULL;
    int rc = path ? check_name(path, err) : KILN_E_OK;
    if (rc)
        return rc;
    rc = fetch_metrics(invocation, &reply, &text, err);
    if (rc && path) {
        struct kiln_error second;
        if (write_textfile(path, down, &second))
            fprintf(stderr, "kilnctl: %s\n", second.text);
    }
    if (rc)
        return rc;
    if (path)
        return write_textfile(path, text, err);
    if (invocation->common->json)
        return output_json(reply, err);
    fputs(text, stdout);
    return KILN_E_OK;
}

const struct command command_metrics = {
    .name = "metrics",
    .words = "",
    .summary = "print all metrics in Prometheus' text format",
    .help =
        "Prints kilnd's counters, sizes and durations in Prometheus' text format;\n"
        "docs/operations/metrics.md describes each of them.  --textfile replaces FILE atomically,\n"
        "for a timer that serves node_exporter.  If no kilnd answers, the file says kiln_up 0 and\n"
        "the exit status is 3.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct metrics_options),
    .run = run_metrics,
};

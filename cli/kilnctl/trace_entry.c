/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_entry.h"

#include <stdio.h>

const char *trace_entry_text(const struct trace_line *line, char text[TRACE_LINE_MAX])
{
    if (!trace_is_plan(line))
        snprintf(text, TRACE_LINE_MAX, "%skernel %.12s", line->kind == TRACE_OBJECT ? "  " : "",
                 (const char *)line->key.data);
    else if (line->solver.size)
        snprintf(text, TRACE_LINE_MAX, "%.*s (solver %.*s)", (int)line->rest.size,
                 (const char *)line->rest.data, (int)line->solver.size,
                 (const char *)line->solver.data);
    else
        snprintf(text, TRACE_LINE_MAX, "%.*s", (int)line->rest.size, (const char *)line->rest.data);
    return text;
}

static void set_word(struct json *json, const char *name, struct bytes word)
{
    if (word.size)
        json_set_bytes(json, name, word);
}

struct json *trace_entry_json(const struct trace_entry *entry)
{
    const struct trace_line *line = &entry->line;
    struct json *json = json_object();
    json_set_text(json, "kind", trace_is_plan(line) ? "plan" : "kernel");
    json_set_number(json, "wanted_ms", (double)line->wanted_us / 1e3);
    if (line->kind != TRACE_OBJECT)
        json_set_number(json, "waited_ms", (double)entry->longest_us / 1e3);
    json_set_text(json, "from", trace_tier_name(line->tier));
    json_set_u64(json, "processes", entry->processes);
    set_word(json, "target", line->target);
    set_word(json, "database_id", line->database_id);
    set_word(json, "toolchain", line->toolchain);
    set_word(json, "solver", line->solver);
    set_word(json, "key", line->key);
    set_word(json, "problem", line->rest);
    if (line->compile_us)
        json_set_number(json, "compile_ms", (double)line->compile_us / 1e3);
    return json;
}

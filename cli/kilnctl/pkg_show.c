/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"
#include "cli/text_stream.h"
#include "common/base/units.h"

#include <string.h>

struct show_options {
    bool rows;
};

static const struct option options[] = {
    { "rows", 0, OPTION_FLAG, offsetof(struct show_options, rows), NULL, "list its kernels as well",
      0, 0 },
};

struct showing {
    const char *name;
    struct json *package;
    struct table *table;
    FILE *rows;
    bool begun;
};

static int ask_package(const struct invocation *invocation, const char *name,
                       struct json **ret_package, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "name", name);
    json_set_u64(ask, "count", 0);
    return admin_ask(invocation, "package_show", ask, ret_package, err);
}

static int ask_rows(const struct invocation *invocation, const char *name, uint64_t after,
                    struct json **ret_page, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "name", name);
    if (after)
        json_set_u64(ask, "after", after);
    return admin_ask(invocation, "package_show", ask, ret_page, err);
}

static void add_row(struct table *table, const struct json *row)
{
    char size[UNITS_TEXT_MAX], stored[UNITS_TEXT_MAX];
    table_cell(table, "%llu", (unsigned long long)json_get_u64(row, "id", 0));
    table_cell(table, "%s", units_size(json_get_u64(row, "size", 0), size));
    table_cell(table, "%s", units_size(json_get_u64(row, "stored", 0), stored));
    table_cell(table, "%s", json_get_text(row, "name", ""));
    /* In quotes, because blanks at the ends are part of the arguments. */
    table_cell(table, "'%s'", json_get_text(row, "args", ""));
}

static int add_kernel(struct showing *s, const struct json *row, struct kiln_error *err)
{
    if (s->table) {
        add_row(s->table, row);
        return KILN_E_OK;
    }
    KILN_AUTO(mem) char *text = json_print(row, false);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    fprintf(s->rows, "%s%s", s->begun ? "," : "", text);
    s->begun = true;
    return KILN_E_OK;
}

static int list_rows(const struct invocation *invocation, struct showing *s, struct kiln_error *err)
{
    uint64_t after = 0;
    for (bool more = true; more;) {
        KILN_AUTO(json) struct json *page = NULL;
        int rc = ask_rows(invocation, s->name, after, &page, err);
        for (const struct json *j = rc ? NULL : json_first(json_get(page, "rows")); j && !rc;
             j = json_next(j))
            rc = add_kernel(s, j, err);
        if (rc)
            return rc;
        uint64_t next = json_get_u64(page, "next", 0);
        if (next && next <= after)
            return cli_fail(err, KILN_E_CORRUPT, "kilnd's list of kernels does not end");
        more = next > 0;
        after = next;
    }
    return KILN_E_OK;
}

static int show_table(const struct invocation *invocation, struct showing *s,
                      struct kiln_error *err)
{
    static const struct column columns[] = {
        { "ROW", ALIGN_RIGHT }, { "SIZE", ALIGN_RIGHT },     { "STORED", ALIGN_RIGHT },
        { "NAME", ALIGN_LEFT }, { "ARGUMENTS", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 5);
    if (!table)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    s->table = table;
    int rc = list_rows(invocation, s, err);
    if (!rc)
        rc = show_object(s->package, stdout, err);
    if (rc)
        return rc;
    putchar('\n');
    return table_print(table, stdout, err);
}

static bool begin_object(const struct json *object, FILE *out)
{
    KILN_AUTO(mem) char *text = json_print(object, false);
    size_t size = text ? strlen(text) : 0;
    if (size < 2)
        return false;
    return fprintf(out, "%.*s%s", (int)size - 1, text, size > 2 ? "," : "") > 0;
}

/* Prints the JSON in pieces, because a tree of 100 000 kernels would need much more memory. */
static int show_json(const struct invocation *invocation, struct showing *s, struct kiln_error *err)
{
    struct text_stream stream;
    if (!text_stream_open(&stream))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    s->rows = stream.out;
    bool fine = begin_object(s->package, s->rows);
    fputs("\"rows\":[", s->rows);
    int rc = list_rows(invocation, s, err);
    fputs("]}", s->rows);
    KILN_AUTO(mem) char *text = text_stream_end(&stream);
    if ((!text || !fine) && !rc)
        rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    if (!rc)
        output_json_text(text);
    return rc;
}

static int run_pkg_show(const struct invocation *invocation, struct kiln_error *err)
{
    const struct show_options *o = invocation->options;
    KILN_AUTO(json) struct json *package = NULL;
    struct showing showing = { .name = invocation->words[0] };
    int rc = ask_package(invocation, showing.name, &package, err);
    if (rc == KILN_E_NOT_FOUND && !*err->text)
        return cli_fail(err, rc, "no package '%s' is installed; 'kilnctl pkg ls' lists them",
                        showing.name);
    if (rc)
        return rc;
    showing.package = package;
    if (o->rows)
        return invocation->common->json ? show_json(invocation, &showing, err)
                                        : show_table(invocation, &showing, err);
    return invocation->common->json ? output_json(package, err) : show_object(package, stdout, err);
}

const struct command command_pkg_show = {
    .name = "pkg show",
    .words = "NAME",
    .summary = "show everything known about one package",
    .help = "Prints the origin and the contents of the installed package NAME.  With --rows, also\n"
            "lists each kernel's name and arguments.  The arguments are quoted, because blanks in\n"
            "them matter.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct show_options),
    .run = run_pkg_show,
};

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "cli/text_stream.h"
#include "common/base/units.h"

#include <string.h>

#define PAGE 500u
#define KEY_SHOWN 12

struct ls_options {
    const char *kind, *target, *program, *database_id, *package;
    struct option_number older_than, larger_than, limit;
};

#define AT(field) offsetof(struct ls_options, field)
static const struct option options[] = {
    { "kind", 0, OPTION_TEXT, AT(kind), "kernel|rtc|rtc-files|rtc-mark",
      "only code objects, or only one part of programs' own compiles", 0, 0 },
    { "target", 0, OPTION_TEXT, AT(target), "TARGET", "only kernels for this target", 0, 0 },
    { "program", 0, OPTION_TEXT, AT(program), "NAME", "only kernels of this program", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only kernels imported for this device: gfx90a68, or gfx90a68@2.17.0 for one MIOpen version",
      0, 0 },
    { "package", 0, OPTION_TEXT, AT(package), "NAME",
      "only kernels from this package or imported file; 'fleet': those of the fleet", 0, 0 },
    { "older-than", 0, OPTION_TIME, AT(older_than), "TIME",
      "only kernels unused for this long, such as 30d or 12h", 0, 0 },
    { "larger-than", 0, OPTION_SIZE, AT(larger_than), "SIZE",
      "only code objects larger than this, such as 64K", 0, 0 },
    { "limit", 0, OPTION_NUMBER, AT(limit), "N", "list at most N kernels", 1, UINT32_MAX },
};
#undef AT

struct listing {
    const struct ls_options *options;
    struct table *table;
    FILE *json;
    uint64_t count;
};

static struct json *create_request(const struct ls_options *o, const char *after)
{
    struct json *json = json_object();
    admin_set_text(json, "kind", o->kind);
    if (o->target)
        json_set_text(json, "target", o->target);
    if (o->program)
        json_set_text(json, "program", o->program);
    if (o->database_id)
        json_set_text(json, "database_id", o->database_id);
    admin_set_text(json, "package", o->package);
    if (o->older_than.given)
        json_set_u64(json, "older_than_s", units_whole_seconds(o->older_than.value));
    if (*after)
        json_set_text(json, "after", after);
    json_set_u64(json, "count", PAGE);
    return json;
}

static void add_row(struct table *table, const struct json *kernel)
{
    char size[UNITS_TEXT_MAX], compile[UNITS_TEXT_MAX], used[UNITS_TEXT_MAX];
    const char *database_id = json_get_text(kernel, "database_id", "");
    double compile_s = json_get_number(kernel, "compile_s", 0); /* 0 if kilnd did not compile it */
    table_cell(table, "%.*s", KEY_SHOWN, json_get_text(kernel, "key", "-"));
    table_cell(table, "%s", json_get_text(kernel, "kind", "-"));
    table_cell(table, "%.40s", json_get_text(kernel, "target", "-"));
    table_cell(table, "%s", *database_id ? database_id : "-");
    table_cell(table, "%s", json_get_text(kernel, "toolchain", "-"));
    table_cell(table, "%s", json_get_text(kernel, "program", "-"));
    table_cell(table, "%s", units_size(json_get_u64(kernel, "size", 0), size));
    table_cell(table, "%s", compile_s > 0 ? units_seconds(compile_s, compile) : "-");
    table_cell(table, "%llu", (unsigned long long)json_get_u64(kernel, "uses", 0));
    table_cell(table, "%s", units_when(json_get_u64(kernel, "last_used", 0), used));
}

static int add_kernel(struct listing *listing, const struct json *kernel, struct kiln_error *err)
{
    const struct option_number *least = &listing->options->larger_than;
    if (least->given && json_get_u64(kernel, "size", 0) <= least->value)
        return KILN_E_OK;
    if (listing->table) {
        add_row(listing->table, kernel);
    } else {
        KILN_AUTO(mem) char *text = json_print(kernel, false);
        if (!text)
            return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
        fprintf(listing->json, "%s%s", listing->count ? "," : "", text);
    }
    listing->count++;
    return KILN_E_OK;
}

static bool is_full(const struct listing *listing)
{
    return listing->options->limit.given && listing->count >= listing->options->limit.value;
}

/* Adds one page of kilnd's list, which begins at |after|. Sets |after| to the beginning of the next
 * page, or to "" if this page is the last one. */
static int list_page(const struct invocation *invocation, struct listing *listing, char *after,
                     size_t after_size, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = create_request(listing->options, after);
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "kernel_list", ask, &reply, err);
    const struct json *kernels = rc ? NULL : json_get(reply, "kernels");
    for (const struct json *j = kernels ? json_first(kernels) : NULL; j && !rc && !is_full(listing);
         j = json_next(j))
        rc = add_kernel(listing, j, err);
    if (rc)
        return rc;
    const char *next = json_get_text(reply, "next", "");
    if (*next && strcmp(next, after) == 0)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's list of kernels does not end");
    snprintf(after, after_size, "%s", next);
    return KILN_E_OK;
}

static int list_pages(const struct invocation *invocation, struct listing *listing,
                      struct kiln_error *err)
{
    char after[256] = "";
    int rc = KILN_E_OK;
    do {
        rc = list_page(invocation, listing, after, sizeof(after), err);
    } while (!rc && *after && !is_full(listing));
    return rc;
}

static int list_table(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "KEY", ALIGN_LEFT },       { "KIND", ALIGN_LEFT },         { "TARGET", ALIGN_LEFT },
        { "DB ID", ALIGN_LEFT },     { "TOOLCHAIN", ALIGN_LEFT },    { "PROGRAM", ALIGN_LEFT },
        { "SIZE", ALIGN_RIGHT },     { "COMPILED IN", ALIGN_RIGHT }, { "USES", ALIGN_RIGHT },
        { "LAST USED", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 10);
    if (!table)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    struct listing listing = { .options = invocation->options, .table = table };
    int rc = list_pages(invocation, &listing, err);
    if (!rc && listing.count == 0)
        puts("no stored kernel matches");
    return rc || listing.count == 0 ? rc : table_print(table, stdout, err);
}

/* Collects the whole list first, so that nothing is printed if a page fails. */
static int list_json(const struct invocation *invocation, struct kiln_error *err)
{
    struct text_stream stream;
    if (!text_stream_open(&stream))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while listing kernels");
    struct listing listing = { .options = invocation->options, .json = stream.out };
    int rc = list_pages(invocation, &listing, err);
    KILN_AUTO(mem) char *text = text_stream_end(&stream);
    if (!text && !rc)
        rc = cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %llu kernels",
                      (unsigned long long)listing.count);
    if (!rc)
        printf("{\"kernels\":[%s]}\n", text);
    return rc;
}

static int run_kernel_ls(const struct invocation *invocation, struct kiln_error *err)
{
    return invocation->common->json ? list_json(invocation, err) : list_table(invocation, err);
}

const struct command command_kernel_ls = {
    .name = "kernel ls",
    .words = "",
    .summary = "list the stored kernels",
    .help =
        "Lists the kernels in the store.  For 'kernel show' and 'kernel rm', the first digits of\n"
        "a key are enough if no other key begins with them.\n"
        "\n"
        "Kind rtc is what NVRTC, hiprtc or comgr returned to a program that runs by\n"
        "'kilnctl run'.  rtc-files is a list of the files that such a compile reads, and rtc-mark\n"
        "a mark that a compile has ended.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct ls_options),
    .run = run_kernel_ls,
};

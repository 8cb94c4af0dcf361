/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/pkg_build.h"

#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/built_name.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/prefetch_run.h"
#include "cli/kilnctl/problem_file.h"
#include "cli/kilnctl/sign.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/bytes.h"
#include "common/base/units.h"

#include <limits.h>
#include <string.h>

#define AT(field) offsetof(struct build_options, field)
static const struct option options[] = {
    { "target", 't', OPTION_TEXT, AT(target), "TARGET",
      "the target: gfx90a, gfx1100, ... (required)", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "MIOpen's name of the device: gfx90a68 for 104 compute units", 0, 0 },
    { "problems", 0, OPTION_TEXT, AT(problems), "FILE",
      "MIOpenDriver command lines, as for prefetch (required without --generic)", 0, 0 },
    { "generic", 0, OPTION_FLAG, AT(generic), NULL,
      "pack the generic kernels, which solve problems of any size", 0, 0 },
    { "output", 'o', OPTION_TEXT, AT(output), "OUT", "the package to write (required)", 0, 0 },
    { "format", 0, OPTION_TEXT, AT(format), "kdb|kiln",
      "kdb: MIOpen's format; kiln: also records sources and compilers (by OUT's ending)", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME", "the compiler to use; see 'toolchain ls'",
      0, 0 },
    { "key", 0, OPTION_TEXT, AT(key), "FILE",
      "sign the package with this secret key; also writes OUT" SIGN_SUFFIX, 0, 0 },
    { "records", 0, OPTION_FLAG, AT(records), NULL,
      "also pack the tuning records of the problems; only with --format kiln", 0, 0 },
    { "keep-going", 'k', OPTION_FLAG, AT(keep_going), NULL,
      "write the package even if some problems failed", 0, 0 },
};
#undef AT

struct build {
    const struct invocation *invocation;
    const char *name; /* name of the command */
    const struct build_options *o;
    const struct problem_set *problems; /* NULL: |o| names a file of problems */
    const char *format;
    struct prefetch prefetch;
    struct json *reply;
    int package;
    char *manifest;
    bool written;
    uint64_t failures;
};

static void build_done(struct build *b)
{
    prefetch_done(&b->prefetch);
    json_destroy(b->reply);
    fd_auto(&b->package);
    free(b->manifest);
}

/* ---- the request ---- */

static int check_options(struct build *b, struct kiln_error *err)
{
    const struct build_options *o = b->o;
    const char *missing = !o->target ? "--target, such as gfx90a"
                          : !o->problems && !b->problems && !o->generic
                              ? "--problems: a file of MIOpenDriver command lines"
                          : !o->output ? "--output: the package to write, such as gfx90a68.kdb"
                                       : NULL;
    if (missing)
        return cli_fail(err, KILN_E_INVALID, "%s needs %s", b->name, missing);
    if (o->generic && (o->problems || b->problems || o->records))
        return cli_fail(err, KILN_E_INVALID,
                        "--generic packs the same kernels for all problems: leave out --problems "
                        "and --records");
    b->format = o->format ? o->format : text_ends_with(o->output, ".kpkg") ? "kiln" : "kdb";
    if (strcmp(b->format, "kdb") != 0 && strcmp(b->format, "kiln") != 0)
        return cli_fail(err, KILN_E_INVALID, "unknown format '%s': choose kdb or kiln", b->format);
    if (o->records && (strcmp(b->format, "kiln") != 0 || !o->database_id))
        return cli_fail(err, KILN_E_INVALID,
                        "--records needs a package of kiln's format (such as '-o gfx90a68.kpkg') "
                        "and the device that the records belong to (such as '--db-id gfx90a68')");
    const struct built_name name = { .file = new_file_name(o->output),
                                     .target = o->target,
                                     .database_id = o->database_id,
                                     .kilns = strcmp(b->format, "kiln") == 0 };
    int rc = built_name_check(&name, err);
    if (rc)
        return rc;
    return o->key ? sign_check_key(o->key, err) : KILN_E_OK;
}

/* If no device would use the package under its current name, prints a better name.  Without a
 * database id, only tests the ending, because built_name_check has tested the rest of the name. */
static void advise_on_name(const struct build *b)
{
    const char *name = new_file_name(b->o->output);
    const char *id = b->o->database_id ? built_name_stem(b->o->database_id, b->o->target) : NULL;
    const char *ending = strcmp(b->format, "kiln") == 0 ? ".kpkg" : ".kdb";
    char text[512];
    if (b->o->database_id && !id)
        return;
    bool named = !id || (strncmp(name, id, strlen(id)) == 0 && name[strlen(id)] == '.');
    if (named && text_ends_with(name, ending))
        return;
    snprintf(text, sizeof(text),
             "kilnctl: to apply to %.64s, the package must be installed as '%.64s%s': use 'kilnctl "
             "pkg install --name'",
             id ? id : "a device", id ? id : "<database id>", ending);
    output_clean(text, false);
    fprintf(stderr, "%s\n", text);
}

static int prefetch_problems(struct build *b, struct kiln_error *err)
{
    if (b->o->generic)
        return KILN_E_OK;
    const struct prefetch_question question = {
        .invocation = b->invocation,
        .path = b->problems ? NULL : b->o->problems,
        .problems = b->problems,
        .target = b->o->target,
        .database_id = b->o->database_id,
        .toolchain = b->o->toolchain,
        .label = "kernels",
    };
    return prefetch_run(&question, &b->prefetch, err);
}

/* ---- kilnd's part ---- */

static int request_package(struct build *b, const struct json *ask, int problems,
                           struct kiln_error *err)
{
    struct call_progress progress;
    size_t count = 0;
    call_progress_init(&progress, new_file_name(b->o->output));
    const struct admin_call call = { .request = "package_build",
                                     .arguments = ask,
                                     .file = problems,
                                     .second_file = -1,
                                     .progress = &progress,
                                     .ret_files = &b->package,
                                     .ret_files_max = 1,
                                     .ret_file_count = &count };
    int rc = admin_call(b->invocation, &call, &b->reply, err);
    if (!rc && count == 0)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer contains no package");
    return rc;
}

static int ask_daemon(struct build *b, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(fd) int problems = -1;
    int rc = b->o->generic ? KILN_E_OK : problem_file_make(&b->prefetch.problems, &problems, err);
    if (rc)
        return rc;
    json_set_text(ask, "target", b->o->target);
    json_set_text(ask, "format", b->format);
    if (b->o->database_id)
        json_set_text(ask, "database_id", b->o->database_id);
    if (b->o->toolchain)
        json_set_text(ask, "toolchain", b->o->toolchain);
    if (b->o->records)
        json_set_bool(ask, "records", true);
    if (b->o->generic)
        json_set_bool(ask, "generic", true);
    rc = request_package(b, ask, problems, err);
    if (!rc)
        b->failures = json_get_u64(b->reply, "failures", 0);
    return rc ? cli_while(err, "building the package") : KILN_E_OK;
}

static void print_failures(const struct build *b)
{
    const struct json *failed = json_get(b->reply, "failed");
    if (b->prefetch.report.failed > 0 || b->prefetch.json)
        return;
    for (const struct json *j = json_first(failed); j; j = json_next(j)) {
        char line[768];
        snprintf(line, sizeof(line), "%.512s", json_get_text(j, "text", "?"));
        output_clean(line, false);
        fprintf(stderr, "%s\n", line);
        output_lines(stderr, "    ", json_get_text(j, "problem", "?"));
    }
}

/* ---- the files ---- */

static int write_files(struct build *b, struct kiln_error *err)
{
    const char *out = b->o->output;
    const struct new_file file = { .path = out, .replace = true, .from = b->package };
    int rc = KILN_E_OK;
    const struct sign_file content = { .fd = b->package, .name = new_file_name(out) };
    if (b->o->key)
        rc = sign_manifest(b->o->key, &content, &b->manifest, err);
    if (!rc)
        rc = new_file_write(&file, err);
    b->written = !rc;
    if (!rc && b->manifest)
        rc = sign_write_manifest(out, b->manifest, err);
    return rc;
}

static void advise_on_old_manifest(const struct build *b)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s" SIGN_SUFFIX, b->o->output);
    if (b->manifest || size < 0 || (size_t)size >= sizeof(path) || access(path, F_OK) != 0)
        return;
    output_clean(path, false);
    fprintf(stderr,
            "kilnctl: '%s' belongs to an earlier package: remove it, or sign this package with "
            "'kilnctl pkg sign'\n",
            path);
}

static int build_package(struct build *b, struct kiln_error *err)
{
    int rc = check_options(b, err);
    if (!rc)
        rc = prefetch_problems(b, err);
    bool some = rc == KILN_E_COMPILE_FAILED && b->prefetch.report.done > 0;
    if (some && !b->o->keep_going)
        return cli_fail(err, rc,
                        "%zu failed, %zu of %zu problems are ready: nothing was written; "
                        "with --keep-going, the package has those",
                        b->prefetch.report.failed, b->prefetch.report.done,
                        b->prefetch.report.problems);
    if (rc && !some)
        return rc;
    rc = ask_daemon(b, err);
    if (rc)
        return rc;
    print_failures(b);
    uint64_t failed = b->prefetch.report.failed;
    failed = failed > b->failures ? failed : b->failures;
    if (failed && !b->o->keep_going)
        return cli_fail(err, KILN_E_COMPILE_FAILED,
                        "%llu problem%s could not be built: nothing was written; with "
                        "--keep-going, the package has the others",
                        (unsigned long long)failed, failed == 1 ? "" : "s");
    rc = write_files(b, err);
    if (!rc && failed)
        return cli_fail(err, KILN_E_COMPILE_FAILED, "%llu problem%s could not be built",
                        (unsigned long long)failed, failed == 1 ? "" : "s");
    return rc;
}

/* ---- the report ---- */

static void print_package(const struct build *b)
{
    char line[1024], kernels[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    char count[DB_NAME_MAX], records[DB_NAME_MAX] = "";
    if (b->o->records)
        snprintf(records, sizeof(records), "%.60s, ",
                 db_count(json_get_u64(b->reply, "records", 0), "tuning record", count));
    snprintf(line, sizeof(line), "wrote '%.400s': %s, %s%s%s", b->o->output,
             units_kernels(json_get_u64(b->reply, "kernels", 0), kernels), records,
             units_size(json_get_u64(b->reply, "size", 0), size), b->manifest ? ", signed" : "");
    output_clean(line, false);
    puts(line);
}

static struct json *result_json(const struct build *b)
{
    struct json *json = json_object();
    json_set_text(json, "file", b->o->output);
    json_set_text(json, "format", b->format);
    json_set_u64(json, "kernels", json_get_u64(b->reply, "kernels", 0));
    if (b->o->records)
        json_set_u64(json, "records", json_get_u64(b->reply, "records", 0));
    json_set_u64(json, "size", json_get_u64(b->reply, "size", 0));
    json_set_bool(json, "signed", b->manifest != NULL);
    return json;
}

static int print_json(const struct build *b, int rc, struct kiln_error *err)
{
    struct kiln_error unused = { 0 };
    KILN_AUTO(json) struct json *json = json_object();
    if (b->written)
        json_set(json, "package", result_json(b));
    if (b->prefetch.begun)
        json_set(json, "prefetch", prefetch_report_json(&b->prefetch.report));
    if (rc)
        json_set(json, "error", result_error_json(err));
    int printed = output_json(json, rc ? &unused : err);
    *b->invocation->reported = rc && !printed;
    return rc ? rc : printed;
}

int pkg_build_problems(const struct invocation *invocation, const char *name,
                       const struct build_options *o, const struct problem_set *problems,
                       struct kiln_error *err)
{
    __attribute__((cleanup(build_done))) struct build b = {
        .invocation = invocation, .name = name, .o = o, .problems = problems, .package = -1
    };
    int rc = build_package(&b, err);
    if (b.written) {
        advise_on_name(&b);
        advise_on_old_manifest(&b);
    }
    if (invocation->common->json)
        return b.prefetch.begun || b.written ? print_json(&b, rc, err) : rc;
    if (b.written)
        print_package(&b);
    return rc;
}

static int run_pkg_build(const struct invocation *invocation, struct kiln_error *err)
{
    return pkg_build_problems(invocation, "pkg build", invocation->options, NULL, err);
}

const struct command command_pkg_build = {
    .name = "pkg build",
    .words = "",
    .summary = "compile problems into a package; needs no GPU",
    .help =
        "Compiles every kernel that the problems in FILE need ('-': standard input), and writes\n"
        "the kernels into the package OUT, for hosts that should not compile.  Works for every\n"
        "target that a compiler of this host supports.  The same inputs give the same bytes.  If\n"
        "anything fails, nothing is written, unless --keep-going is given; the exit status is 1\n"
        "in both cases.\n"
        "\n"
        "With --generic, packs the generic kernels instead.  They take sizes as arguments, and\n"
        "stand in for kernels that are not compiled yet.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct build_options),
    .run = run_pkg_build,
};

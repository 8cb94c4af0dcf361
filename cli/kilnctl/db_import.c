/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_file.h"
#include "cli/kilnctl/db_send.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/url.h"

struct import_options {
    const char *database_id, *kind, *backend, *tier, *sha256;
    bool strict, verbose;
};

/* The options of 'db import'. 'db merge' has all of them except the last one. */
#define AT(field) offsetof(struct import_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "the files' device, such as gfx90a68 (from the file's name)", 0, 0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "FindDb or PerfDb (from the file's name)", 0,
      0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL",
      "FindDb's backend (from the file's name)", 0, 0 },
    { "tier", 0, OPTION_TEXT, AT(tier), "system|host|user",
      "import: the tier (from the file's name); merge: host or user (user)", 0, 0 },
    { "strict", 0, OPTION_FLAG, AT(strict), NULL, "import nothing from a file with an invalid line",
      0, 0 },
    { "verbose", 'v', OPTION_FLAG, AT(verbose), NULL,
      "list all keys that are stored unparsed, not only the first ten", 0, 0 },
    { "sha256", 0, OPTION_TEXT, AT(sha256), "HEX",
      "the SHA-256 of the URL's file; any other file is rejected", 0, 0 },
};
#undef AT
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int check_options(const struct invocation *invocation, bool merges, struct kiln_error *err)
{
    const struct import_options *o = invocation->options;
    int rc = db_check_word("tier", o->tier, merges ? DB_OWN_TIERS : DB_TIERS, err);
    if (!rc)
        rc = db_check_word("kind", o->kind, DB_KINDS, err);
    if (!rc && o->sha256 && (invocation->word_count > 1 || !url_is(invocation->words[0])))
        rc = cli_fail(err, KILN_E_INVALID, "--sha256 works only with a single URL");
    return rc;
}

static int send_file(const struct invocation *invocation, bool merges, const char *path,
                     struct json **ret_answer, struct kiln_error *err)
{
    const struct import_options *o = invocation->options;
    char note[DB_NOTE_MAX] = "", label[URL_LABEL_MAX];
    const char *shown = url_shown(path, label);
    struct db_sending sending = { .merges = merges,
                                  .path = shown,
                                  .name = url_is(path) ? NULL : new_file_name(path),
                                  .url = url_is(path) ? path : NULL,
                                  .sha256 = o->sha256,
                                  .database_id = o->database_id,
                                  .kind = o->kind,
                                  .backend = o->backend,
                                  .tier = merges && !o->tier ? "user" : o->tier,
                                  .strict = o->strict,
                                  .verbose = o->verbose,
                                  .verbose_name = "--verbose" };
    KILN_AUTO(fd) int fd = -1;
    int rc = sending.url ? KILN_E_OK : db_file_open(invocation, path, &fd, note, err);
    sending.fd = fd;
    if (!rc)
        rc = db_send(invocation, &sending, ret_answer, err);
    if (rc)
        return cli_while(err, "%.200s", shown);
    json_set_text(*ret_answer, "file", shown);
    if (*note)
        json_set_text(*ret_answer, "note", note);
    if (!invocation->common->json)
        db_send_print(&sending, *ret_answer);
    rc = db_send_judge(&sending, *ret_answer, err);
    return rc || !*note ? rc : cli_fail(err, KILN_E_CORRUPT, "'%.200s': %.500s", shown, note);
}

static void send_word(const struct invocation *invocation, bool merges, const char *word,
                      struct several *several, struct json *answers)
{
    DB_FILES_AUTO struct db_files files = { .paths = NULL };
    struct kiln_error why = { 0 };
    int rc = db_files_of(word, &files, &why);
    if (rc)
        several_note(several, word, rc, &why);
    for (size_t i = 0; i < files.count && !several->over; i++) {
        char label[URL_LABEL_MAX];
        struct json *answer = NULL;
        rc = send_file(invocation, merges, files.paths[i], &answer, &why);
        several_note(several, url_shown(files.paths[i], label), rc, &why);
        if (answer)
            json_append(answers, answer);
    }
}

static void set_sums(struct json *json, const struct json *answers)
{
    static const char *const members[] = { "records", "entries", "added",    "replaced",
                                           "kept",    "bad",     "verbatim", "conflicts" };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        uint64_t sum = 0;
        for (const struct json *j = json_first(answers); j; j = json_next(j))
            sum += json_get_u64(j, members[i], 0);
        json_set_u64(json, members[i], sum);
    }
}

static int import_or_merge(const struct invocation *invocation, bool merges, struct kiln_error *err)
{
    int rc = check_options(invocation, merges, err);
    if (rc)
        return rc;
    SEVERAL_AUTO struct several several;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *answers = json_set_array(json, "files");
    several_init(&several, invocation, "file");
    for (size_t i = 0; i < invocation->word_count && !several.over; i++)
        send_word(invocation, merges, invocation->words[i], &several, answers);
    set_sums(json, answers);
    return several_end(&several, json, err);
}

static int run_db_import(const struct invocation *invocation, struct kiln_error *err)
{
    return import_or_merge(invocation, false, err);
}

static int run_db_merge(const struct invocation *invocation, struct kiln_error *err)
{
    return import_or_merge(invocation, true, err);
}

const struct command command_db_import = {
    .name = "db import",
    .words = "FILE|DIR|URL...",
    .summary = "import MIOpen's FindDb and PerfDb files",
    .help =
        "Reads FindDb text in both dialects and PerfDb as SQLite or text, also compressed\n"
        "(.bz2).  For a DIR, reads all such files in it.  Kind, device and backend are taken from\n"
        "the file's name, such as gfx90a68.HIP.fdb.txt, gfx906_60.db or sm_90_132.CUDA.fdb.txt,\n"
        "unless options give them.\n"
        "\n"
        "In the system tier, a file replaces the earlier one for the same device.  In the host\n"
        "tier and your own, its records replace those with the same keys; measurements of other\n"
        "solvers stay.  Lines and rows that are invalid in whole or in part are skipped and\n"
        "reported as FILE:LINE: WHY, and the exit status is 1.  With --strict, a file with such a\n"
        "line is not imported at all.  Keys that match no problem known to kiln are listed as\n"
        "FILE:LINE: KEY: WHY; their records are stored unchanged.  The system and host tiers are\n"
        "for publishers and administrators; a URL, which kilnd fetches, is for administrators.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = OPTIONS,
    .options_size = sizeof(struct import_options),
    .run = run_db_import,
};

const struct command command_db_merge = {
    .name = "db merge",
    .words = "FILE|DIR|URL...",
    .summary = "merge tuning files with the recorded values by statistics",
    .help =
        "Like 'db import', but if a solver was measured twice, the more reliable measurement\n"
        "wins: the one with more samples, then the one with the smaller spread.  Measurements\n"
        "with statistics win over imported ones.  If neither has statistics, the faster FindDb\n"
        "entry wins, and the existing PerfDb entry stays.  Contradicting measurements are shown\n"
        "as conflicts, with the reason for the decision.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = OPTIONS - 1,
    .options_size = sizeof(struct import_options),
    .run = run_db_merge,
};

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_progress.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"

struct verify_options {
    const char *database_id, *driver, *toolchain;
};

#define AT(field) offsetof(struct verify_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only records of this device, such as gfx90a68", 0, 0 },
    { "driver", 0, OPTION_TEXT, AT(driver), "VERSION",
      "entries measured with another driver are stale", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME",
      "entries measured with another compiler are stale", 0, 0 },
};
#undef AT

static void print_stale(void *context, const struct json *item)
{
    char user[DB_NAME_MAX], when[UNITS_TEXT_MAX];
    (void)context;
    db_say("stale: %.8s %.64s %.8s %.400s %.200s: %.100s, %.100s, %s, by %s",
           json_get_text(item, "kind", "?"), json_get_text(item, "database_id", "?"),
           json_get_text(item, "tier", "?"), json_get_text(item, "key", "?"),
           json_get_text(item, "solver", "?"), json_get_text(item, "driver", "unknown driver"),
           json_get_text(item, "toolchain", "unknown toolchain"),
           units_when(json_get_u64(item, "measured_at", 0), when), db_user_name(item, user));
}

static void print_damaged(void *context, const struct json *item)
{
    char line[1200];
    (void)context;
    snprintf(line, sizeof(line), "kilnctl: damaged: %.500s: %.600s",
             json_get_text(item, "what", "?"), json_get_text(item, "why", "?"));
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

static int judge_damage(const struct json *reply, struct kiln_error *err)
{
    uint64_t damaged = json_get_u64(reply, "damaged", 0);
    if (damaged == 0)
        return KILN_E_OK;
    return cli_fail(
        err, KILN_E_CORRUPT,
        "%llu tuning %s damaged: import the system databases again; to restore a backup "
        "of tuning.db, stop kilnd first",
        (unsigned long long)damaged, damaged == 1 ? "database is" : "databases are");
}

static void print_sums(const struct json *reply)
{
    char count[DB_NAME_MAX];
    uint64_t unchecked = json_get_u64(reply, "unchecked", 0);
    db_say("%s checked", db_count(json_get_u64(reply, "checked", 0), "record", count));
    if (unchecked > 0)
        db_say("%s not checked: their databases cannot be opened",
               db_count(unchecked, "record", count));
    if (!json_get_bool(reply, "tuning_db_checked", true))
        db_say("tuning.db itself was not checked: only administrators may, because it takes long");
    db_say("%s to be measured again", db_count(json_get_u64(reply, "stale", 0), "entry", count));
    db_say("%s damaged", db_count(json_get_u64(reply, "damaged", 0), "database", count));
}

static int report_result(const struct invocation *invocation, struct db_progress *progress,
                         struct json *reply, struct kiln_error *err)
{
    struct kiln_error why = { 0 };
    int damaged = judge_damage(reply, &why), rc = KILN_E_OK;
    if (invocation->common->json) {
        db_progress_move(progress, 0, reply, "stale_entries");
        db_progress_move(progress, 1, reply, "damaged_parts");
        if (damaged)
            json_set(reply, "error", result_error_json(&why));
        rc = output_json(reply, err);
        *invocation->reported = damaged && !rc;
    } else {
        print_sums(reply);
    }
    if (rc || !damaged)
        return rc;
    *err = why;
    return damaged;
}

static int run_db_verify(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct db_list lists[] = {
        { "stale", print_stale, .even_with_json = false },
        { "damaged", print_damaged, .even_with_json = true },
        { NULL, NULL, false },
    };
    const struct verify_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object(), *reply = NULL;
    DB_PROGRESS_AUTO struct db_progress progress;
    db_progress_init(&progress, "verify", lists, NULL, invocation->common->json);
    admin_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "driver", o->driver);
    admin_set_text(ask, "toolchain", o->toolchain);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "tuning_verify", .arguments = ask,
                                     .db_progress = &progress };
    int rc = admin_call(invocation, &call, &reply, err);
    return rc ? rc : report_result(invocation, &progress, reply, err);
}

const struct command command_db_verify = {
    .name = "db verify",
    .words = "",
    .summary = "find damaged records, and records to measure again",
    .help =
        "Checks every readable record, and counts those that cannot be read.  Lists the entries\n"
        "that were measured with another driver or compiler than --driver and --toolchain say;\n"
        "without these options, with another than the newest measurement on the same device.  The\n"
        "exit status is 1 if anything is damaged; stale entries alone are not a failure.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct verify_options),
    .run = run_db_verify,
};

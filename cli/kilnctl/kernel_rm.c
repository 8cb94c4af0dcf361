/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/key_prefix.h"
#include "cli/outcome.h"
#include "cli/output.h"

/* What became of the prefixes so far. */
struct removal {
    uint64_t removed;
    struct json *failures;   /* owned */
    struct kiln_error first; /* of the failures; code KILN_E_OK: none */
};

static int remove_one(const struct invocation *invocation, const char *prefix,
                      struct removal *removal, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = key_prefix_ask(invocation, "kernel_remove", prefix, &reply, err);
    if (!rc)
        removal->removed += json_get_u64(reply, "removed", 0);
    return rc;
}

/* The first failure is main's to print, in the end; the others are printed here. */
static void note_failure(struct removal *removal, const char *prefix, const struct kiln_error *why)
{
    struct json *failure = outcome_error_json(why);
    json_set_text(failure, "key", prefix);
    json_append(removal->failures, failure);
    if (removal->first.code)
        output_error(stderr, "kilnctl", why, NULL);
    else
        removal->first = *why;
}

static int print_json(const struct invocation *invocation, struct removal *removal,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "removed", removal->removed);
    json_set(json, "failures", KILN_TAKE(removal->failures));
    if (removal->first.code)
        json_set(json, "error", outcome_error_json(&removal->first));
    int rc = output_json(json, err);
    *invocation->reported = removal->first.code && !rc;
    return rc;
}

static int print(const struct invocation *invocation, struct removal *removal,
                 struct kiln_error *err)
{
    if (invocation->common->json)
        return print_json(invocation, removal, err);
    printf("%llu removed\n", (unsigned long long)removal->removed);
    return KILN_E_OK;
}

/* Nobody there, or not for us: the next one would be told the same. */
static bool is_end(int code) { return code == KILN_E_UNAVAILABLE || code == KILN_E_DENIED; }

static int run(const struct invocation *invocation, struct kiln_error *err)
{
    struct removal removal = { .failures = json_array() };
    int last = KILN_E_OK;
    for (size_t i = 0; i < invocation->word_count && !is_end(last); i++) {
        struct kiln_error why = { 0 };
        last = remove_one(invocation, invocation->words[i], &removal, &why);
        if (last)
            note_failure(&removal, invocation->words[i], &why);
    }
    int rc = KILN_E_OK;
    if (removal.removed > 0 || !is_end(removal.first.code))
        rc = print(invocation, &removal, err);
    json_destroy(removal.failures);
    if (!removal.first.code)
        return rc;
    *err = removal.first;
    return err->code;
}

const struct command command_kernel_rm = {
    .name = "kernel rm",
    .words = "KEY-PREFIX...",
    .summary = "drop stored kernels by key",
    .help =
        "Drops each kernel whose key begins with a KEY-PREFIX.  A prefix that more than one key\n"
        "begins with drops nothing.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .run = run,
};

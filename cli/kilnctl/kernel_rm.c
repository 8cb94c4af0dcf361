/* SPDX-License-Identifier: MIT */
#include "cli/exit_status.h"
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/key_prefix.h"
#include "cli/output.h"

static int remove_one(const struct invocation *invocation, const char *prefix, uint64_t *removed,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = key_prefix_ask(invocation, "kernel_remove", prefix, &reply, err);
    if (!rc)
        *removed += json_get_u64(reply, "removed", 0);
    return rc;
}

static int print(const struct invocation *invocation, uint64_t removed, struct kiln_error *err)
{
    if (!invocation->common->json) {
        printf("%llu removed\n", (unsigned long long)removed);
        return KILN_E_OK;
    }
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "removed", removed);
    return output_json(json, err);
}

/* One that fails does not keep the others; the first failure is the one returned. */
static int run(const struct invocation *invocation, struct kiln_error *err)
{
    uint64_t removed = 0;
    int first = KILN_E_OK;
    for (size_t i = 0; i < invocation->word_count; i++) {
        struct kiln_error why = { 0 };
        int rc = remove_one(invocation, invocation->words[i], &removed, &why);
        if (rc && first)
            output_error(stderr, "kilnctl", &why, NULL);
        if (rc && !first) {
            first = rc;
            *err = why;
        }
        if (rc == KILN_E_UNAVAILABLE || rc == KILN_E_DENIED)
            return first;
    }
    struct kiln_error unprinted = { 0 };
    int rc = print(invocation, removed, first ? &unprinted : err);
    return first ? first : rc;
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

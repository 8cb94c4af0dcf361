/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"
#include "cli/kilnctl/several.h"

static int remove_kernel(const struct invocation *invocation, const char *prefix, uint64_t *removed,
                         struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = key_prefix_ask(invocation, "kernel_remove", prefix, &reply, err);
    if (!rc)
        *removed += json_get_u64(reply, "removed", 0);
    return rc;
}

static int run_kernel_rm(const struct invocation *invocation, struct kiln_error *err)
{
    SEVERAL_AUTO struct several keys;
    uint64_t removed = 0;
    several_init(&keys, invocation, "key");
    for (size_t i = 0; i < invocation->word_count && !keys.over; i++) {
        struct kiln_error why = { 0 };
        int rc = remove_kernel(invocation, invocation->words[i], &removed, &why);
        several_note(&keys, invocation->words[i], rc, &why);
    }
    if (!invocation->common->json && (keys.done > 0 || !keys.over))
        printf("%llu removed\n", (unsigned long long)removed);
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "removed", removed);
    return several_end(&keys, json, err);
}

const struct command command_kernel_rm = {
    .name = "kernel rm",
    .words = "KEY-PREFIX...",
    .summary = "drop stored kernels by key",
    .help =
        "Drops each kernel whose key begins with a KEY-PREFIX.  If several keys begin with a\n"
        "prefix, nothing is dropped for it.  Administrators can drop any kernel; other users can\n"
        "drop the kernels that they imported for themselves.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .run = run_kernel_rm,
};

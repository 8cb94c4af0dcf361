/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"

static int run(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "stats", NULL, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : show_object(reply, stdout, err);
}

const struct command command_stats = {
    .name = "stats",
    .words = "",
    .summary = "counters since the daemon started, and sizes now",
    .help = "Prints kilnd's counters since it started: fetches, hits by where they were found, "
            "misses,\ncompiles and what became of them; then the sizes of the stores.",
    .run = run,
};

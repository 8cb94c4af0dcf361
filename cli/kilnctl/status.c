/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"

static int run_status(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "status", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : show_object(reply, stdout, err);
}

const struct command command_status = {
    .name = "status",
    .words = "",
    .summary = "show what runs: version, paths, workers, stores, toolchains",
    .help =
        "Prints this host's kilnd: version and pid, socket and directories, compiler workers, the\n"
        "kernel store, the hot set and the toolchains it found.",
    .run = run_status,
};

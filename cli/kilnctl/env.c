/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/preload.h"
#include "cli/output.h"

#include <stdio.h>

static int run_env(const struct invocation *invocation, struct kiln_error *err)
{
    char value[PRELOAD_MAX];
    int rc = preload_value(value, err);
    if (rc)
        return rc;
    if (invocation->common->json) {
        KILN_AUTO(json) struct json *json = json_object();
        json_set_text(json, "LD_PRELOAD", value);
        return output_json(json, err);
    }
    fputs("export LD_PRELOAD=", stdout);
    output_shell_word(value);
    putchar('\n');
    return KILN_E_OK;
}

const struct command command_env = {
    .name = "env",
    .words = "",
    .summary = "print the variables of 'kilnctl run' for a shell",
    .help =
        "Prints a line \"export LD_PRELOAD=...\".  After eval \"$(kilnctl env)\", a shell starts\n"
        "every program as 'kilnctl run' does.  Slurm's TaskProlog can print the same line.",
    .run = run_env,
};

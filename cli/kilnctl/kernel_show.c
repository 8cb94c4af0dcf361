/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/key_prefix.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"

static int run_kernel_show(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = key_prefix_ask(invocation, "kernel_show", invocation->words[0], &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : show_object(reply, stdout, err);
}

const struct command command_kernel_show = {
    .name = "kernel show",
    .words = "KEY-PREFIX",
    .summary = "show everything recorded about one stored kernel",
    .help = "Prints what the store has recorded about the kernel whose key begins with KEY-PREFIX.",
    .least_words = 1,
    .most_words = 1,
    .run = run_kernel_show,
};

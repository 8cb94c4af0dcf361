/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"
#include "common/base/units.h"

static int run_db_vacuum(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    char freed[UNITS_TEXT_MAX], bytes[UNITS_TEXT_MAX];
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "tuning_vacuum",
                                     .arguments = admin_no_arguments };
    int rc = admin_call(invocation, &call, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    db_say("freed %s; tuning.db takes %s", units_size(json_get_u64(reply, "freed", 0), freed),
           units_size(json_get_u64(reply, "bytes", 0), bytes));
    return KILN_E_OK;
}

const struct command command_db_vacuum = {
    .name = "db vacuum",
    .words = "",
    .summary = "free the unused space in tuning.db",
    .help = "Returns the unused space in tuning.db to the filesystem.  Meanwhile, the filesystem\n"
            "needs enough free space for a copy of it.  For administrators.",
    .run = run_db_vacuum,
};

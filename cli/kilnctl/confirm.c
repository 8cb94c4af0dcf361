/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/confirm.h"

#include "common/base/json.h"
#include "common/base/units.h"

#include <unistd.h>

int confirm_possible(bool yes, bool dry_run, struct kiln_error *err)
{
    if (yes || dry_run || (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "cannot ask for confirmation without a terminal: add --yes to drop without "
                    "confirmation, or --dry-run to see what would be dropped");
}

void confirm_say(FILE *out, const char *before, const struct json *answer, const char *after)
{
    char count[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    fprintf(out, "%s%s, %s%s", before, units_kernels(json_get_u64(answer, "kernels", 0), count),
            units_size(json_get_u64(answer, "bytes", 0), size), after);
    fflush(out);
}

int confirm_drop(const struct json *dry_run_answer, struct kiln_error *err)
{
    confirm_say(stderr, "drop ", dry_run_answer, "? [y/N] ");
    return confirm_read(err);
}

int confirm_read(struct kiln_error *err)
{
    char answer[16] = "";
    if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
        return cli_fail(err, KILN_E_CANCELLED, "not confirmed: nothing was dropped");
    return KILN_E_OK;
}

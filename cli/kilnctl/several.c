/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/several.h"

#include "cli/output.h"
#include "cli/result.h"

#include <stdio.h>

/* Maximum number of failures that are printed after the first one. --json lists all. */
#define FAILURES_PRINTED 20u

void several_init(struct several *several, const struct invocation *invocation, const char *noun)
{
    *several = (struct several){
        .invocation = invocation,
        .noun = noun,
        .failures = json_array(),
    };
}

void several_release(struct several *several) { json_destroy(several->failures); }

void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why)
{
    if (!rc) {
        several->done++;
        return;
    }
    struct json *failure = result_error_json(why);
    json_set_text(failure, several->noun, word);
    json_append(several->failures, failure);
    several->over |= rc == KILN_E_UNAVAILABLE || *several->invocation->refused;
    if (!several->first.code)
        several->first = *why;
    else if (++several->later <= FAILURES_PRINTED)
        output_error(stderr, "kilnctl", why, NULL);
}

static int print_json(struct several *several, struct json *json, struct kiln_error *err)
{
    json_set(json, "failures", KILN_TAKE(several->failures));
    if (several->first.code)
        json_set(json, "error", result_error_json(&several->first));
    int rc = output_json(json, err);
    *several->invocation->reported = several->first.code && !rc;
    return rc;
}

int several_end(struct several *several, struct json *json, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    if (several->invocation->common->json && (several->done > 0 || !several->over))
        rc = print_json(several, json, err);
    if (!several->first.code)
        return rc;
    if (several->later > FAILURES_PRINTED)
        fprintf(stderr, "kilnctl: %zu more failures; --json lists all\n",
                several->later - FAILURES_PRINTED);
    *err = several->first;
    return err->code;
}

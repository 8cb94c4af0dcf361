/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"

#include <kiln/admin.h>

#include <stdio.h>
#include <string.h>

static inline void reply_auto(char **text) { kiln_free(*text); }

int admin_ask(const struct invocation *invocation, const char *request,
              const struct json *arguments, struct json **ret_reply, struct kiln_error *err)
{
    KILN_AUTO(mem) char *text = arguments ? json_print(arguments, false) : NULL;
    KILN_AUTO(reply) char *reply = NULL;
    KILN_AUTO(json) struct json *tree = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (arguments && !text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the request '%s'", request);
    int rc = kiln_admin(invocation->client, request, text, 0, &reply, err);
    if (rc)
        return rc;
    if (json_parse(bytes_of(reply, strlen(reply)), "kilnd's answer", &tree, &why))
        return cli_fail(err, KILN_E_CORRUPT, "%s", why.text);
    if (!json_is_object(tree))
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer to '%s' is no JSON object", request);
    *ret_reply = KILN_TAKE(tree);
    return KILN_E_OK;
}

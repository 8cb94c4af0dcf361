/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"

#include <string.h>

#define KEY_DIGITS 64

int key_prefix_ask(const struct invocation *invocation, const char *request, const char *prefix,
                   struct json **ret_reply, struct kiln_error *err)
{
    size_t size = strlen(prefix);
    if (size == 0 || size > KEY_DIGITS || strspn(prefix, "0123456789abcdefABCDEF") != size)
        return cli_fail(err, KILN_E_INVALID,
                        "'%.80s' is not the beginning of a key: up to %d hexadecimal digits",
                        prefix, KEY_DIGITS);
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "key", prefix);
    int rc = admin_ask(invocation, request, ask, ret_reply, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc,
                        "no stored kernel's key begins with '%s'; 'kilnctl kernel ls' "
                        "lists them",
                        prefix);
    return rc ? cli_while(err, "kernel '%s'", prefix) : KILN_E_OK;
}

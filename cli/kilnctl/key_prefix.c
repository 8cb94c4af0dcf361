/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"

#include <ctype.h>
#include <string.h>

int key_prefix_check(const char *prefix, struct kiln_error *err)
{
    size_t size = strlen(prefix);
    if (size > 0 && size <= KEY_DIGITS && strspn(prefix, "0123456789abcdefABCDEF") == size)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "'%.80s' is not the beginning of a key: up to %d hexadecimal digits", prefix,
                    KEY_DIGITS);
}

int key_prefix_ask(const struct invocation *invocation, const char *request, const char *prefix,
                   struct json **ret_reply, struct kiln_error *err)
{
    int rc = key_prefix_check(prefix, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "key", prefix);
    rc = admin_ask(invocation, request, ask, ret_reply, err);
    if (rc == KILN_E_NOT_FOUND)
        return cli_fail(err, rc,
                        "no stored kernel's key begins with '%s'; 'kilnctl kernel ls' "
                        "lists them",
                        prefix);
    return rc ? cli_while(err, "kernel '%s'", prefix) : KILN_E_OK;
}

int key_prefix_complete(const struct invocation *invocation, const char *prefix,
                        char ret_key[KEY_DIGITS + 1], struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    const char *key = prefix;
    int rc = key_prefix_check(prefix, err);
    if (!rc && strlen(prefix) < KEY_DIGITS) {
        rc = key_prefix_ask(invocation, "kernel_show", prefix, &reply, err);
        key = json_get_text(reply, "key", "");
    }
    if (rc)
        return rc;
    if (strlen(key) != KEY_DIGITS)
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer contains no key");
    for (size_t i = 0; i <= KEY_DIGITS; i++)
        ret_key[i] = (char)tolower((unsigned char)key[i]);
    return KILN_E_OK;
}

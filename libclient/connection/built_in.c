/* SPDX-License-Identifier: MIT */
#include "libclient/connection/built_in.h"

#include "common/embed.h"

#include <stdlib.h>
#include <string.h>

#define COMPILE_VARIABLE "KILN_EMBED_COMPILE"

bool built_in_is_here(void) { return true; }

enum kiln_code built_in_connect(struct transport **ret_transport, struct kiln_err *err)
{
    const char *word = secure_getenv(COMPILE_VARIABLE);
    bool compiles = word && strcmp(word, "on") == 0;
    if (word && word[0] && !compiles && strcmp(word, "off") != 0)
        return kiln_fail(err, KILN_INVALID,
                         COMPILE_VARIABLE " is '%.100s': it may be 'on' or 'off'", word);
    enum kiln_code rc = kiln_embed_connect(compiles, ret_transport, err);
    return rc ? kiln_while(err, "the engine in this program cannot serve") : KILN_OK;
}

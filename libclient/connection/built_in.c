/* SPDX-License-Identifier: MIT */
/* In the place of private_kilnd.c where the engine is linked into the program with libkiln
 * (KILN_EMBED_BUILD): it serves from what is built in, and keeps nothing. */
#include "common/embed.h"
#include "libclient/connection/substitute.h"

#include <kiln/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPILE_VARIABLE "KILN_EMBED_COMPILE"

static enum kiln_code connect_built_in(uint64_t deadline_ns, struct transport **ret_transport,
                                       struct kiln_err *err)
{
    const char *word = secure_getenv(COMPILE_VARIABLE);
    bool compiles = word && strcmp(word, "on") == 0;
    (void)deadline_ns;
    if (word && word[0] && !compiles && strcmp(word, "off") != 0)
        return kiln_fail(err, KILN_INVALID,
                         COMPILE_VARIABLE " is '%.100s': it may be 'on' or 'off'", word);
    enum kiln_code rc = kiln_embed_connect(compiles, ret_transport, err);
    return rc ? kiln_while(err, "the engine in this program cannot serve") : KILN_OK;
}

static void ignore_handshake(enum kiln_code rc) { (void)rc; }

static void describe_built_in(char *text, size_t size)
{
    snprintf(text, size, "this process serves itself, nothing it compiles is kept");
}

const struct substitute substitute = { .word = "embedded",
                                       .level = KILN_LEVEL_EMBEDDED,
                                       .is_first = true,
                                       .connect = connect_built_in,
                                       .greeted = ignore_handshake,
                                       .describe = describe_built_in };

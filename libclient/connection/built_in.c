/* SPDX-License-Identifier: MIT */
/*
 * Replaces private_kilnd.c in a program with the engine linked in (KILN_EMBED_BUILD).  This file
 * connects to that engine, which serves requests from the built-in data and stores nothing.
 */
#include "common/protocol/embed.h"
#include "libclient/connection/substitute.h"

#include <kiln/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPILE_VARIABLE "KILN_EMBED_COMPILE"

static enum kiln_code connect_built_in(struct substitute_use *use, uint64_t deadline_ns,
                                       struct transport **ret_transport, struct kiln_err *err)
{
    const char *setting = secure_getenv(COMPILE_VARIABLE);
    bool compiles = setting && strcmp(setting, "on") == 0;
    (void)deadline_ns;
    snprintf(use->place, sizeof(use->place),
             "the engine in this process serves it, and stores no kernel that it compiles");
    if (setting && setting[0] && !compiles && strcmp(setting, "off") != 0)
        return kiln_fail(err, KILN_INVALID,
                         COMPILE_VARIABLE " is '%.100s': set it to 'on' or 'off'", setting);
    enum kiln_code rc = kiln_embed_connect(compiles, ret_transport, err);
    return rc ? kiln_while(err, "the engine in this program cannot serve") : KILN_OK;
}

const struct substitute substitute = {
    .mode = "embedded", .level = KILN_LEVEL_EMBEDDED, .is_first = true, .connect = connect_built_in
};

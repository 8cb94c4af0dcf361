/* SPDX-License-Identifier: MIT */
#include "common/protocol/embed.h"
#include "daemon/built_in/one_compiler.h"
#include "engine/embed/embed.h"

enum kiln_code kiln_embed_connect(bool compiles, struct transport **ret_transport,
                                  struct kiln_err *err)
{
    const struct embed_setup setup = { .data = &kiln_built_in,
                                       .compiler = compiles ? one_compiler() : NULL };
    return embed_connect(&setup, ret_transport, err);
}

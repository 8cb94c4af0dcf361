/* SPDX-License-Identifier: MIT */
/* In the place of private_kilnd.c where the engine is linked into the program with libkiln
 * (KILN_EMBED_BUILD): it serves from what is built in, and keeps nothing. */
#include "common/embedded_entry.h"
#include "libclient/connection/substitute.h"
#include "libclient/connection/transport_socket.h"

#include <kiln/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPILE_VARIABLE "KILN_EMBED_COMPILE"

static _Atomic(pid_t) owner; /* the process whose engine has been connected to; 0: none */

static void let_go(void *unused)
{
    (void)unused;
    if (owner == getpid())
        kiln_embedded_entry.let_go();
}

static enum kiln_code connect_built_in(uint64_t deadline_ns, struct transport **ret_transport,
                                       struct kiln_err *err)
{
    const char *word = secure_getenv(COMPILE_VARIABLE);
    bool compiles = word && strcmp(word, "on") == 0;
    int fd = -1;
    if (word && word[0] && !compiles && strcmp(word, "off") != 0)
        return kiln_fail(err, KILN_INVALID,
                         COMPILE_VARIABLE " is '%.100s': it may be 'on' or 'off'", word);
    const struct embedded_options options = { .data = &kiln_built_in,
                                              .memory = true,
                                              .no_compilers = !compiles,
                                              .deadline_ns = deadline_ns };
    enum kiln_code rc = kiln_embedded_entry.connect(&options, &fd, err);
    if (rc)
        return kiln_while(err, "the engine in this process cannot serve");
    owner = getpid();
    rc = transport_socket_adopt(fd, ret_transport, err);
    if (rc)
        kiln_embedded_entry.let_go();
    else
        transport_socket_on_gone(*ret_transport, let_go, NULL);
    return rc;
}

static void settle_built_in(void)
{
    if (owner == getpid())
        kiln_embedded_entry.settle();
}

static void ignore_greeting(enum kiln_code rc) { (void)rc; }

static void describe_built_in(char *text, size_t size)
{
    snprintf(text, size, "this process serves itself, nothing it compiles is kept");
}

const struct substitute substitute = { .word = "embedded",
                                       .rung = KILN_RUNG_EMBEDDED,
                                       .is_first = true,
                                       .connect = connect_built_in,
                                       .greeted = ignore_greeting,
                                       .describe = describe_built_in,
                                       .settle = settle_built_in };

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks a compile up in kilnd, and publishes one that this process did.
 *
 * Role       one compile: is it stored, may this process do it, here is its result
 * Ownership  the caller owns the result, and calls lookup_publish or lookup_give_back after
 *            LOOKUP_COMPILE
 * Threading  any thread; one connection to kilnd serves all of them
 *
 * A compile has a key (key.h). Under this key, kilnd has a list of manifests (files.h): one for
 * each state of the files that such a compile has read. The result has a second key, made of the
 * first one and of the manifest. So a look-up needs no preprocessor: it finds the manifest that
 * describes the files as they are now.
 */
#include "libclient/rtc/program.h"

enum lookup_outcome {
    LOOKUP_FOUND,   /* |result| is filled */
    LOOKUP_COMPILE, /* compile, then call lookup_publish or lookup_give_back */
    LOOKUP_NONE,    /* compile; |reason| says why kilnd does not take part */
};

struct lookup {
    struct digest key;             /* of the program: without its name, or with it */
    struct digest lease;           /* the key that this process may compile */
    bool with_name;                /* the name is known to matter */
    struct kiln_kernel *manifests; /* owned: what is stored under |key|; NULL: nothing */
    struct rtc_result result;      /* with LOOKUP_FOUND; the caller takes it */
    uint64_t saved_ns;             /* the time of the compile that the result comes from */
    const char *reason;            /* a literal */
};

enum lookup_outcome lookup_begin(struct lookup *lookup, const struct rtc_program *program);
/* |files|: the manifest of the compile; |result|: what rtc_result_collect wrote. False: kilnd did
 * not store it. */
bool lookup_publish(struct lookup *lookup, const struct rtc_program *program, struct bytes files,
                    struct bytes result, uint64_t compile_ns);
void lookup_give_back(struct lookup *lookup);
void lookup_done(struct lookup *lookup);

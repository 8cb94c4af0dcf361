/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Looks up the result of a compile in kilnd, and publishes a result of this process.
 *
 * A compile has a key (key.h).  Under this key, kilnd stores a list of manifests (files.h).  Each
 * manifest describes one state of the files that such a compile reads.  The result is stored under
 * a second key, which is made of the first key and the manifest.  A look-up finds the manifest that
 * describes the current state of the files, so it needs no preprocessor.
 *
 * At first, the key does not include the program's name.  If a result depends on the name, the list
 * says so, and the look-up continues with a key that includes the name.
 *
 * Role       asks kilnd for the result of one compile; if there is none, asks for the right to
 *            compile, and sends the result to kilnd afterwards
 * Ownership  the caller owns the stored result, and calls lookup_publish or lookup_give_back after
 *            LOOKUP_COMPILE
 * Threading  any thread; all threads share one connection to kilnd
 */
#include "libclient/rtc/key.h"
#include "libclient/rtc/program.h"

#include <kiln/kernel.h>

enum lookup_outcome {
    LOOKUP_FOUND,
    LOOKUP_COMPILE, /* compile, then call lookup_publish or lookup_give_back */
    LOOKUP_NONE,    /* compile; |reason| says why kilnd does not take part */
};

struct lookup {
    struct digest key; /* includes |part| of the program's name */
    const struct digest *shared;
    struct digest lease; /* the key under which this process has the right to compile */
    enum key_name_part part;
    struct kiln_kernel *manifests; /* the list of manifests stored under |key|, or NULL */
    /* Set with LOOKUP_FOUND; the caller owns it.  Any program may have sent these bytes to kilnd,
     * so the caller checks them. */
    struct kiln_kernel *stored;
    struct digest result; /* the key under which kilnd had |stored| */
    uint64_t saved_ns;
    const char *reason;
    bool has_right; /* to compile, and to publish the result */
    /* Set with LOOKUP_NONE: kilnd has never answered this process, for example because it starts.
     * The caller may call lookup_retry after the compile. */
    bool is_late;
};

/* Looks up the result of compiling |program|.  Borrows |shared|, the key under which kilnd has a
 * result that it compiled itself (shared.h), or NULL. */
enum lookup_outcome lookup_begin(struct lookup *lookup, const struct rtc_program *program,
                                 const struct digest *shared);
/* Asks again, after the compile, for the right that lookup_publish needs.  Waits for kilnd's answer
 * like lookup_begin, but at most once in a process if kilnd does not answer, and never for another
 * compile.  Returns false, and sets |reason|, if the result cannot be published. */
bool lookup_retry(struct lookup *lookup, const struct rtc_program *program);
/* Stores the result in kilnd, with the manifest |files| of the compile.  Returns false if kilnd
 * does not store the result; the caller then calls lookup_give_back. */
bool lookup_publish(struct lookup *lookup, const struct rtc_program *program, struct bytes files,
                    struct bytes result, uint64_t compile_ns);
void lookup_give_back(struct lookup *lookup);
void lookup_done(struct lookup *lookup);

/* Adds to the trace of this process that |kernel| answered the request for |key|. */
void lookup_note(const struct rtc_program *program, const struct digest *key,
                 const struct kiln_kernel *kernel);

/* Returns the client of this process.  Returns NULL if there is no connection, or if kilnd did not
 * answer lately.  A forked child opens a client of its own. */
struct kiln_client *lookup_client(void);
/* Returns whether this process may wait for a compile of kilnd or of another process.  After a wait
 * that ended without a result, this process may not wait for a while. */
bool lookup_may_wait(void);
void lookup_waited_in_vain(void);
/* Returns why kilnd did not take part, as a string literal, after a request that failed with |rc|.
 * If kilnd did not answer, lookup_client returns NULL for a while. */
const char *lookup_reason(enum kiln_code rc);

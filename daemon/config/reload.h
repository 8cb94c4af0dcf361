/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reloads the configuration on SIGHUP.
 *
 * Role       reads every source again, off the loop.  Applies all changes that config.def marks
 *            NOW, or nothing if any source is wrong.  Remembers the changes that need a restart
 * Ownership  borrows its parts; embed it
 * Threading  the loop's thread
 */
#include "daemon/config/config.h"
#include "daemon/loop/work_queues.h"
#include "daemon/server/peer.h"

struct reload;

struct reload_parts { /* all borrowed */
    struct work_queues *work_queues;
    struct config *config; /* the active one; changed on the loop only */
    int argc;
    const char *const *argv; /* the flags, as at start */
    /* Applies the new values.  Returns KILN_OK, or applies nothing. */
    enum kiln_code (*apply)(struct reload *reload, const struct config *fresh,
                            const struct peer_groups *groups, struct kiln_err *err);
    /* Called when a reload begins and ends; |note|: "", or what was wrong. */
    void (*begins)(struct reload *reload);
    void (*ended)(struct reload *reload, const char *note);
};

struct reload {
    struct reload_parts parts;
    struct config *started; /* owned: as it was read at start */
    struct config *fresh;   /* owned: as it was read last; NULL before the first reload */
    bool waits[CONFIG_KEYS];
    struct reload_task *task; /* owned; out: a reload is under way */
    bool again;               /* another SIGHUP came meanwhile */
    struct kiln_err refused;  /* why the last reload was refused; without text: it was not */
};

/* Call before the loop runs, with the configuration as config_load returned it. */
KILN_MUST_CHECK enum kiln_code reload_init(struct reload *reload, const struct reload_parts *parts,
                                           struct kiln_err *err);
void reload_begin(struct reload *reload);
/* Lets the current reload finish and drops a pending one. */
void reload_cancel(struct reload *reload);
bool reload_is_under_way(const struct reload *reload);
/* The value of |key| after a restart; NULL if it does not change. */
const struct config_entry *reload_waiting(const struct reload *reload, enum config_key key);
/* Why the last reload was refused; "": it was accepted, or there was none. */
const char *reload_refused(const struct reload *reload);
/* Call only when no reload is under way. */
void reload_done(struct reload *reload);

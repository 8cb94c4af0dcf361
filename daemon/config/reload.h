/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reloads the configuration on SIGHUP.
 *
 * Role       reads every source of settings again, on another thread, because reading may block.
 *            Applies all changes that config.def marks NOW, or nothing if any source is wrong.
 *            Remembers the changes that need a restart
 * Ownership  borrows its parts; the caller embeds the struct
 * Threading  the loop's thread
 */
#include "daemon/config/config.h"
#include "daemon/loop/work_queues.h"
#include "daemon/server/peer.h"

struct reload;

struct reload_parts { /* all borrowed */
    struct work_queues *work_queues;
    struct config *config; /* only changed on the loop's thread */
    int argc;
    const char *const *argv;
    /* Applies all settings that config.def marks NOW, or none of them if it fails. */
    enum kiln_code (*apply)(struct reload *reload, const struct config *fresh,
                            const struct peer_groups *groups, struct kiln_err *err);
    /* Called before and after each reload.  |note| says what was wrong with the settings, or is
     * "". */
    void (*begins)(struct reload *reload);
    void (*ended)(struct reload *reload, const char *note);
};

struct reload {
    struct reload_parts parts;
    struct config *started; /* owned */
    /* Owned; the configuration that was read last; NULL before the first reload. */
    struct config *fresh;
    bool waits[CONFIG_KEYS];
    struct reload_task *task; /* owned; not NULL while a reload is in progress */
    bool again;               /* another SIGHUP came during the reload */
    /* Why the last reload was rejected; empty if it was accepted. */
    struct kiln_err refused;
};

/* Call it before the loop runs, with the configuration as config_load returned it. */
KILN_MUST_CHECK enum kiln_code reload_init(struct reload *reload, const struct reload_parts *parts,
                                           struct kiln_err *err);
void reload_begin(struct reload *reload);
/* Drops a reload that was requested but has not begun.  A reload in progress still finishes. */
void reload_cancel(struct reload *reload);
bool reload_is_under_way(const struct reload *reload);
/* Returns the new value of |key| if that value needs a restart, else NULL. */
const struct config_entry *reload_waiting(const struct reload *reload, enum config_key key);
/* Returns why the last reload was rejected; "" if it was accepted. */
const char *reload_refused(const struct reload *reload);
/* No reload may be in progress. */
void reload_done(struct reload *reload);

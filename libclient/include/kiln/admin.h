/* SPDX-License-Identifier: MIT */
#ifndef KILN_ADMIN_H
#define KILN_ADMIN_H

/*
 * Administration: JSON in, JSON out, by request name (docs/protocol.md lists them: "stats",
 * "status", "config", "toolchains", "kernel_list", "kernel_show", "kernel_remove", "clear").
 */
#include <kiln/client.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* |json| may be NULL for {}.  KILN_E_INVALID for a name that is no JSON request, KILN_E_DENIED
 * where it needs an administrator.  |ret_json| is a terminated text to be released with kiln_free.
 */
int kiln_admin(struct kiln_client *client, const char *request, const char *json, int timeout_ms,
               char **ret_json, struct kiln_error *err);
/* Subscribes and calls |each| with one JSON text an event, until it returns not 0 (then KILN_E_OK),
 * the daemon goes (KILN_E_UNAVAILABLE), or |timeout_ms| pass (KILN_E_TIMED_OUT); negative: no
 * limit.  Uses a connection of its own, so other calls of the client go on meanwhile. */
int kiln_events(struct kiln_client *client, int timeout_ms,
                int (*each)(void *context, const char *json), void *context,
                struct kiln_error *err);
void kiln_free(void *pointer); /* accepts NULL */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT */
#ifndef KILN_ADMIN_H
#define KILN_ADMIN_H

/*
 * Administration: requests by name, with JSON in and JSON out.
 *
 * The names are those of docs/protocol.md: "stats", "status", "config", "toolchains",
 * "kernel_list", "kernel_show", "kernel_remove", "clear" and others.
 *
 * kiln_admin sends its request to the server that the client uses: the host's daemon, the user's
 * private daemon, or the engine linked into the program.  kiln_admin_call and kiln_events need the
 * host's daemon, and return KILN_E_UNAVAILABLE if it is not running.
 *
 * Ownership  The caller releases returned texts with kiln_free and closes returned descriptors.
 * Threads    Any number of threads may make calls with one client at once.
 */
#include <kiln/client.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_admin_call {
    size_t size;
    const char *request; /* "stats", "package_install", "kernel_export", ... */
    const char *json;    /* NULL means {} */
    int timeout_ms; /* 0: the client's default; negative: no limit, for requests that take long */
    /* The members below are for kiln_admin_call.  For kiln_admin, they must be 0. */
    const int *files;  /* borrowed; open files to send with the request */
    size_t file_count; /* at most 2 */
    /* May be NULL.  Called on the calling thread with a JSON text each time kilnd reports progress.
     * If it returns a value other than 0, the call ends with KILN_E_CANCELLED. */
    int (*progress)(void *context, const char *json);
    void *context;
    int *ret_files; /* receives the files of the reply, open for reading; the caller closes them */
    size_t ret_files_max;
    size_t *ret_file_count;
};
/* Sends a request on the client's connection.  Returns KILN_E_INVALID if |call->request| does not
 * name a JSON request, and KILN_E_DENIED if only administrators may make the request.  |ret_json|
 * is a NUL-terminated text, which the caller releases with kiln_free. */
int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err);
/* Like kiln_admin, for requests that pass files, return files, or report progress.  Opens a
 * separate connection to the host's daemon for this call. */
int kiln_admin_call(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
                    struct kiln_error *err);
/* Subscribes to events and calls |each| with one JSON text per event.  Returns KILN_E_OK when
 * |each| returns a value other than 0, KILN_E_UNAVAILABLE when the daemon exits, and
 * KILN_E_TIMED_OUT after |timeout_ms|.  A negative |timeout_ms| means no limit.  Opens a separate
 * connection, so other calls of the client are not blocked. */
int kiln_events(struct kiln_client *client, int timeout_ms,
                int (*each)(void *context, const char *json), void *context,
                struct kiln_error *err);
void kiln_free(void *pointer); /* accepts NULL */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT */
#ifndef KILN_ADMIN_H
#define KILN_ADMIN_H

/*
 * Administration: JSON in, JSON out, by request name (docs/protocol.md lists them: "stats",
 * "status", "config", "toolchains", "kernel_list", "kernel_show", "kernel_remove", "clear").
 * kiln_admin asks whoever serves: without a daemon the engine in this process, or in the one that
 * serves it.  kiln_admin_call and kiln_events speak to a daemon alone: KILN_E_UNAVAILABLE.
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
/* A request with more to it: files that go with it or come back, progress meanwhile. */
struct kiln_admin_call {
    size_t size; /* sizeof(struct kiln_admin_call) */
    const char
        *request; /* "package_install", "package_build", "kernel_import", "kernel_export", ... */
    const char *json;  /* NULL: {} */
    int timeout_ms;    /* 0: the client's; negative: none, for what takes as long as it takes */
    const int *files;  /* open files that go with it, borrowed */
    size_t file_count; /* at most 2 */
    /* Called on the calling thread with a JSON text now and then; NULL: no interest.  Not 0 ends
     * the call with KILN_E_CANCELLED. */
    int (*progress)(void *context, const char *json);
    void *context;
    int *ret_files; /* receives what comes back, the caller's to close; open for reading */
    size_t ret_files_max;
    size_t *ret_file_count;
};
/* Uses a connection of its own.  Otherwise as kiln_admin. */
int kiln_admin_call(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
                    struct kiln_error *err);
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

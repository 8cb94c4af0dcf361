/* SPDX-License-Identifier: MIT */
#include "libclient/client.h"

#include "common/base/clock.h"
#include "common/base/paths.h"
#include "libclient/connection/transport_socket.h"
#include "libclient/sized.h"

#include <kiln/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_TIMEOUT_MS 120000
/* Default limits of the in-process cache.  A large job uses some thousands of distinct kernels.
 * Most pages of these kernels are shared with the daemon. */
#define DEFAULT_CACHE_ENTRIES 8192
#define CACHE_BYTES ((size_t)256 << 20)

static void kiln_client_destroy(struct kiln_client *client)
{
    if (!client)
        return;
    struct soon *soon = atomic_load(&client->soon);
    if (soon) /* first, because its thread uses the rest of the client */
        client->destroy_soon(soon, !fork_guard_holds(&client->guard));
    multiplexer_destroy(client->multiplexer);
    fallback_destroy(client->fallback);
    answer_cache_destroy(client->cache);
    trace_destroy(client->trace);
    fork_guard_done(&client->guard);
    free(client);
}
KILN_DEFINE_AUTO(kiln_client)

static enum kiln_code connect_somewhere(void *context, uint64_t deadline_ns,
                                        struct transport **ret_transport, struct kiln_err *err)
{
    const struct kiln_client *client = context;
    return fallback_connect(client->fallback, deadline_ns, ret_transport, err);
}

static bool may_leave(void *context)
{
    const struct kiln_client *client = context;
    return fallback_may_leave(client->fallback);
}

static bool on_handshake(void *context, enum kiln_code rc, const struct kiln_err *err)
{
    const struct kiln_client *client = context;
    return fallback_on_handshake(client->fallback, rc, err);
}

static enum kiln_code open_main_multiplexer(struct kiln_client *client, struct kiln_err *err)
{
    struct multiplexer_options options = {
        .connect = connect_somewhere,
        .may_leave = may_leave,
        .on_handshake = on_handshake,
        .grace_ns = fallback_grace_ns(client->fallback),
        .context = client,
        .software = client->software,
    };
    return multiplexer_create(&options, &client->multiplexer, err);
}

static enum kiln_code connect_to_daemon(void *context, uint64_t deadline_ns,
                                        struct transport **ret_transport, struct kiln_err *err)
{
    const struct kiln_client *client = context;
    (void)deadline_ns;
    return client->socket_is_found
               ? transport_socket_connect_found(client->socket_path, ret_transport, err)
               : transport_socket_connect(client->socket_path, ret_transport, err);
}

enum kiln_code client_open_multiplexer(struct kiln_client *client,
                                       struct multiplexer **ret_multiplexer, struct kiln_err *err)
{
    struct multiplexer_options options = {
        .connect = connect_to_daemon,
        .context = client,
        .software = client->software,
    };
    return multiplexer_create(&options, ret_multiplexer, err);
}

static enum kiln_code create_fallback(struct kiln_client *c, const char *mode, struct kiln_err *err)
{
    const struct fallback_options options = { .mode = mode,
                                              .socket_path = c->socket_path,
                                              .software = c->software,
                                              .is_found = c->socket_is_found };
    return fallback_create(&options, &c->fallback, err);
}

static enum kiln_code choose_socket(const struct kiln_client_options *options,
                                    struct kiln_client *client, struct kiln_err *err)
{
    char path[PATH_TEXT_MAX];
    const char *named = secure_getenv("KILN_SOCKET");
    enum kiln_code rc = KILN_OK;
    client->socket_is_found = !options->socket_path && !(named && *named);
    if (options->socket_path)
        snprintf(path, sizeof(path), "%s", options->socket_path);
    else
        rc = paths_client_socket(path, err);
    if (!rc)
        rc = transport_socket_check(path, err);
    if (!rc)
        snprintf(client->socket_path, sizeof(client->socket_path), "%.*s",
                 (int)sizeof(client->socket_path) - 1, path);
    return rc;
}

static enum kiln_code read_options(const struct kiln_client_options *options,
                                   struct kiln_client_options *ret_options, struct kiln_err *err)
{
    *ret_options = (struct kiln_client_options){ .size = sizeof(*ret_options) };
    if (!options)
        return KILN_OK;
    if (!sized_is_fine(options->size, SIZED_TO(struct kiln_client_options, cache_entries)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_client_options.size is %zu: set it to sizeof the struct",
                         options->size);
    sized_copy(ret_options, sizeof(*ret_options), options, options->size);
    if (ret_options->timeout_ms < 0)
        return kiln_fail(err, KILN_INVALID, "kiln_client_options.timeout_ms is negative: %d",
                         ret_options->timeout_ms);
    return KILN_OK;
}

static bool is_on(const char *variable)
{
    static const char *const on[] = { "1", "yes", "true", "enable", "enabled" };
    const char *value = getenv(variable);
    for (size_t i = 0; value && i < sizeof(on) / sizeof(on[0]); i++) {
        if (strcasecmp(value, on[i]) == 0)
            return true;
    }
    return false;
}

enum kiln_code client_check_cache(const struct kiln_client *client, struct kiln_err *err)
{
    if (!client->no_cache)
        return KILN_OK;
    return kiln_fail(
        err, KILN_NOT_FOUND,
        "stored kernels are not used: KILN_DISABLE_CACHE or MIOPEN_DISABLE_CACHE is set");
}

static enum kiln_code open_client(const struct kiln_client_options *given,
                                  struct kiln_client **ret_client, struct kiln_err *err)
{
    struct kiln_client_options options;
    enum kiln_code rc = read_options(given, &options, err);
    if (rc)
        return rc;
    KILN_AUTO(kiln_client) struct kiln_client *c = calloc(1, sizeof(*c));
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    c->no_cache = is_on("KILN_DISABLE_CACHE") || is_on("MIOPEN_DISABLE_CACHE");
    c->timeout_ms = options.timeout_ms ? options.timeout_ms : DEFAULT_TIMEOUT_MS;
    snprintf(c->software, sizeof(c->software), "libkiln %s%s%s", KILN_VERSION,
             options.name ? " in " : "", options.name ? options.name : "");
    rc = choose_socket(&options, c, err);
    if (rc)
        return rc;
    int entries = options.cache_entries ? options.cache_entries : DEFAULT_CACHE_ENTRIES;
    struct answer_cache_options limits = { .limit_entries = entries < 0 ? 0 : (size_t)entries,
                                           .limit_bytes = CACHE_BYTES };
    rc = answer_cache_create(&limits, &c->cache, err);
    if (!rc)
        rc = create_fallback(c, options.fallback, err);
    if (!rc)
        rc = open_main_multiplexer(c, err);
    if (rc)
        return rc;
    fork_guard_init(&c->guard);
    c->trace = trace_create(c->software);
    *ret_client = KILN_TAKE(c);
    return KILN_OK;
}

int kiln_client_open(const struct kiln_client_options *options, struct kiln_client **ret_client,
                     struct kiln_error *err)
{
    if (!ret_client)
        return error_argument(err, "kiln_client_open needs a pointer for the client");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, open_client(options, ret_client, &e), err);
}

void kiln_client_close(struct kiln_client *client) { kiln_client_destroy(client); }

enum kiln_code client_enter(const struct kiln_client *client, int timeout_ms,
                            uint64_t *ret_deadline_ns, struct kiln_err *err)
{
    if (!client)
        return kiln_fail(err, KILN_INVALID, "no client was given: open one with kiln_client_open");
    if (!fork_guard_holds(&client->guard))
        return kiln_fail(err, KILN_INVALID,
                         "this client was opened before fork: open another in the child");
    if (timeout_ms < 0)
        return kiln_fail(err, KILN_INVALID, "the time-out is negative: %d ms", timeout_ms);
    int ms = timeout_ms ? timeout_ms : client->timeout_ms;
    *ret_deadline_ns = clock_monotonic_ns() + (uint64_t)ms * 1000000u;
    return KILN_OK;
}

void client_frame_init(struct buffer *frame)
{
    static const uint8_t header[FRAME_HEADER_SIZE];
    buffer_init(frame, FRAME_HEADER_SIZE + LIMIT_FRAME_BODY);
    buffer_put(frame, header, sizeof(header));
}

void client_frame_init_in(struct buffer *frame, uint8_t *storage, size_t size)
{
    *frame = (struct buffer){
        .data = storage, .size = FRAME_HEADER_SIZE, .capacity = size, .limit = size
    };
}

const char *kiln_version(void) { return KILN_VERSION; }

void kiln_free(void *pointer) { free(pointer); }

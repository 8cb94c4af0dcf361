/* SPDX-License-Identifier: MIT */
#include "libclient/connection/daemon_check.h"

#include "common/base/clock.h"
#include "libclient/connection/handshake.h"
#include "libclient/connection/transport_socket.h"

#define INTERVAL_NS 2000000000ull
/* How long the first poll of a check waits for kilnd's answer to hello.  A working kilnd answers
 * much faster.  Later polls of the same check do not wait. */
#define FIRST_WAIT_NS 20000000ull

void daemon_check_done(struct daemon_check *check)
{
    transport_destroy(KILN_TAKE(check->transport));
}

void daemon_check_postpone(struct daemon_check *check) { check->begun_ns = clock_monotonic_ns(); }

static bool begin_check(struct daemon_check *check, const struct fallback_options *options)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    const char *path = options->socket_path;
    daemon_check_postpone(check);
    if (options->is_found ? transport_socket_connect_found(path, &check->transport, &ignored)
                          : transport_socket_connect(path, &check->transport, &ignored))
        return false;
    if (handshake_send(check->transport, options->software, &ignored) == KILN_OK)
        return true;
    daemon_check_done(check);
    return false;
}

static bool is_welcome(struct daemon_check *check, uint64_t deadline_ns)
{
    struct handshake unused;
    struct kiln_err ignored = KILN_ERR_INIT;
    enum kiln_code rc = handshake_receive(check->transport, deadline_ns, &unused, &ignored);
    if (rc != KILN_TIMED_OUT)
        daemon_check_done(check);
    return rc == KILN_OK;
}

bool daemon_check_poll(struct daemon_check *check, const struct fallback_options *options)
{
    if (check->transport)
        return is_welcome(check, 0);
    uint64_t now = clock_monotonic_ns();
    return now - check->begun_ns >= INTERVAL_NS && begin_check(check, options) &&
           is_welcome(check, now + FIRST_WAIT_NS);
}

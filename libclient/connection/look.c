/* SPDX-License-Identifier: MIT */
#include "libclient/connection/look.h"

#include "common/clock.h"
#include "libclient/connection/handshake.h"
#include "libclient/connection/transport_socket.h"

#define EVERY_NS 2000000000ull
/* A kilnd answers in much less; it is waited for once, at the first look. */
#define FIRST_WAIT_NS 20000000ull

void look_end(struct look *look) { transport_destroy(KILN_TAKE(look->transport)); }

void look_later(struct look *look) { look->begun_ns = clock_monotonic_ns(); }

static bool ask(struct look *look, const char *path, const char *software)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    look_later(look);
    if (transport_socket_connect(path, &look->transport, &ignored))
        return false;
    if (handshake_say(look->transport, software, &ignored) == KILN_OK)
        return true;
    look_end(look);
    return false;
}

static bool is_welcome(struct look *look, uint64_t deadline_ns)
{
    struct handshake unused;
    struct kiln_err ignored = KILN_ERR_INIT;
    enum kiln_code rc = handshake_hear(look->transport, deadline_ns, &unused, &ignored);
    if (rc != KILN_TIMED_OUT)
        look_end(look);
    return rc == KILN_OK;
}

bool look_again(struct look *look, const char *path, const char *software)
{
    if (look->transport)
        return is_welcome(look, 0);
    uint64_t now = clock_monotonic_ns();
    return now - look->begun_ns >= EVERY_NS && ask(look, path, software) &&
           is_welcome(look, now + FIRST_WAIT_NS);
}

/* SPDX-License-Identifier: MIT */
#include "libclient/link.h"

#include "common/clock.h"

#include <poll.h>

#define BACK_OFF_LEAST_MS 10u
#define BACK_OFF_MOST_MS 500u

static enum kiln_code open_once(const struct link_wish *wish, uint64_t deadline_ns,
                                struct transport **ret_transport, struct greeting *ret_greeting,
                                bool *ret_reached, struct kiln_err *err)
{
    KILN_AUTO(transport) struct transport *t = NULL;
    enum kiln_code rc = wish->connect(wish->context, &t, err);
    if (rc)
        return rc;
    *ret_reached = true;
    rc = greeting_exchange(t, wish->software, deadline_ns, ret_greeting, err);
    if (!rc)
        *ret_transport = KILN_TAKE(t);
    return rc;
}

static bool pause_before(uint64_t deadline_ns, unsigned ms)
{
    uint64_t now = clock_monotonic_ns();
    if (now >= deadline_ns)
        return false;
    uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;
    (void)poll(NULL, 0, (int)(left_ms < ms ? left_ms : ms));
    return true;
}

enum kiln_code link_open(const struct link_wish *wish, uint64_t deadline_ns,
                         struct transport **ret_transport, struct greeting *ret_greeting,
                         bool *ret_reached, struct kiln_err *err)
{
    *ret_reached = false;
    for (unsigned ms = BACK_OFF_LEAST_MS;;) {
        enum kiln_code rc =
            open_once(wish, deadline_ns, ret_transport, ret_greeting, ret_reached, err);
        bool known = wish->reached_before || *ret_reached;
        if (rc != KILN_BUSY && !(rc == KILN_UNAVAILABLE && known))
            return rc;
        if (!pause_before(deadline_ns, ms)) {
            err->code = KILN_TIMED_OUT;
            return kiln_while(err, "kilnd went away and did not return in time");
        }
        ms = ms * 2 < BACK_OFF_MOST_MS ? ms * 2 : BACK_OFF_MOST_MS;
    }
}

/* SPDX-License-Identifier: MIT */
#include "libclient/connection/link.h"

#include "common/clock.h"

#include <poll.h>

#define BACK_OFF_MIN_MS 10u
#define BACK_OFF_MAX_MS 500u

static bool leads_elsewhere(const struct link_wish *wish, enum kiln_code rc,
                            const struct kiln_err *err)
{
    return wish->greeted && wish->greeted(wish->context, rc, err);
}

static uint64_t next_look(const struct link_wish *wish, uint64_t deadline_ns)
{
    uint64_t now = clock_monotonic_ns();
    bool is_sooner = wish->grace_ns && now < deadline_ns && deadline_ns - now > wish->grace_ns;
    return is_sooner ? now + wish->grace_ns : deadline_ns;
}

/* Asked again and again whether it is worth waiting for. */
static enum kiln_code hear(const struct link_wish *wish, struct transport *t, uint64_t deadline_ns,
                           struct handshake *ret_handshake, bool *ret_elsewhere,
                           struct kiln_err *err)
{
    for (;;) {
        uint64_t by = next_look(wish, deadline_ns);
        enum kiln_code rc = handshake_hear(t, by, ret_handshake, err);
        *ret_elsewhere = leads_elsewhere(wish, rc, err);
        if (rc != KILN_TIMED_OUT || *ret_elsewhere || by == deadline_ns)
            return rc;
    }
}

static enum kiln_code open_once(const struct link_wish *wish, uint64_t deadline_ns,
                                struct transport **ret_transport, struct handshake *ret_handshake,
                                bool *ret_reached, bool *ret_elsewhere, struct kiln_err *err)
{
    KILN_AUTO(transport) struct transport *t = NULL;
    *ret_elsewhere = false;
    enum kiln_code rc = wish->connect(wish->context, deadline_ns, &t, err);
    if (rc)
        return rc;
    *ret_reached = true;
    rc = handshake_say(t, wish->software, err);
    if (!rc)
        rc = hear(wish, t, deadline_ns, ret_handshake, ret_elsewhere, err);
    else
        *ret_elsewhere = leads_elsewhere(wish, rc, err);
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
                         struct transport **ret_transport, struct handshake *ret_handshake,
                         bool *ret_reached, struct kiln_err *err)
{
    *ret_reached = false;
    for (unsigned ms = BACK_OFF_MIN_MS;;) {
        bool elsewhere;
        enum kiln_code rc = open_once(wish, deadline_ns, ret_transport, ret_handshake, ret_reached,
                                      &elsewhere, err);
        if (rc && elsewhere)
            continue;
        bool known = wish->reached_before || *ret_reached;
        if (rc != KILN_BUSY && !(rc == KILN_UNAVAILABLE && known))
            return rc;
        if (!pause_before(deadline_ns, ms)) {
            err->code = KILN_TIMED_OUT;
            return kiln_while(err, "kilnd went away and did not return in time");
        }
        ms = ms * 2 < BACK_OFF_MAX_MS ? ms * 2 : BACK_OFF_MAX_MS;
    }
}

/* SPDX-License-Identifier: MIT */
#include "libclient/connection/handshake_retry.h"

#include "common/base/clock.h"

#include <poll.h>

#define BACK_OFF_MIN_MS 10u
#define BACK_OFF_MAX_MS 500u

static bool leads_elsewhere(const struct handshake_options *options, enum kiln_code rc,
                            const struct kiln_err *err)
{
    return options->on_handshake && options->on_handshake(options->context, rc, err);
}

static uint64_t next_check(const struct handshake_options *options, uint64_t deadline_ns)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t grace_ns = options->grace_ns;
    bool is_sooner = grace_ns && now < deadline_ns && deadline_ns - now > grace_ns;
    return is_sooner ? now + grace_ns : deadline_ns;
}

static enum kiln_code exchange_hello(const struct handshake_options *options, uint64_t deadline_ns,
                                     struct handshake_result *result, bool *ret_elsewhere,
                                     struct kiln_err *err)
{
    enum kiln_code rc = handshake_send(result->transport, options->software, err);
    uint64_t until_ns;
    if (rc) {
        *ret_elsewhere = leads_elsewhere(options, rc, err);
        return rc;
    }
    do {
        until_ns = next_check(options, deadline_ns);
        rc = handshake_receive(result->transport, until_ns, &result->handshake, err);
        *ret_elsewhere = leads_elsewhere(options, rc, err);
    } while (rc == KILN_TIMED_OUT && !*ret_elsewhere && until_ns != deadline_ns);
    return rc;
}

static enum kiln_code open_once(const struct handshake_options *options, uint64_t deadline_ns,
                                struct handshake_result *result, bool *ret_elsewhere,
                                struct kiln_err *err)
{
    *ret_elsewhere = false;
    enum kiln_code rc = options->connect(options->context, deadline_ns, &result->transport, err);
    if (rc)
        return rc;
    result->reached = true;
    rc = exchange_hello(options, deadline_ns, result, ret_elsewhere, err);
    if (rc)
        transport_destroy(KILN_TAKE(result->transport));
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

enum kiln_code handshake_open(const struct handshake_options *options, uint64_t deadline_ns,
                              struct handshake_result *ret_result, struct kiln_err *err)
{
    *ret_result = (struct handshake_result){ .transport = NULL };
    for (unsigned ms = BACK_OFF_MIN_MS;;) {
        bool elsewhere;
        enum kiln_code rc = open_once(options, deadline_ns, ret_result, &elsewhere, err);
        if (rc && elsewhere)
            continue;
        bool was_reached = options->reached_before || ret_result->reached;
        if (rc != KILN_BUSY && !(rc == KILN_UNAVAILABLE && was_reached))
            return rc;
        if (!pause_before(deadline_ns, ms)) {
            err->code = KILN_TIMED_OUT;
            return kiln_while(err, "kilnd stopped and did not return in time");
        }
        ms = ms * 2 < BACK_OFF_MAX_MS ? ms * 2 : BACK_OFF_MAX_MS;
    }
}

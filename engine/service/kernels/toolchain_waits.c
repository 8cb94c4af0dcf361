/* SPDX-License-Identifier: MIT */
/* When the last probe of a request has ended, the request asks again for its toolchains, because
 * a result can make another probe necessary. */
#include "engine/service/kernels/toolchain_waits.h"

#include "engine/service/internal.h"
#include "engine/service/kernels/toolchains.h"

/* Maximum number of times that a request asks for its toolchains. Without this limit, a request
 * could wait forever if each result of a probe was dropped before the request reads it. */
#define TRIES_MAX 8u

struct probe_wait {
    struct probe_watch watch;
    struct deferred *request;
    struct list_link link;
};

struct toolchain_wait {
    const struct toolchain_need *need;
    struct list probes;
    struct buffer body;
    uint64_t charged;
    unsigned tries;
};

void toolchain_wait_destroy(struct toolchain_wait *w)
{
    if (!w)
        return;
    LIST_EACH (&w->probes, struct probe_wait, link, wait) {
        list_remove(&wait->link);
        probe_watch_stop(&wait->watch);
        free(wait);
    }
    buffer_done(&w->body);
    free(w);
}

static enum kiln_code keep_request(struct deferred *d)
{
    struct toolchain_wait *w = d->toolchains;
    uint64_t size = sizeof(*w) + d->body.size;
    if (w->tries++ == TRIES_MAX)
        return kiln_fail(
            &d->err, KILN_UNAVAILABLE,
            "kilnd could not determine the toolchain in %u tries: try again in a moment",
            TRIES_MAX);
    LIST_EACH (&w->probes, const struct probe_wait, link, wait)
        size += sizeof(*wait);
    enum kiln_code rc = deferred_charge(d, size, &d->err);
    if (rc)
        return rc;
    w->charged = size;
    if (w->tries > 1)
        return KILN_OK;
    buffer_put(&w->body, d->body.data, d->body.size);
    if (w->body.failed)
        return kiln_fail(&d->err, KILN_NO_MEMORY, "cannot keep a request of %zu bytes",
                         d->body.size);
    d->body = buffer_view(&w->body);
    return KILN_OK;
}

static void ask_for_toolchains(struct deferred *d)
{
    const struct toolchain_need *need = d->toolchains->need;
    enum kiln_code rc = need->ask(d);
    if (rc == KILN_BUSY) {
        rc = keep_request(d);
    } else if (!rc) {
        struct toolchain_wait *w = KILN_TAKE(d->toolchains); /* |w| may own the body, so it is
                                                              * freed after the answer */
        rc = need->answer(d);
        toolchain_wait_destroy(w);
    }
    if (rc) {
        d->rc = rc;
        deferred_end(d);
    }
}

void toolchains_need(struct deferred *d, const struct toolchain_need *need, struct bytes body)
{
    toolchains_refresh(d->engine);
    struct toolchain_wait *w = d->toolchains = calloc(1, sizeof(*w));
    if (!w) {
        d->rc = kiln_fail(&d->err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
        deferred_end(d);
        return;
    }
    w->need = need;
    list_init(&w->probes);
    buffer_init(&w->body, LIMIT_FRAME_BODY);
    d->body = body;
    ask_for_toolchains(d);
}

static void ask_again(struct deferred *d)
{
    struct toolchain_wait *w = d->toolchains;
    if (!d->caller) {
        deferred_destroy(d);
        return;
    }
    deferred_refund(d, w->charged); /* keep_request charges again */
    ask_for_toolchains(d);
}

static const struct deferred_step ask_again_step = { .done = ask_again };

/* If this was the request's last probe, continues the request in a later step. Many requests may
 * wait for one probe. If all of them continued now, they would block the loop. */
static void probe_ended(struct probe_watch *watch)
{
    struct probe_wait *wait = (struct probe_wait *)watch;
    struct deferred *d = wait->request;
    list_remove(&wait->link);
    free(wait);
    if (list_is_empty(&d->toolchains->probes))
        deferred_run(d, &ask_again_step);
}

static bool is_waiting_for(const struct deferred *d, const struct probe *p)
{
    LIST_EACH (&d->toolchains->probes, const struct probe_wait, link, wait) {
        if (wait->watch.probe == p)
            return true;
    }
    return false;
}

static enum kiln_code wait_for(struct deferred *d, struct probe *p, struct kiln_err *err)
{
    if (is_waiting_for(d, p))
        return KILN_BUSY;
    struct probe_wait *wait = calloc(1, sizeof(*wait));
    if (!wait) {
        probe_drop_unless_watched(p);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot wait for a toolchain: out of memory");
    }
    *wait = (struct probe_wait){ .watch.ended = probe_ended, .request = d };
    probe_watch_start(&wait->watch, p);
    list_append(&d->toolchains->probes, &wait->link);
    return KILN_BUSY;
}

enum kiln_code toolchains_probe(struct deferred *d, const struct toolchain *tc,
                                const struct target *target, struct kiln_err *err)
{
    struct probe *p = toolchains_probe_start(d->engine, d->uid, tc, target, err);
    if (!p)
        return err->code;
    if (toolchain_probe_state(d->engine->toolchains, tc, target) == PROBE_WORKS)
        return KILN_OK; /* an index of the fleet shows it */
    return wait_for(d, p, err);
}

enum kiln_code toolchains_wait_for_description(struct deferred *d, struct kiln_err *err)
{
    struct probe *describe;
    enum kiln_code rc = toolchains_check_description(d->engine, &describe, err);
    return rc == KILN_BUSY ? wait_for(d, describe, err) : rc;
}

enum kiln_code toolchains_resolve(struct deferred *d, const struct target *target,
                                  struct bytes forced, const struct toolchain **ret_toolchain,
                                  struct kiln_err *err)
{
    enum kiln_code rc = toolchains_wait_for_description(d, err);
    if (rc)
        return rc;
    rc = toolchain_choose(d->engine->toolchains, target, forced, ret_toolchain, err);
    return rc == KILN_BUSY ? toolchains_probe(d, *ret_toolchain, target, err) : rc;
}

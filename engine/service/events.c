/* SPDX-License-Identifier: MIT */
#include "common/clock.h"
#include "engine/service/internal.h"

#include <stdio.h>

bool service_has_listeners(const struct engine *e)
{
    for (const struct caller *c = e->callers; c; c = c->next) {
        if (c->wants_events)
            return true;
    }
    return false;
}

void service_event(struct engine *e, struct json *event)
{
    KILN_AUTO(json) struct json *owned = event;
    KILN_AUTO(mem) char *text = json_print(owned, false);
    if (!text)
        return; /* out of memory: events are not promised */
    struct caller *next = NULL;
    for (struct caller *c = e->callers; c; c = next) {
        next = c->next;
        if (!c->wants_events)
            continue;
        struct reply reply = {
            .type = MESSAGE_json,
            .request_id = c->events_request,
            .flags = FRAME_MORE,
            .body = bytes_of_text(text),
        };
        c->ops->reply(c, &reply);
    }
}

static struct json *event_begin(const char *name)
{
    struct json *event = json_object();
    json_set_text(event, "event", name);
    json_set_u64(event, "time", clock_wall_s());
    return event;
}

void event_kernel(struct engine *e, const char *name, const struct digest *key,
                  const struct compile_job *job, const struct compile_outcome *outcome)
{
    if (!service_has_listeners(e))
        return;
    struct json *event = event_begin(name);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    json_set_text(event, "key", hex);
    json_set_bytes(event, "program", job->program);
    json_set_bytes(event, "target", job->target);
    json_set_bytes(event, "toolchain", job->toolchain);
    json_set_text(event, "end", compile_end_name(outcome->end));
    json_set_number(event, "seconds", (double)outcome->wall_ns / 1e9);
    if (outcome->err.code)
        json_set_text(event, "text", outcome->err.text);
    service_event(e, event);
}

void event_text(struct engine *e, const char *name, const char *text)
{
    if (!service_has_listeners(e))
        return;
    struct json *event = event_begin(name);
    json_set_text(event, "text", text);
    service_event(e, event);
}

void event_report(struct engine *e, const char *name, const char *text)
{
    if (e->host)
        e->host->report(e->host, name, text, /* trouble= */ true);
    event_text(e, name, text);
}

void event_note(struct engine *e, const char *name, const char *text)
{
    if (e->host)
        e->host->report(e->host, name, text, /* trouble= */ false);
    event_text(e, name, text);
}

void event_store(struct engine *e, enum kernel_notice kind, const char *text)
{
    switch (kind) {
    case KERNEL_NOTICE_REPLACED: event_report(e, "store_replaced", text); break;
    case KERNEL_NOTICE_TROUBLE: event_report(e, "store_trouble", text); break;
    case KERNEL_NOTICE_RECOVERED: event_note(e, "store_recovered", text); break;
    case KERNEL_NOTICE_NONE: break;
    }
}

void event_after_write(struct engine *e, enum kiln_code rc, const struct kiln_err *err)
{
    char notice[512];
    event_store(e, kernel_store_take_notice(e->store, notice), notice);
    if (!rc)
        return;
    e->stats.store_errors++;
    event_report(e, "store_error", err->text);
}

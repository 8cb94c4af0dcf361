/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/internal.h"
#include "engine/service/kernels/source.h"

#include <stdio.h>

bool service_has_listeners(const struct engine *e) { return !list_is_empty(&e->subscribers); }

struct audience {
    uid_t uid;
    bool knows; /* true: user |uid| and all administrators; false: all other subscribers */
};

static bool is_of(const struct audience *audience, const struct caller *c)
{
    bool knows = c->role == ROLE_ADMIN || (c->uid == audience->uid && !c->is_anonymous);
    return knows == audience->knows;
}

static void send_event(struct engine *e, const struct json *event, const struct audience *audience)
{
    KILN_AUTO(mem) char *text = json_print(event, false);
    if (!text)
        return;
    LIST_EACH (&e->subscribers, struct caller, subscribed, c) {
        if (audience && !is_of(audience, c))
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

void service_event(struct engine *e, struct json *event)
{
    send_event(e, event, /* audience= */ NULL);
    json_destroy(event);
}

static struct json *event_begin(const char *name)
{
    struct json *event = json_object();
    json_set_text(event, "event", name);
    json_set_u64(event, "time", clock_wall_s());
    return event;
}

static void report_to_host(struct engine *e, const struct engine_report *report)
{
    if (e->host && e->host->report)
        e->host->report(e->host, report);
}

static bool ended_badly(enum compile_end end)
{
    return end == COMPILE_CRASHED || end == COMPILE_TIMED_OUT || end == COMPILE_MEMORY ||
           end == COMPILE_OUTPUT;
}

static void report_compile(struct engine *e, const char *name, const struct digest *key,
                           const struct source *source, const struct compile_result *result)
{
    char text[600];
    const uint32_t uid = (uint32_t)source->uid;
    const struct bytes program = source->job.program;
    bool failed = result->err.code != KILN_OK;
    snprintf(text, sizeof(text), "'%.*s'%s%s", (int)(program.size < 64 ? program.size : 64),
             (const char *)program.data, failed ? ": " : "", failed ? result->err.text : "");
    const struct engine_report about = {
        .event = ended_badly(result->end) ? "compile_ended_badly" : name,
        .text = text,
        .trouble = failed,
        .key = key,
        .uid = &uid,
        .target = source->job.target,
        .duration_ns = result->wall_ns,
    };
    report_to_host(e, &about);
}

void event_kernel(struct engine *e, const char *name, const struct digest *key,
                  const struct source *source, const struct compile_result *result)
{
    const struct compile_job *job = &source->job;
    report_compile(e, name, key, source, result);
    if (!service_has_listeners(e))
        return;
    KILN_AUTO(json) struct json *event = event_begin(name);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    json_set_text(event, "key", hex);
    json_set_bytes(event, "program", job->program);
    json_set_bytes(event, "target", job->target);
    json_set_bytes(event, "toolchain", job->toolchain);
    json_set_text(event, "end", compile_end_name(result->end));
    json_set_number(event, "seconds", (double)result->wall_ns / 1e9);
    if (!result->err.code) {
        send_event(e, event, /* audience= */ NULL);
        return;
    }
    /* A compiler's messages quote the source, so other users do not get them. */
    send_event(e, event, &(struct audience){ .uid = source->uid, .knows = false });
    json_set_text(event, "text", result->err.text);
    send_event(e, event, &(struct audience){ .uid = source->uid, .knows = true });
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
    const struct engine_report about = { .event = name, .text = text, .trouble = true };
    report_to_host(e, &about);
    event_text(e, name, text);
}

void event_report_key(struct engine *e, const char *name, const struct digest *key,
                      const char *text)
{
    const struct engine_report about = { .event = name, .text = text, .trouble = true, .key = key };
    report_to_host(e, &about);
    if (!service_has_listeners(e))
        return;
    KILN_AUTO(json) struct json *event = event_begin(name);
    json_set_text(event, "text", text);
    /* The kernel may be private to a user, so only administrators get the event. */
    send_event(e, event, &(struct audience){ .uid = (uid_t)-1, .knows = true });
}

void event_note(struct engine *e, const char *name, const char *text)
{
    const struct engine_report about = { .event = name, .text = text };
    report_to_host(e, &about);
    event_text(e, name, text);
}

void event_store(struct engine *e, enum kernel_notice kind, const char *text)
{
    switch (kind) {
    case KERNEL_NOTICE_REPLACED:
        e->stats.store_replaced++;
        accounting_touch_all(e->metrics.accounting);
        event_report(e, "store_replaced", text);
        break;
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

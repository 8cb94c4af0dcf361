/* SPDX-License-Identifier: MIT */
#include "libclient/client.h"
#include "libclient/sized.h"

#include <kiln/admin.h>
#include <string.h>
#include <sys/stat.h>

#define JSON_REQUEST_JSON(name_, number_) { .name = #name_, .number = (number_) },
#define JSON_REQUEST_JSON_FILES(name_, number_) JSON_REQUEST_JSON(name_, number_)
#define JSON_REQUEST_BINARY(name_, number_)
#define JSON_REQUEST_BINARY_FILES(name_, number_)
static const struct {
    const char *name;
    uint16_t number;
} json_requests[] = {
#define KILN_REQUEST(name, number, who, body, purpose) JSON_REQUEST_##body(name, number)
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};

static enum kiln_code find_request(const char *name, uint16_t *ret_number, struct kiln_err *err)
{
    for (size_t i = 0; name && i < sizeof(json_requests) / sizeof(json_requests[0]); i++)
        if (strcmp(json_requests[i].name, name) == 0) {
            *ret_number = json_requests[i].number;
            return KILN_OK;
        }
    return kiln_fail(err, KILN_INVALID, "there is no request '%s'", name ? name : "(null)");
}

static void write_frame(struct buffer *frame, const char *json)
{
    struct bytes body = bytes_of_text(json && json[0] ? json : "{}");
    client_frame_init(frame);
    buffer_put(frame, body.data, body.size);
}

static enum kiln_code read_json(const struct reply *reply, char **ret_json, struct failure *failure)
{
    if (reply->header->type != MESSAGE_json ||
        (reply->body.size && memchr(reply->body.data, '\0', reply->body.size)))
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's answer is not JSON");
    *ret_json = bytes_to_text(reply->body);
    if (!*ret_json)
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for an answer of %zu bytes",
                         reply->body.size);
    return KILN_OK;
}

/* ---- requests on the client's connection ---- */

static enum kiln_code accept_json(struct request *request, const struct reply *reply,
                                  struct failure *failure)
{
    if (reply->header->flags & FRAME_MORE)
        return kiln_fail(&failure->err, KILN_CORRUPT,
                         "kilnd announced a second answer, which this request does not have");
    return read_json(reply, request->context, failure);
}

static enum kiln_code ask_admin(struct kiln_client *client, const struct kiln_admin_call *call,
                                uint64_t deadline_ns, char **ret_json, struct failure *failure)
{
    uint16_t number = 0;
    enum kiln_code rc = find_request(call->request, &number, &failure->err);
    if (rc)
        return rc;
    if (number == MESSAGE_events)
        return kiln_fail(&failure->err, KILN_INVALID, "use kiln_events for the request 'events'");
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    BUFFER_AUTO struct buffer frame;
    write_frame(&frame, call->json);
    char *text = NULL;
    struct request rq = {
        .type = number, .frame = &frame, .waiter = &waiter, .accept = accept_json, .context = &text
    };
    rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rq.failure;
    if (rc)
        free(text);
    else
        *ret_json = text;
    return rc;
}

static const char *call_complaint(const struct kiln_admin_call *call, char **ret_json)
{
    if (!call || !sized_is_fine(call->size, SIZED_TO(struct kiln_admin_call, ret_file_count)))
        return "kiln_admin_call.size is not set: give it sizeof the struct";
    if (!ret_json)
        return "an administration request needs a pointer for the answer";
    if (call->file_count > LIMIT_REQUEST_FILES || (call->file_count && !call->files))
        return "kiln_admin_call.files: at most 2 files go with a request";
    if (call->ret_files_max && !call->ret_files)
        return "kiln_admin_call.ret_files is not set";
    return NULL;
}

/* Like client_enter, except that a negative time-out is allowed and means no deadline. */
static enum kiln_code enter_unlimited(const struct kiln_client *client, int timeout_ms,
                                      uint64_t *ret_deadline_ns, struct kiln_err *err)
{
    enum kiln_code rc = client_enter(client, timeout_ms < 0 ? 0 : timeout_ms, ret_deadline_ns, err);
    if (timeout_ms < 0)
        *ret_deadline_ns = TRANSPORT_NO_DEADLINE;
    return rc;
}

int kiln_admin(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
               struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    const char *complaint = call_complaint(call, ret_json);
    if (!complaint && (call->file_count || call->ret_files_max || call->progress))
        complaint = "kiln_admin passes no files and reports no progress: use kiln_admin_call";
    if (complaint)
        return error_argument(err, "%s", complaint);
    enum kiln_code rc = enter_unlimited(client, call->timeout_ms, &deadline_ns, &f.err);
    if (!rc)
        rc = ask_admin(client, call, deadline_ns, ret_json, &f);
    return failure_return(&f, rc, err);
}

/* ---- requests with files and progress ---- */

struct calling {
    const struct kiln_admin_call *call;
    struct multiplexer *multiplexer;
    struct waiter waiter;
    struct request request;
    struct buffer frame;
    char *progress;
    char *answer;
    /* Owned, as are its descriptors.  An element is -1 if the caller took the descriptor. */
    int *files;
    size_t file_count;
};

static void calling_done(struct calling *c)
{
    multiplexer_destroy(c->multiplexer);
    waiter_done(&c->waiter);
    buffer_done(&c->frame);
    failure_done(&c->request.failure);
    free(c->progress);
    free(c->answer);
    for (size_t i = 0; i < c->file_count; i++) {
        if (c->files[i] >= 0)
            close(c->files[i]);
    }
    free(c->files);
}

/* Accepts only regular files, because reading a pipe may block, and reading a device may never end.
 */
static enum kiln_code check_files(const struct reply *reply, struct failure *failure)
{
    for (size_t i = 0; i < reply->descriptor_count; i++) {
        struct stat seen;
        if (fstat(reply->descriptors[i], &seen) != 0 || !S_ISREG(seen.st_mode))
            return kiln_fail(
                &failure->err, KILN_CORRUPT,
                "file %zu of kilnd's answer is not a regular file: the peer is not kilnd, or it "
                "is damaged",
                i);
    }
    return KILN_OK;
}

static enum kiln_code take_files(struct calling *c, const struct reply *reply,
                                 struct failure *failure)
{
    if (reply->descriptor_count == 0)
        return KILN_OK;
    if (reply->descriptor_count > c->call->ret_files_max)
        return kiln_fail(
            &failure->err, KILN_INVALID,
            "kilnd returned %zu files, and kiln_admin_call.ret_files holds at most %zu",
            reply->descriptor_count, c->call->ret_files_max);
    if (check_files(reply, failure))
        return failure->err.code;
    c->files = malloc(reply->descriptor_count * sizeof(int));
    if (!c->files)
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for the answer's files");
    for (size_t i = 0; i < reply->descriptor_count; i++) {
        c->files[c->file_count++] = reply->descriptors[i];
        reply->descriptors[i] = -1;
    }
    return KILN_OK;
}

static enum kiln_code accept_called(struct request *request, const struct reply *reply,
                                    struct failure *failure)
{
    struct calling *c = request->context;
    bool more = reply->header->flags & FRAME_MORE;
    char **place = more ? &c->progress : &c->answer;
    free(*place);
    *place = NULL;
    enum kiln_code rc = read_json(reply, place, failure);
    return rc || more ? rc : take_files(c, reply, failure);
}

static enum kiln_code begin_call(struct kiln_client *client, struct calling *c, uint16_t number,
                                 struct kiln_err *err)
{
    waiter_init(&c->waiter);
    write_frame(&c->frame, c->call->json);
    c->request = (struct request){
        .type = number,
        .frame = &c->frame,
        .waiter = &c->waiter,
        .once = true,
        .files = c->call->files,
        .file_count = c->call->file_count,
        .accept = accept_called,
        .context = c,
    };
    enum kiln_code rc = client_open_multiplexer(client, &c->multiplexer, err);
    return rc ? rc : multiplexer_submit(c->multiplexer, &c->request, err);
}

static enum kiln_code wait_for_answer(struct calling *c, uint64_t deadline_ns,
                                      struct failure *failure)
{
    while (!c->request.ended) {
        enum kiln_code rc =
            multiplexer_wait(c->multiplexer, &c->waiter, deadline_ns, &failure->err);
        if (rc)
            return rc;
        KILN_AUTO(mem) char *progress = KILN_TAKE(c->progress);
        if (progress && c->call->progress && c->call->progress(c->call->context, progress))
            return kiln_fail(&failure->err, KILN_CANCELLED, "cancelled by the caller");
    }
    if (c->request.code) {
        *failure = c->request.failure;
        c->request.failure.log = NULL;
    }
    return c->request.code;
}

static enum kiln_code run_call(struct kiln_client *client, struct calling *c, uint64_t deadline_ns,
                               char **ret_json, struct failure *failure)
{
    uint16_t number = 0;
    enum kiln_code rc = find_request(c->call->request, &number, &failure->err);
    if (rc)
        return rc;
    if (number == MESSAGE_events)
        return kiln_fail(&failure->err, KILN_INVALID, "use kiln_events for the request 'events'");
    rc = begin_call(client, c, number, &failure->err);
    if (!rc)
        rc = wait_for_answer(c, deadline_ns, failure);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->file_count; i++) {
        c->call->ret_files[i] = c->files[i];
        c->files[i] = -1;
    }
    if (c->call->ret_file_count)
        *c->call->ret_file_count = c->file_count;
    *ret_json = KILN_TAKE(c->answer);
    return KILN_OK;
}

int kiln_admin_call(struct kiln_client *client, const struct kiln_admin_call *call, char **ret_json,
                    struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    const char *complaint = call_complaint(call, ret_json);
    if (complaint)
        return error_argument(err, "%s", complaint);
    uint64_t deadline_ns;
    enum kiln_code rc = enter_unlimited(client, call->timeout_ms, &deadline_ns, &f.err);
    __attribute__((cleanup(calling_done))) struct calling c = { .call = call };
    if (!rc)
        rc = run_call(client, &c, deadline_ns, ret_json, &f);
    return failure_return(&f, rc, err);
}

/* ---- events ---- */

static enum kiln_code accept_event(struct request *request, const struct reply *reply,
                                   struct failure *failure)
{
    char **event = request->context;
    free(*event);
    *event = NULL;
    return read_json(reply, event, failure);
}

struct subscription {
    /* a separate connection: closing it ends the subscription */
    struct multiplexer *multiplexer;
    struct waiter waiter;
    struct request request;
    struct buffer frame;
    char *event;
};

static void subscription_done(struct subscription *s)
{
    multiplexer_destroy(s->multiplexer);
    waiter_done(&s->waiter);
    buffer_done(&s->frame);
    failure_done(&s->request.failure);
    free(s->event);
}

static enum kiln_code report_events(struct subscription *s, uint64_t deadline_ns,
                                    int (*each)(void *context, const char *json), void *context,
                                    struct failure *failure)
{
    for (;;) {
        enum kiln_code rc =
            multiplexer_wait(s->multiplexer, &s->waiter, deadline_ns, &failure->err);
        if (rc == KILN_TIMED_OUT)
            return kiln_fail(&failure->err, rc, "the time-out for events is over");
        if (rc)
            return rc;
        bool enough = s->event && each(context, s->event);
        free(KILN_TAKE(s->event));
        if (enough)
            return KILN_OK;
        if (s->request.ended && !s->request.code)
            return kiln_fail(&failure->err, KILN_UNAVAILABLE, "kilnd ended the stream of events");
        if (s->request.ended) {
            *failure = s->request.failure;
            s->request.failure.log = NULL;
            return s->request.code;
        }
    }
}

static enum kiln_code open_subscription(struct kiln_client *client, struct subscription *s,
                                        struct kiln_err *err)
{
    waiter_init(&s->waiter);
    write_frame(&s->frame, NULL);
    s->request = (struct request){ .type = MESSAGE_events,
                                   .frame = &s->frame,
                                   .waiter = &s->waiter,
                                   .once = true,
                                   .accept = accept_event,
                                   .context = &s->event };
    enum kiln_code rc = client_open_multiplexer(client, &s->multiplexer, err);
    return rc ? rc : multiplexer_submit(s->multiplexer, &s->request, err);
}

int kiln_events(struct kiln_client *client, int timeout_ms,
                int (*each)(void *context, const char *json), void *context, struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    enum kiln_code rc = enter_unlimited(client, timeout_ms, &deadline_ns, &f.err);
    if (!rc && !each)
        return error_argument(err, "kiln_events needs a callback");
    __attribute__((cleanup(subscription_done))) struct subscription s = { 0 };
    if (!rc)
        rc = open_subscription(client, &s, &f.err);
    if (!rc)
        rc = report_events(&s, deadline_ns, each, context, &f);
    return failure_return(&f, rc, err);
}

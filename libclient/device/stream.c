/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"
#include "libclient/failure.h"

enum made { WRAPPED, OURS, OURS_APART };

static enum kiln_code make_stream(struct kiln_device *device, enum made made, void *native,
                                  struct kiln_stream **ret_stream, struct kiln_err *err)
{
    bool is_ours = made != WRAPPED;
    struct kiln_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a stream");
    enum kiln_code rc = device_enter(device, err);
    if (!rc && is_ours)
        rc = device->ops->create_stream(device, made == OURS_APART, &native, err);
    else if (!rc)
        rc = device->ops->adopt_stream(device, native, err);
    if (rc) {
        free(s);
        return rc;
    }
    *s = (struct kiln_stream){ .device = device_ref(device), .native = native, .is_ours = is_ours };
    *ret_stream = s;
    return KILN_OK;
}

enum kiln_code stream_create_apart(struct kiln_device *device, struct kiln_stream **ret_stream,
                                   struct kiln_err *err)
{
    return make_stream(device, OURS_APART, NULL, ret_stream, err);
}

int kiln_stream_create(struct kiln_device *device, struct kiln_stream **ret_stream,
                       struct kiln_error *err)
{
    if (!device || !ret_stream)
        return error_argument(err,
                              "kiln_stream_create needs a device and a pointer for the stream");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, make_stream(device, OURS, NULL, ret_stream, &e), err);
}

int kiln_stream_wrap(struct kiln_device *device, void *native, struct kiln_stream **ret_stream,
                     struct kiln_error *err)
{
    if (!device || !ret_stream)
        return error_argument(err, "kiln_stream_wrap needs a device and a pointer for the stream");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, make_stream(device, WRAPPED, native, ret_stream, &e), err);
}

void kiln_stream_destroy(struct kiln_stream *stream)
{
    if (!stream)
        return;
    struct kiln_device *device = stream->device;
    if (fork_guard_holds(&device->guard))
        device->ops->drop_stream(device, stream->native, stream->is_ours);
    free(stream);
    device_unref(device);
}

void *kiln_stream_native(const struct kiln_stream *stream) { return stream->native; }

int kiln_stream_finish(struct kiln_stream *stream, struct kiln_error *err)
{
    if (!stream)
        return error_argument(err, "kiln_stream_finish needs a stream");
    struct kiln_device *device = stream->device;
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = device_enter(device, &e);
    if (!rc)
        rc = device->ops->finish(device, stream->native, &e);
    return error_return(&e, rc, err);
}

static enum kiln_code make_event(struct kiln_device *device, struct kiln_event **ret_event,
                                 struct kiln_err *err)
{
    struct kiln_event *event = calloc(1, sizeof(*event));
    if (!event)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an event");
    enum kiln_code rc = device_enter(device, err);
    if (!rc)
        rc = device->ops->create_event(device, &event->native, err);
    if (rc) {
        free(event);
        return rc;
    }
    event->device = device_ref(device);
    *ret_event = event;
    return KILN_OK;
}

int kiln_event_create(struct kiln_device *device, struct kiln_event **ret_event,
                      struct kiln_error *err)
{
    if (!device || !ret_event)
        return error_argument(err, "kiln_event_create needs a device and a pointer for the event");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, make_event(device, ret_event, &e), err);
}

void kiln_event_destroy(struct kiln_event *event)
{
    if (!event)
        return;
    struct kiln_device *device = event->device;
    if (fork_guard_holds(&device->guard))
        device->ops->drop_event(device, event->native);
    free(event);
    device_unref(device);
}

int kiln_event_record(struct kiln_event *event, struct kiln_stream *stream, struct kiln_error *err)
{
    if (!event)
        return error_argument(err, "kiln_event_record needs an event");
    struct kiln_device *device = event->device;
    struct kiln_err e = KILN_ERR_INIT;
    void *native = NULL;
    enum kiln_code rc = device_enter(device, &e);
    if (!rc)
        rc = device_stream(device, stream, &native, &e);
    if (!rc)
        rc = device->ops->record(device, &event->native, native, &e);
    if (!rc)
        event->is_recorded = true;
    return error_return(&e, rc, err);
}

int kiln_event_wait(struct kiln_event *event, struct kiln_error *err)
{
    if (!event || !event->is_recorded)
        return error_argument(err, "kiln_event_wait needs an event that was recorded");
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = device_enter(event->device, &e);
    if (!rc)
        rc = event->device->ops->wait(event->device, event->native, &e);
    return error_return(&e, rc, err);
}

int kiln_event_elapsed(struct kiln_event *begin, struct kiln_event *end, double *ret_ms,
                       struct kiln_error *err)
{
    if (!begin || !end || !ret_ms || !begin->is_recorded || !end->is_recorded ||
        begin->device != end->device)
        return error_argument(err, "kiln_event_elapsed needs two events of one device that were "
                                   "recorded, and a pointer for the time");
    struct kiln_device *device = begin->device;
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = device_enter(device, &e);
    if (!rc) /* waits for both events, because |begin| and |end| may be in different streams */
        rc = device->ops->wait(device, begin->native, &e);
    if (!rc)
        rc = device->ops->wait(device, end->native, &e);
    if (!rc)
        rc = device->ops->elapsed(device, begin->native, end->native, ret_ms, &e);
    return error_return(&e, rc, err);
}

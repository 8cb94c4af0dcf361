/* SPDX-License-Identifier: MIT */
#include "libclient/connection/handshake.h"

#include "libclient/failure.h"

#include <stdio.h>
#include <string.h>

enum kiln_code handshake_send(struct transport *t, const char *software, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer frame;
    buffer_init(&frame, 4096);
    struct message_hello hello = {
        .oldest_version = FRAME_VERSION_OLDEST,
        .newest_version = FRAME_VERSION,
        .capabilities = CAPABILITIES_HERE,
        .software = bytes_of_text(software),
    };
    uint8_t raw[FRAME_HEADER_SIZE] = { 0 };
    buffer_put(&frame, raw, sizeof(raw));
    message_hello_write(&frame, &hello);
    if (frame.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to send hello to kilnd");
    struct frame_header header = {
        .version = FRAME_VERSION,
        .type = MESSAGE_hello,
        .request_id = HANDSHAKE_REQUEST_ID,
        .body_size = (uint32_t)(frame.size - FRAME_HEADER_SIZE),
    };
    frame_header_write(frame.data, &header);
    return t->ops->send(t, buffer_view(&frame), err);
}

static enum kiln_code check_version(const struct message_welcome *m, struct kiln_err *err)
{
    if (m->version >= FRAME_VERSION_OLDEST && m->version <= FRAME_VERSION)
        return KILN_OK;
    return kiln_fail(
        err, KILN_UNSUPPORTED,
        "%.*s uses protocol version %u, this libkiln %s supports %u to %u: upgrade the "
        "older of the two",
        (int)(m->software.size < 60 ? m->software.size : 60), (const char *)m->software.data,
        m->version, KILN_VERSION, FRAME_VERSION_OLDEST, FRAME_VERSION);
}

/* Keeps only printable characters, because the text comes from another process. */
static void copy_software(char *to, size_t size, struct bytes from)
{
    size_t count = from.size < size - 1 ? from.size : size - 1;
    for (size_t i = 0; i < count; i++)
        to[i] = (char)(from.data[i] >= ' ' && from.data[i] < 127 ? from.data[i] : '?');
    to[count] = '\0';
}

static enum kiln_code read_welcome(struct bytes body, struct handshake *ret_handshake,
                                   struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_welcome m = message_welcome_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_welcome, err);
    if (rc) {
        err->code = KILN_CORRUPT;
        return kiln_while(err, "kilnd's welcome is damaged");
    }
    rc = check_version(&m, err);
    if (rc)
        return rc;
    *ret_handshake = (struct handshake){
        .version = m.version,
        .capabilities = m.capabilities & CAPABILITIES_HERE,
        .pid = m.pid,
        .role = m.role <= ROLE_ADMIN ? m.role : ROLE_USE,
        .max_body = m.max_body,
        .max_in_flight = m.max_in_flight ? m.max_in_flight : 1,
    };
    copy_software(ret_handshake->software, sizeof(ret_handshake->software), m.software);
    return KILN_OK;
}

static enum kiln_code read_refusal(struct bytes body, struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_error m = message_error_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_error, err);
    if (rc) {
        err->code = KILN_CORRUPT;
        return kiln_while(err, "kilnd's answer to hello is damaged");
    }
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    failure_said(&f, m.code, m.text, (struct bytes){ 0 });
    *err = f.err;
    return kiln_while(err, "kilnd rejects this libkiln %s", KILN_VERSION);
}

static enum kiln_code read_answer(const struct transport_frame *frame,
                                  struct handshake *ret_handshake, struct kiln_err *err)
{
    if (frame->header.type == MESSAGE_welcome)
        return read_welcome(frame->body, ret_handshake, err);
    if (frame->header.type == MESSAGE_error)
        return read_refusal(frame->body, err);
    return kiln_fail(err, KILN_CORRUPT, "kilnd answers hello with '%s'",
                     message_name(frame->header.type));
}

enum kiln_code handshake_receive(struct transport *transport, uint64_t deadline_ns,
                                 struct handshake *ret_handshake, struct kiln_err *err)
{
    enum kiln_code rc = KILN_BUSY;
    struct transport_frame frame;
    while (rc == KILN_BUSY)
        rc = transport->ops->receive(transport, deadline_ns, &frame, err);
    if (rc == KILN_TIMED_OUT)
        return kiln_fail(err, rc, "kilnd accepts connections but does not answer hello");
    if (rc)
        return rc;
    rc = read_answer(&frame, ret_handshake, err);
    transport_frame_done(&frame);
    return rc;
}

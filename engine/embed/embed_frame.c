/* SPDX-License-Identifier: MIT */
#include "engine/embed/embed_frame.h"

#include <fcntl.h>
#include <string.h>

static void copy_body(uint8_t *to, const struct reply *reply)
{
    size_t at = 0;
    for (size_t i = 0; i < reply->segment_count; i++) {
        const struct segment *segment = &reply->segments[i];
        memcpy(to, reply->body.data + at, segment->at - at);
        to += segment->at - at;
        memcpy(to, segment->object->data, segment->object->size);
        to += segment->object->size;
        at = segment->at;
    }
    if (reply->body.size > at)
        memcpy(to, reply->body.data + at, reply->body.size - at);
}

static bool copy_descriptors(struct embed_frame *frame, const struct reply *reply)
{
    for (size_t i = 0; i < reply->object_count; i++) {
        frame->descriptors[i] = fcntl(reply->objects[i]->fd, F_DUPFD_CLOEXEC, EMBED_FD_MIN);
        if (frame->descriptors[i] < 0)
            return false;
        frame->header.descriptors++;
    }
    return true;
}

enum kiln_code embed_frame_create(const struct reply *reply, uint16_t version,
                                  struct embed_frame **ret_frame)
{
    size_t size = reply->body.size + segments_size(reply->segments, reply->segment_count);
    struct embed_frame *frame = malloc(sizeof(*frame) + size);
    if (!frame)
        return KILN_NO_MEMORY;
    frame->link = (struct list_link){ 0 };
    frame->header = (struct frame_header){ .version = version ? version : FRAME_VERSION,
                                           .type = (uint16_t)reply->type,
                                           .request_id = reply->request_id,
                                           .body_size = (uint32_t)size,
                                           .flags = reply->flags };
    if (!copy_descriptors(frame, reply)) {
        embed_frame_destroy(frame);
        return KILN_FULL;
    }
    copy_body(frame->body, reply);
    *ret_frame = frame;
    return KILN_OK;
}

void embed_frame_destroy(struct embed_frame *frame)
{
    for (size_t i = 0; frame && i < frame->header.descriptors; i++)
        close(frame->descriptors[i]);
    free(frame);
}

void embed_frame_release(struct embed_frame *frame, struct transport_frame *ret_frame)
{
    *ret_frame = (struct transport_frame){ .header = frame->header,
                                           .body = bytes_of(frame->body, frame->header.body_size),
                                           .descriptors = frame->descriptors,
                                           .descriptor_count = frame->header.descriptors };
    frame->header.descriptors = 0;
}

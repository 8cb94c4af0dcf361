/* SPDX-License-Identifier: MIT */
#include "libclient/connection/stored_frame.h"

#include <stdlib.h>
#include <unistd.h>

struct stored_frame *stored_frame_create(struct transport_frame *frame)
{
    struct stored_frame *stored = malloc(sizeof(*stored) + frame->body.size);
    if (!stored)
        return NULL;
    *stored = (struct stored_frame){ .header = frame->header,
                                     .descriptor_count = frame->descriptor_count };
    for (size_t i = 0; i < frame->descriptor_count; i++) {
        stored->descriptors[i] = frame->descriptors[i];
        frame->descriptors[i] = -1;
    }
    if (frame->body.size)
        memcpy(stored->body, frame->body.data, frame->body.size);
    return stored;
}

void stored_frame_destroy(struct stored_frame *frame)
{
    if (!frame)
        return;
    for (size_t i = 0; i < frame->descriptor_count; i++) {
        if (frame->descriptors[i] >= 0)
            close(frame->descriptors[i]);
    }
    free(frame);
}

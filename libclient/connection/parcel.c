/* SPDX-License-Identifier: MIT */
#include "libclient/connection/parcel.h"

#include <string.h>

struct parcel *parcel_create(struct transport_frame *frame)
{
    struct parcel *p = malloc(sizeof(*p) + frame->body.size);
    if (!p)
        return NULL;
    *p = (struct parcel){ .header = frame->header, .descriptor_count = frame->descriptor_count };
    for (size_t i = 0; i < frame->descriptor_count; i++) {
        p->descriptors[i] = frame->descriptors[i];
        frame->descriptors[i] = -1;
    }
    if (frame->body.size)
        memcpy(p->body, frame->body.data, frame->body.size);
    return p;
}

void parcel_destroy(struct parcel *parcel)
{
    if (!parcel)
        return;
    for (size_t i = 0; i < parcel->descriptor_count; i++)
        if (parcel->descriptors[i] >= 0)
            close(parcel->descriptors[i]);
    free(parcel);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/server/inbox.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 4096

void inbox_init(struct inbox *inbox, struct account *account)
{
    *inbox = (struct inbox){ .account = account, .wanted = FRAME_HEADER_SIZE };
}

static void reset_inbox(struct inbox *inbox)
{
    if (inbox->capacity)
        account_release(inbox->account, inbox->capacity);
    free(inbox->data);
    inbox->data = NULL;
    inbox->size = inbox->capacity = 0;
    inbox->wanted = FRAME_HEADER_SIZE;
    inbox->header = (struct frame_header){ 0 };
    inbox->is_returned = false;
}

static void drop_kept(struct inbox *inbox)
{
    if (inbox->kept)
        account_release(inbox->account, inbox->kept_size);
    free(inbox->kept);
    inbox->kept = NULL;
    inbox->kept_size = 0;
    inbox->left = (struct bytes){ 0 };
}

void inbox_done(struct inbox *inbox)
{
    reset_inbox(inbox);
    drop_kept(inbox);
}

bool inbox_is_partial(const struct inbox *inbox) { return inbox->size > 0 && !inbox->is_returned; }

static enum kiln_code charge_bytes(struct inbox *inbox, size_t bytes, struct kiln_err *err)
{
    if (account_charge(inbox->account, bytes))
        return KILN_OK;
    return kiln_fail(err, KILN_BUSY,
                     "user %u has %zu bytes of unfinished requests and unread replies in kilnd, "
                     "which is the limit: read replies, or send less at once",
                     (unsigned)inbox->account->uid, inbox->account->bytes);
}

static enum kiln_code grow_data(struct inbox *inbox, size_t size, struct kiln_err *err)
{
    if (size <= inbox->capacity)
        return KILN_OK;
    size_t capacity = inbox->capacity ? inbox->capacity : CAPACITY_FIRST;
    while (capacity < size)
        capacity *= 2;
    if (inbox->wanted > FRAME_HEADER_SIZE && capacity > inbox->wanted)
        capacity = inbox->wanted;
    enum kiln_code rc = charge_bytes(inbox, capacity - inbox->capacity, err);
    if (rc)
        return rc;
    uint8_t *data = realloc(inbox->data, capacity);
    if (!data) {
        account_release(inbox->account, capacity - inbox->capacity);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a request of %zu bytes",
                         inbox->wanted);
    }
    inbox->data = data;
    inbox->capacity = capacity;
    return KILN_OK;
}

static enum kiln_code copy_rest(struct inbox *inbox, struct bytes rest, struct kiln_err *err)
{
    enum kiln_code rc = charge_bytes(inbox, rest.size, err);
    if (rc)
        return rc;
    inbox->kept = malloc(rest.size);
    if (!inbox->kept) {
        account_release(inbox->account, rest.size);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for requests of %zu bytes", rest.size);
    }
    inbox->kept_size = rest.size;
    memcpy(inbox->kept, rest.data, rest.size);
    inbox->left = bytes_of(inbox->kept, rest.size);
    return KILN_OK;
}

enum kiln_code inbox_keep(struct inbox *inbox, struct bytes rest, struct kiln_err *err)
{
    if (rest.size == 0)
        drop_kept(inbox);
    else if (!inbox->kept)
        return copy_rest(inbox, rest, err);
    else
        inbox->left = rest;
    return KILN_OK;
}

int inbox_buffers(struct inbox *inbox, struct bytes scratch, struct iovec iov[2])
{
    int count = 0;
    if (inbox->is_returned)
        reset_inbox(inbox);
    size_t own = inbox->capacity < inbox->wanted ? inbox->capacity : inbox->wanted;
    if (own > inbox->size)
        iov[count++] = (struct iovec){ inbox->data + inbox->size, own - inbox->size };
    iov[count++] = (struct iovec){ (void *)(uintptr_t)scratch.data, scratch.size };
    return count;
}

struct bytes inbox_received(struct inbox *inbox, struct bytes scratch, size_t received)
{
    size_t own = inbox->capacity < inbox->wanted ? inbox->capacity : inbox->wanted;
    own = own > inbox->size ? own - inbox->size : 0;
    if (own > received)
        own = received;
    inbox->size += own;
    return bytes_of(scratch.data, received - own);
}

static uint64_t request_id_of(const uint8_t *raw)
{
    struct reader r = reader_of(bytes_of(raw, FRAME_HEADER_SIZE));
    if (reader_u32(&r) != FRAME_MAGIC)
        return 0;
    reader_u32(&r);
    return reader_u64(&r);
}

static bool next_in_place(struct bytes *from, const struct frame_header *header,
                          struct bytes *ret_body)
{
    if (from->size - FRAME_HEADER_SIZE < header->body_size)
        return false;
    *ret_body = bytes_of(from->data + FRAME_HEADER_SIZE, header->body_size);
    size_t whole = FRAME_HEADER_SIZE + (size_t)header->body_size;
    *from = bytes_of(from->data + whole, from->size - whole);
    return true;
}

static enum kiln_code gather_bytes(struct inbox *inbox, struct bytes *from, struct kiln_err *err)
{
    size_t part = inbox->wanted - inbox->size;
    if (part > from->size)
        part = from->size;
    enum kiln_code rc = grow_data(inbox, inbox->size + part, err);
    if (rc)
        return rc;
    if (part > 0)
        memcpy(inbox->data + inbox->size, from->data, part);
    inbox->size += part;
    *from = bytes_of(from->data + part, from->size - part);
    return inbox->size == inbox->wanted ? KILN_OK : KILN_NOT_FOUND;
}

static enum kiln_code next_gathered(struct inbox *inbox, struct bytes *from, struct kiln_err *err)
{
    enum kiln_code rc = gather_bytes(inbox, from, err);
    if (rc || inbox->wanted > FRAME_HEADER_SIZE)
        return rc;
    rc = frame_header_read(inbox->data, &inbox->header, err);
    if (rc) {
        inbox->header.request_id = request_id_of(inbox->data);
        return rc;
    }
    inbox->wanted = FRAME_HEADER_SIZE + (size_t)inbox->header.body_size;
    return inbox->size == inbox->wanted ? KILN_OK : gather_bytes(inbox, from, err);
}

enum kiln_code inbox_next(struct inbox *inbox, struct bytes *from, struct frame_header *ret_header,
                          struct bytes *ret_body, struct kiln_err *err)
{
    if (inbox->is_returned)
        reset_inbox(inbox);
    if (inbox->size == 0 && from->size == 0)
        return KILN_NOT_FOUND;
    if (inbox->size == 0 && from->size >= FRAME_HEADER_SIZE) {
        enum kiln_code rc = frame_header_read(from->data, ret_header, err);
        if (rc)
            ret_header->request_id = request_id_of(from->data);
        if (rc || next_in_place(from, ret_header, ret_body))
            return rc;
    }
    enum kiln_code rc = next_gathered(inbox, from, err);
    *ret_header = inbox->header;
    if (rc)
        return rc;
    *ret_body = bytes_of(inbox->data + FRAME_HEADER_SIZE, inbox->header.body_size);
    inbox->is_returned = true;
    return KILN_OK;
}

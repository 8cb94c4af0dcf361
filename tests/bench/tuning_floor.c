/* SPDX-License-Identifier: MIT */
#include "tests/bench/floor.h"
#include "tests/bench/tuning_way.h"

struct trip {
    int fd;
    size_t reply_size;
    uint8_t reply[]; /* |reply_size| bytes */
};

static void trip_close(void *state)
{
    struct trip *t = state;
    if (t)
        fd_auto(&t->fd);
    free(t);
}

static enum kiln_code open_trip(const char *socket, size_t more, void **ret_state,
                                struct kiln_err *err)
{
    struct trip *t = calloc(1, sizeof(*t) + FLOOR_REPLY_SIZE + more);
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a bare socket");
    t->fd = -1;
    t->reply_size = FLOOR_REPLY_SIZE + more;
    enum kiln_code rc = floor_connect(socket, &t->fd, err);
    if (rc)
        trip_close(t);
    else
        *ret_state = t;
    return rc;
}

static enum kiln_code open_empty(const struct way_place *place, void **ret_state,
                                 struct kiln_err *err)
{
    return open_trip(place->floor_socket, 0, ret_state, err);
}

static enum kiln_code open_same(const struct way_place *place, void **ret_state,
                                struct kiln_err *err)
{
    return open_trip(place->floor_socket, place->floor_size, ret_state, err);
}

static enum kiln_code open_loop(const struct way_place *place, void **ret_state,
                                struct kiln_err *err)
{
    return open_trip(place->epoll_socket, place->floor_size, ret_state, err);
}

static enum kiln_code make_trip(void *state, const struct data_question *question,
                                struct kiln_err *err)
{
    (void)question;
    struct trip *t = state;
    struct floor_request request = {
        .mode = t->reply_size > FLOOR_REPLY_SIZE ? FLOOR_INLINE : FLOOR_EMPTY,
        .count = 1,
    };
    struct floor_reply reply = { .body = t->reply, .size = t->reply_size };
    enum kiln_code rc = floor_ask(t->fd, &request, err);
    return rc ? rc : floor_hear(t->fd, &reply, err);
}

const struct tuning_way way_round_trip = {
    .name = "round-trip",
    .open = open_empty,
    .ask = make_trip,
    .close = trip_close,
};

const struct tuning_way way_same_bytes = {
    .name = "same-bytes",
    .open = open_same,
    .ask = make_trip,
    .close = trip_close,
};

const struct tuning_way way_event_loop = {
    .name = "event-loop",
    .open = open_loop,
    .ask = make_trip,
    .close = trip_close,
};

/* SPDX-License-Identifier: MIT */
/* Tests of the outbox with a fake socket, which accepts bytes in pieces, and may become full, be
 * interrupted or be closed at any byte. All bytes must arrive in order, and each descriptor
 * once, with the first byte of its frame. Afterwards, nothing may be charged to the account. */
#include "daemon/server/outbox.h"

#include "tests/support/random_bytes.h"
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define SOCKET 1000 /* not a descriptor of this process */
#define STREAM_MAX (64u << 10)
#define FILES_MAX 16
#define FOR_EVER SIZE_MAX

static struct {
    size_t piece;     /* maximum bytes for each call */
    size_t stops_at;  /* number of bytes after which calls fail */
    int stops_with;   /* errno of the calls that fail */
    unsigned stops;   /* number of calls that will still fail */
    int with_files;   /* errno of refused calls with descriptors */
    unsigned refused; /* number of calls with descriptors that will still be refused */
    uint8_t stream[STREAM_MAX];
    size_t size;
    struct {
        size_t at;
        int fd;
    } files[FILES_MAX];
    size_t file_count;
} peer;

static bool is_stopped(void)
{
    if (peer.stops == 0 || peer.size < peer.stops_at)
        return false;
    peer.stops--;
    errno = peer.stops_with;
    return true;
}

static size_t accepted_size(size_t size)
{
    size_t max = peer.piece;
    if (peer.stops > 0 && peer.stops_at - peer.size < max)
        max = peer.stops_at - peer.size;
    return size < max ? size : max;
}

static void receive_bytes(const void *data, size_t size)
{
    assert_true(peer.size + size <= STREAM_MAX);
    memcpy(peer.stream + peer.size, data, size);
    peer.size += size;
}

WRAP(ssize_t, send, int fd, const void *data, size_t size, int flags)
{
    if (fd != SOCKET)
        return __real_send(fd, data, size, flags);
    assert_int_equal(flags, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (is_stopped())
        return -1;
    size_t taken = accepted_size(size);
    receive_bytes(data, taken);
    return (ssize_t)taken;
}

static void receive_files(const struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    assert_int_equal(c->cmsg_type, SCM_RIGHTS);
    assert_true(count > 0 && peer.file_count + count <= FILES_MAX);
    for (size_t i = 0; i < count; i++, peer.file_count++) {
        peer.files[peer.file_count].at = peer.size;
        memcpy(&peer.files[peer.file_count].fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *m, int flags)
{
    if (fd != SOCKET)
        return __real_sendmsg(fd, m, flags);
    assert_int_equal(flags, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (m->msg_control && peer.refused > 0) {
        peer.refused--;
        errno = peer.with_files;
        return -1;
    }
    if (is_stopped())
        return -1;
    size_t whole = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        whole += m->msg_iov[i].iov_len;
    size_t taken = accepted_size(whole), left = taken;
    assert_true(taken > 0);
    if (m->msg_control)
        receive_files(m);
    for (size_t i = 0; left > 0; i++) {
        size_t part = m->msg_iov[i].iov_len < left ? m->msg_iov[i].iov_len : left;
        receive_bytes(m->msg_iov[i].iov_base, part);
        left -= part;
    }
    return (ssize_t)taken;
}

static unsigned references;

struct object *object_ref(struct object *object)
{
    references++;
    return object;
}

struct object *object_unref(struct object *object)
{
    references -= object ? 1 : 0;
    return NULL;
}

#define FRAMES 8
#define LARGE 5000 /* too large to be copied */

static const struct {
    size_t size;
    size_t first_file, file_count;
    /* whether the frame has zero-copy segments: one before, one within and one after its body of
     * 30 bytes */
    bool has_segments;
} sizes[FRAMES] = {
    { .size = 10 },    { .size = 40, .file_count = 2 },
    { .size = 0 },     { .size = 30, .has_segments = true },
    { .size = LARGE }, { .size = 20, .first_file = 2, .file_count = 1 },
    { .size = 50 },    { .size = 60 },
};

struct fixture {
    struct accounts accounts;
    struct account account;
    struct outbox box;
    struct object files[3], inlays[3];
    struct object *sent[3];
    struct segment segments[3];
    struct outgoing frames[FRAMES];
    uint8_t body[LARGE];
    struct buffer expected;
    size_t begins[FRAMES];
    struct kiln_err err;
};

static void make_frame(struct fixture *f, unsigned number)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct outgoing *frame = &f->frames[number];
    size_t at = 0;
    *frame = (struct outgoing){ .body = bytes_of(f->body, sizes[number].size),
                                .objects = &f->sent[sizes[number].first_file],
                                .object_count = sizes[number].file_count,
                                .segments = f->segments,
                                .segment_count = sizes[number].has_segments ? 3 : 0 };
    frame->header = (struct frame_header){
        .version = FRAME_VERSION,
        .type = MESSAGE_kernels,
        .request_id = number,
        .body_size =
            (uint32_t)(frame->body.size + segments_size(frame->segments, frame->segment_count)),
        .descriptors = (uint16_t)frame->object_count,
    };
    frame_header_write(raw, &frame->header);
    f->begins[number] = f->expected.size;
    buffer_put(&f->expected, raw, sizeof(raw));
    for (size_t i = 0; i < frame->segment_count; i++) {
        buffer_put(&f->expected, frame->body.data + at, frame->segments[i].at - at);
        buffer_put(&f->expected, frame->segments[i].object->data, frame->segments[i].object->size);
        at = frame->segments[i].at;
    }
    buffer_put(&f->expected, frame->body.data + at, frame->body.size - at);
}

SET_UP(set_up)
{
    static const char *const texts[] = { "first", "2", "and the third of them" };
    static const size_t places[] = { 0, 11, 30 };
    random_bytes(f->body, sizeof(f->body), 1);
    test_buffer(&f->expected, STREAM_MAX);
    for (int i = 0; i < 3; i++) {
        f->files[i] = (struct object){ .fd = 500 + i };
        f->sent[i] = &f->files[i];
        f->inlays[i].data = (const uint8_t *)texts[i];
        f->inlays[i].size = strlen(texts[i]);
        f->segments[i] = (struct segment){ places[i], &f->inlays[i] };
    }
    for (unsigned i = 0; i < FRAMES; i++)
        make_frame(f, i);
}

FIXTURE(outbox, set_up, NULL);

static void open_box(struct fixture *f, size_t piece)
{
    memset(&peer, 0, sizeof(peer));
    peer.piece = piece;
    references = 0;
    const struct account_limits limits = { .bytes = SIZE_MAX };
    accounts_init(&f->accounts, &limits);
    f->account = (struct account){ .all = &f->accounts, .uid = 1000, .limit = 1u << 20 };
    outbox_init(&f->box, &f->account, 1u << 20);
}

static void stop_at(size_t at, int with, unsigned times)
{
    peer.stops_at = at;
    peer.stops_with = with;
    peer.stops = times;
}

static enum kiln_code send_all(struct fixture *f, bool hold)
{
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < FRAMES && !rc; i++)
        rc = outbox_send(&f->box, SOCKET, &f->frames[i], hold, &f->err);
    return rc;
}

static void flush_all(struct fixture *f)
{
    for (unsigned i = 0; !outbox_is_empty(&f->box); i++) {
        assert_true(i < 4 * STREAM_MAX);
        must(outbox_flush(&f->box, SOCKET, &f->err), f->err);
    }
}

static void assert_nothing_is_held(struct fixture *f)
{
    assert_true(outbox_is_empty(&f->box));
    assert_int_equal(f->box.bytes, 0);
    assert_int_equal(f->account.bytes, 0);
    assert_int_equal(references, 0);
}

static void expect_whole_stream(struct fixture *f)
{
    const size_t places[] = { f->begins[1], f->begins[1], f->begins[5] };
    assert_int_equal(peer.size, f->expected.size);
    assert_memory_equal(peer.stream, f->expected.data, f->expected.size);
    assert_int_equal(peer.file_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(peer.files[i].at, places[i]);
        assert_int_equal(peer.files[i].fd, 500 + i);
    }
    assert_nothing_is_held(f);
}

TEST_F(outbox, a_socket_that_accepts_everything_gets_all_bytes_at_once)
{
    open_box(f, FOR_EVER);
    must(send_all(f, /* hold= */ false), f->err);
    expect_whole_stream(f);
}

TEST_F(outbox, pieces_of_any_size_arrive_whole_and_in_order)
{
    for (size_t piece = 1; piece <= f->expected.size + 1; piece += piece < 200 ? 1 : 97) {
        for (unsigned hold = 0; hold < 2; hold++) {
            open_box(f, piece);
            must(send_all(f, hold), f->err);
            flush_all(f);
            expect_whole_stream(f);
        }
    }
}

TEST_F(outbox, a_socket_that_is_full_at_any_byte_gets_the_rest_later)
{
    for (size_t at = 0; at < f->expected.size; at++) {
        for (unsigned hold = 0; hold < 2; hold++) {
            open_box(f, FOR_EVER);
            stop_at(at, EAGAIN, FRAMES + 2);
            must(send_all(f, hold), f->err);
            flush_all(f);
            expect_whole_stream(f);
        }
    }
}

TEST_F(outbox, a_signal_at_any_byte_changes_nothing)
{
    for (size_t at = 0; at < f->expected.size; at++) {
        open_box(f, FOR_EVER);
        stop_at(at, EINTR, 3);
        must(send_all(f, /* hold= */ false), f->err);
        flush_all(f);
        assert_int_equal(peer.stops, 0);
        expect_whole_stream(f);
    }
}

TEST_F(outbox, a_peer_that_leaves_at_any_byte_is_reported_and_leaves_nothing)
{
    for (size_t at = 0; at < f->expected.size; at++) {
        open_box(f, /* piece= */ 1000);
        stop_at(at, at % 2 ? EPIPE : ECONNRESET, 1);
        enum kiln_code rc = send_all(f, at % 3 == 0);
        while (!rc && !outbox_is_empty(&f->box))
            rc = outbox_flush(&f->box, SOCKET, &f->err);
        assert_int_equal(rc, KILN_UNAVAILABLE);
        assert_says(f->err.text, "disconnected");
        assert_memory_equal(peer.stream, f->expected.data, peer.size);
        outbox_done(&f->box);
        assert_nothing_is_held(f);
    }
}

/* If Linux refuses the descriptors, it has sent no byte of the frame either. The descriptors
 * are then sent with the next attempt. */
TEST_F(outbox, descriptors_that_the_kernel_refuses_are_sent_later_with_their_frame)
{
    static const int reasons[] = { ETOOMANYREFS, ENOBUFS, ENOMEM };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        open_box(f, /* piece= */ 33);
        peer.with_files = reasons[i];
        peer.refused = 4;
        must(outbox_send(&f->box, SOCKET, &f->frames[0], /* hold= */ false, &f->err), f->err);
        flush_all(f);
        must(outbox_send(&f->box, SOCKET, &f->frames[1], /* hold= */ false, &f->err), f->err);
        assert_true(f->box.starved);
        for (unsigned k = 2; k < FRAMES; k++)
            must(outbox_send(&f->box, SOCKET, &f->frames[k], /* hold= */ false, &f->err), f->err);
        flush_all(f);
        assert_false(f->box.starved);
        expect_whole_stream(f);
    }
}

TEST_F(outbox, a_frame_beyond_the_limit_is_refused_and_not_charged)
{
    open_box(f, FOR_EVER);
    stop_at(0, EAGAIN, 100);
    f->account.limit = LARGE;
    must(outbox_send(&f->box, SOCKET, &f->frames[1], /* hold= */ false, &f->err), f->err);
    size_t held = f->account.bytes;
    assert_int_equal(outbox_send(&f->box, SOCKET, &f->frames[4], /* hold= */ false, &f->err),
                     KILN_FULL);
    assert_says(f->err.text, "unread replies");
    assert_int_equal(f->account.bytes, held);
    f->box.limit = held;
    assert_int_equal(outbox_send(&f->box, SOCKET, &f->frames[3], /* hold= */ false, &f->err),
                     KILN_FULL);
    assert_says(f->err.text, "peer");
    outbox_done(&f->box);
    assert_nothing_is_held(f);
}

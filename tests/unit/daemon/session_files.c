/* SPDX-License-Identifier: MIT */
/* Requests that come with descriptors: however the stream is cut, the handler has exactly those
 * that its frame announced, and every other one is closed. */
#include "common/cleanup.h"
#include "tests/unit/daemon/session_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#define WAIT_MAX_MS 10000

/* A pipe whose writing end is handed over: reading it ends once nobody has that end any more. */
struct handed_over {
    int reading, writing;
};

static struct handed_over make_one(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    return (struct handed_over){ ends[0], ends[1] };
}

static bool is_held(const struct handed_over *h)
{
    char byte;
    return read(h->reading, &byte, 1) < 0;
}

/* A thread does it: waits. */
static bool is_closed_everywhere(const struct handed_over *h)
{
    struct pollfd end = { .fd = h->reading, .events = POLLIN };
    return poll(&end, 1, WAIT_MAX_MS) == 1 && !is_held(h);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* A frame that announces |announced| and brings |sent|, whose copies here are closed. */
static void install(struct fixture *f, uint64_t id, unsigned announced, struct handed_over *sent,
                    unsigned count)
{
    uint8_t raw[128];
    int files[8];
    size_t size = put_install_frame(raw, id, "{}", announced);
    for (unsigned i = 0; i < count; i++)
        files[i] = sent[i].writing;
    send_files(f->client, raw, size, files, count);
    for (unsigned i = 0; i < count; i++)
        close(sent[i].writing);
}

static void take_pong(struct fixture *f, uint64_t id)
{
    char body[64];
    struct frame_header header = take_header(f, f->client);
    assert_int_equal(header.type, MESSAGE_pong);
    assert_int_equal(header.request_id, id);
    assert_int_equal(take(f, f->client, body, header.body_size), header.body_size);
}

TEST(session, a_requests_files_are_the_handlers_and_closed_unless_it_takes_them)
{
    struct fixture *f = *state;
    struct handed_over sent[2] = { make_one(), make_one() };
    install(f, 7, 2, sent, 2);
    take_pong(f, 7);
    assert_int_equal(service.file_count, 2);
    assert_true(is_closed_everywhere(&sent[0]));
    assert_true(is_closed_everywhere(&sent[1]));
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    ask(f->client, MESSAGE_ping, 8, "");
    take_pong(f, 8);
    assert_int_equal(service.file_count, 0); /* the next request has none */
    close(sent[0].reading);
    close(sent[1].reading);
}

TEST(session, a_descriptor_that_the_handler_takes_stays_open_and_is_the_right_one)
{
    struct fixture *f = *state;
    struct handed_over sent[2] = { make_one(), make_one() };
    service.takes_files = true;
    install(f, 7, 2, sent, 2);
    take_pong(f, 7);
    char byte = 0;
    for (int i = 0; i < 2; i++) {
        assert_true(is_held(&sent[i]));
        assert_int_equal(write(service.files[i], &"ab"[i], 1), 1);
        assert_int_equal(read(sent[i].reading, &byte, 1), 1);
        assert_int_equal(byte, "ab"[i]);
        assert_true(fcntl(service.files[i], F_GETFD) & FD_CLOEXEC);
        close(service.files[i]);
        assert_true(is_closed_everywhere(&sent[i]));
        close(sent[i].reading);
    }
}

TEST(session, a_frame_with_files_may_be_cut_anywhere)
{
    struct fixture *f = *state;
    uint8_t raw[128];
    size_t size = put_install_frame(raw, 7, "{\"a\":1}", 1);
    for (size_t cut = 1; cut < size; cut++) {
        struct handed_over sent = make_one();
        service.handled = 0;
        send_files(f->client, raw, cut, &sent.writing, 1);
        close(sent.writing);
        loop_iteration(f->loop);
        assert_int_equal(service.handled, 0);
        assert_true(is_held(&sent)); /* kept for the rest */
        send_raw(f->client, raw + cut, size - cut);
        take_pong(f, 7);
        assert_int_equal(service.handled, 1);
        assert_int_equal(service.file_count, 1);
        assert_true(is_closed_everywhere(&sent));
        close(sent.reading);
    }
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
}

TEST(session, frames_before_and_behind_it_do_not_get_its_files)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    uint8_t before[64], behind[64], raw[128];
    send_raw(f->client, before, put_frame(before, MESSAGE_ping, 1, "one", 3));
    size_t size = put_install_frame(raw, 2, "{}", 1);
    send_files(f->client, raw, size, &sent.writing, 1);
    close(sent.writing);
    send_raw(f->client, behind, put_frame(behind, MESSAGE_ping, 3, "three", 5));

    for (uint64_t id = 1; id <= 3; id++)
        take_pong(f, id);

    assert_int_equal(service.in_order, 3);
    assert_int_equal(service.file_count, 0); /* of the last one */
    assert_true(is_closed_everywhere(&sent));
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    close(sent.reading);
}

TEST(session, its_first_byte_may_come_in_one_read_with_the_frame_before)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    uint8_t before[64], raw[128];
    send_raw(f->client, before, put_frame(before, MESSAGE_ping, 1, "one", 3));
    size_t size = put_install_frame(raw, 2, "{}", 1);
    send_files(f->client, raw, 1, &sent.writing, 1);
    close(sent.writing);
    take_pong(f, 1);
    assert_int_equal(service.file_count, 0);
    assert_true(is_held(&sent));
    send_raw(f->client, raw + 1, size - 1);
    take_pong(f, 2);
    assert_int_equal(service.file_count, 1);
    assert_true(is_closed_everywhere(&sent));
    close(sent.reading);
}

TEST(session, announced_and_not_sent_is_refused_and_the_connection_closed)
{
    struct fixture *f = *state;
    uint8_t raw[128];
    send_raw(f->client, raw, put_install_frame(raw, 9, "{}", 2));
    assert_refused(f, f->client, 9, "announces 2 descriptors, 0 came with it");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.handled, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
}

TEST(session, fewer_descriptors_than_announced_are_refused_and_closed)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    install(f, 9, 2, &sent, 1);
    assert_refused(f, f->client, 9, "announces 2 descriptors, 1 came with it");
    assert_true(is_closed(f, f->client));
    assert_true(is_closed_everywhere(&sent));
    assert_int_equal(service.handled, 0);
    close(sent.reading);
}

TEST(session, sent_and_not_announced_is_closed_unseen_and_the_request_handled)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    install(f, 9, 0, &sent, 1);
    take_pong(f, 9);
    assert_int_equal(service.file_count, 0);
    assert_true(is_closed_everywhere(&sent));
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
    close(sent.reading);
}

TEST(session, more_than_announced_is_refused_and_all_are_closed)
{
    struct fixture *f = *state;
    struct handed_over sent[2] = { make_one(), make_one() };
    install(f, 9, 1, sent, 2);
    assert_refused(f, f->client, 9, "announces 1 descriptors, 2 came with it");
    assert_true(is_closed(f, f->client));
    assert_true(is_closed_everywhere(&sent[0]));
    assert_true(is_closed_everywhere(&sent[1]));
    close(sent[0].reading);
    close(sent[1].reading);
}

TEST(session, more_than_a_request_may_have_is_refused_and_all_are_closed)
{
    struct fixture *f = *state;
    struct handed_over sent[5];
    for (int i = 0; i < 5; i++)
        sent[i] = make_one();
    install(f, 9, 5, sent, 5);
    assert_refused(f, f->client, 9, "(at most 2 may)");
    assert_true(is_closed(f, f->client));
    for (int i = 0; i < 5; i++) {
        assert_true(is_closed_everywhere(&sent[i]));
        close(sent[i].reading);
    }
    assert_int_equal(service.handled, 0);
}

/* As many as announced are kept, so that their number alone does not tell. */
TEST(session, one_more_than_may_be_announced_is_refused_and_all_are_closed)
{
    struct fixture *f = *state;
    struct handed_over sent[3] = { make_one(), make_one(), make_one() };
    install(f, 9, 2, sent, 3);
    assert_refused(f, f->client, 9, "announces 2 descriptors, 2 and more came with it");
    assert_true(is_closed(f, f->client));
    for (int i = 0; i < 3; i++) {
        assert_true(is_closed_everywhere(&sent[i]));
        close(sent[i].reading);
    }
    assert_int_equal(service.handled, 0);
}

TEST(session, a_peer_that_floods_with_files_holds_no_more_than_one_requests)
{
    struct fixture *f = *state;
    uint8_t raw[128];
    size_t size = put_frame(raw, MESSAGE_ping, 1, "0123456789012345678901234567890", 31);
    unsigned before = open_descriptors();
    struct handed_over sent[20];
    for (size_t i = 0; i < 20; i++) {
        sent[i] = make_one();
        send_files(f->client, raw + i, 1, &sent[i].writing, 1);
        close(sent[i].writing);
        loop_iteration(f->loop);
    }
    for (size_t i = 0; i + LIMIT_REQUEST_FILES < 20; i++) /* but those that are kept */
        assert_true(is_closed_everywhere(&sent[i + LIMIT_REQUEST_FILES]));
    send_raw(f->client, raw + 20, size - 20);
    take_pong(f, 1);
    for (size_t i = 0; i < 20; i++) {
        assert_true(is_closed_everywhere(&sent[i]));
        close(sent[i].reading);
    }
    assert_int_equal(open_descriptors(), before);
}

TEST(session, a_client_that_leaves_mid_frame_leaves_no_file_open)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    uint8_t raw[128];
    KILN_AUTO(fd) int other = join(f);
    put_install_frame(raw, 7, "{}", 1);
    send_files(other, raw, 10, &sent.writing, 1);
    close(sent.writing);
    loop_iteration(f->loop);
    assert_true(is_held(&sent));
    close(other);
    other = -1;
    LOOP_UNTIL(f->loop, service.left != 0);
    assert_true(is_closed_everywhere(&sent));
    close(sent.reading);
}

TEST(session, files_before_a_stream_that_makes_no_sense_are_closed)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    static const char junk[] = "this is not a frame, and never will be one";
    send_files(f->client, junk, sizeof(junk), &sent.writing, 1);
    close(sent.writing);
    assert_refused(f, f->client, 0, "not a kiln frame");
    assert_true(is_closed(f, f->client));
    assert_true(is_closed_everywhere(&sent));
    close(sent.reading);
}

TEST(session, files_of_a_request_that_the_service_ends_the_connection_over_are_closed)
{
    struct fixture *f = *state;
    struct handed_over sent = make_one();
    service.refuse = true;
    install(f, 1, 1, &sent, 1);
    assert_true(is_closed(f, f->client));
    assert_true(is_closed_everywhere(&sent));
    close(sent.reading);
}

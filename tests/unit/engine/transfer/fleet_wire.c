/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/transfer/fleet_wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
    int kilnd, process;
    struct kiln_err err;
};

SET_UP(set_up)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->kilnd = pair[0];
    f->process = pair[1];
}

TEAR_DOWN(tear_down)
{
    close(f->kilnd);
    if (f->process >= 0)
        close(f->process);
}

FIXTURE(wire, set_up, tear_down);

TEST_F(wire, a_request_arrives_as_it_was_sent)
{
    const struct fleet_request sent = {
        .id = 7, .name = "v1/p/00ff.pack", .offset = UINT32_MAX, .size = 5, .size_max = 6
    };
    struct fleet_request got;
    must(fleet_send_request(f->kilnd, &sent, &f->err), f->err);
    must(fleet_receive_request(f->process, &got, &f->err), f->err);
    assert_string_equal(got.name, sent.name);
    assert_true(got.id == 7 && got.offset == UINT32_MAX && got.size == 5 && got.size_max == 6);
    assert_int_equal(fleet_receive_request(f->process, &got, &f->err), KILN_BUSY);
}

TEST(plain, only_names_of_the_tree_are_requested)
{
    static const char *const bad[] = { "",      "/v1",  "v1//p",  "v1/",     "../key", "v1/../x",
                                       "v1/.x", "v1/P", "v1/a b", "v1/a%2f", "v1/a?b", "v1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(fleet_name_is_fine(bad[i]));
    assert_true(fleet_name_is_fine("v1/i/0123456789abcdef/current"));
    assert_true(fleet_name_is_fine("v1/p/00.pack"));
}

TEST_F(wire, an_answer_brings_its_file)
{
    struct fleet_answer got;
    char text[8] = "";
    struct fleet_answer sent = { .id = 9, .end = FLEET_END_DONE };
    must(fs_memfd("test", &sent.fd, &f->err), f->err);
    must(fs_write_all(sent.fd, bytes_of_text("file"), &f->err), f->err);
    must(fleet_send_answer(f->process, &sent, &f->err), f->err);
    close(sent.fd);
    must(fleet_receive_answer(f->kilnd, &got, &f->err), f->err);
    assert_true(got.id == 9 && got.end == FLEET_END_DONE);
    assert_int_equal(fs_read_at(got.fd, text, sizeof(text), 0), 4);
    assert_string_equal(text, "file");
    close(got.fd);
}

TEST_F(wire, a_failure_brings_no_file)
{
    const struct fleet_answer sent = { .id = 9, .end = FLEET_END_FORBIDDEN, .fd = -1 };
    struct fleet_answer got;
    must(fleet_send_answer(f->process, &sent, &f->err), f->err);
    must(fleet_receive_answer(f->kilnd, &got, &f->err), f->err);
    assert_int_equal(got.end, FLEET_END_FORBIDDEN);
    assert_int_equal(got.fd, -1);
}

TEST_F(wire, invalid_answers_are_refused)
{
    static const char *const bad[] = { "{\"id\":1,\"end\":99}", "{\"id\":1}",
                                       "{\"id\":1,\"end\":0,\"tag\":\"a\\u0001\"}",
                                       "{\"id\":1,\"end\":0,\"token\":\"\\n\"}", "rubbish" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fleet_answer got;
        assert_true(send(f->process, bad[i], strlen(bad[i]), 0) > 0);
        enum kiln_code rc = fleet_receive_answer(f->kilnd, &got, &f->err);
        assert_true(rc && rc != KILN_BUSY && rc != KILN_UNAVAILABLE);
    }
}

TEST_F(wire, an_answer_with_another_file_than_a_memory_file_is_refused)
{
    struct fleet_answer got, sent = { .id = 1, .end = FLEET_END_DONE };
    sent.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(sent.fd >= 0);
    must(fleet_send_answer(f->process, &sent, &f->err), f->err);
    close(sent.fd);
    assert_int_equal(fleet_receive_answer(f->kilnd, &got, &f->err), KILN_INVALID);
}

TEST_F(wire, a_put_brings_its_file)
{
    char text[8] = "";
    struct fleet_request got, sent = { .id = 3, .name = "v1/k/00", .is_put = true };
    must(fs_memfd("test", &sent.fd, &f->err), f->err);
    must(fs_write_all(sent.fd, bytes_of_text("file"), &f->err), f->err);
    must(fleet_send_request(f->kilnd, &sent, &f->err), f->err);
    close(sent.fd);
    must(fleet_receive_request(f->process, &got, &f->err), f->err);
    assert_true(got.is_put && got.id == 3);
    assert_int_equal(fs_read_at(got.fd, text, sizeof(text), 0), 4);
    assert_string_equal(text, "file");
    close(got.fd);
}

TEST_F(wire, a_put_without_a_file_is_refused)
{
    static const char text[] = "{\"id\":1,\"name\":\"v1/k\",\"put\":true}";
    struct fleet_request got;
    assert_true(send(f->kilnd, text, strlen(text), 0) > 0);
    assert_int_equal(fleet_receive_request(f->process, &got, &f->err), KILN_INVALID);
}

TEST_F(wire, a_request_for_a_list_arrives_as_it_was_sent)
{
    const struct fleet_request sent = {
        .name = "v1/k", .is_list = true, .token = "a+/=", .fd = -1
    };
    struct fleet_request got;
    must(fleet_send_request(f->kilnd, &sent, &f->err), f->err);
    must(fleet_receive_request(f->process, &got, &f->err), f->err);
    assert_true(got.is_list && !got.is_put);
    assert_string_equal(got.token, sent.token);
}

TEST_F(wire, a_replacement_names_the_tag_of_the_old_file)
{
    struct fleet_request got,
        sent = { .name = "v1/i/00/current", .is_put = true, .is_replace = true, .tag = "ab-1" };
    must(fs_memfd("test", &sent.fd, &f->err), f->err);
    must(fleet_send_request(f->kilnd, &sent, &f->err), f->err);
    close(sent.fd);
    must(fleet_receive_request(f->process, &got, &f->err), f->err);
    close(got.fd);
    assert_true(got.is_put && got.is_replace);
    assert_string_equal(got.tag, "ab-1");
}

TEST_F(wire, a_tag_that_could_forge_a_header_is_refused)
{
    static const char text[] = "{\"id\":1,\"name\":\"v1/k\",\"tag\":\"a\\r\\nX: y\"}";
    struct fleet_request got;
    assert_true(send(f->kilnd, text, strlen(text), 0) > 0);
    assert_int_equal(fleet_receive_request(f->process, &got, &f->err), KILN_INVALID);
}

TEST_F(wire, a_closed_socket_is_the_end)
{
    struct fleet_answer got;
    close(f->process);
    f->process = -1;
    assert_int_equal(fleet_receive_answer(f->kilnd, &got, &f->err), KILN_UNAVAILABLE);
}

TEST_F(wire, the_set_up_names_the_tree)
{
    const struct fleet_setup sent = { "https://example.org/fleet", true };
    struct fleet_setup got;
    must(fleet_send_setup(f->kilnd, &sent, &f->err), f->err);
    must(fleet_receive_setup(f->process, &got, &f->err), f->err);
    assert_string_equal(got.url, sent.url);
    assert_true(got.writes);
}

/* SPDX-License-Identifier: MIT */
#include "engine/transfer/transfer_wire.h"

#include "common/base/fs.h"
#include "tests/support/test_descriptors.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    int ours, theirs;
    struct kiln_err err;
};

SET_UP(set_up) { test_socket_pair(SOCK_SEQPACKET, &f->ours, &f->theirs); }

FIXTURE(transfer_wire, set_up, NULL);

static void say(struct fixture *f, const char *text)
{
    assert_int_equal(send(f->theirs, text, strlen(text), 0), (ssize_t)strlen(text));
}

static enum kiln_code hear(struct fixture *f, struct transfer_report *report)
{
    return transfer_receive_report(f->ours, report, &f->err);
}

static ino_t inode_of(int fd)
{
    struct stat seen;
    assert_int_equal(fstat(fd, &seen), 0);
    return seen.st_ino;
}

TEST_F(transfer_wire, a_job_arrives_as_it_was_sent)
{
    int content, manifest;
    must(fs_memfd("content", &content, &f->err), f->err);
    must(fs_memfd("manifest", &manifest, &f->err), f->err);
    const struct transfer_job sent = {
        .content_fd = content,
        .manifest_fd = manifest,
        .name = "gfx90a68.kdb.bz2",
        .sha256 = "00ff",
        .staging = "/staging",
        .trusted_keys = "/keys",
        .size_limit = 1ull << 50,
        .require_signature = true,
        .of_user = true,
        .unchecked = true,
    };
    struct received_job got;

    must(transfer_send_job(f->ours, &sent, &f->err), f->err);
    must(transfer_receive_job(f->theirs, &got, &f->err), f->err);

    assert_null(got.job.url);
    assert_string_equal(got.job.name, sent.name);
    assert_string_equal(got.job.sha256, sent.sha256);
    assert_string_equal(got.job.staging, sent.staging);
    assert_string_equal(got.job.trusted_keys, sent.trusted_keys);
    assert_int_equal(got.job.size_limit, sent.size_limit);
    assert_true(got.job.require_signature && got.job.of_user && got.job.unchecked);
    assert_int_equal(inode_of(got.job.content_fd), inode_of(content));
    assert_int_equal(inode_of(got.job.manifest_fd), inode_of(manifest));
    assert_true(fcntl(got.job.content_fd, F_GETFD) & FD_CLOEXEC);
    received_job_done(&got);
    close(content);
    close(manifest);
}

TEST_F(transfer_wire, a_manifest_alone_is_not_taken_for_the_content)
{
    int manifest;
    must(fs_memfd("manifest", &manifest, &f->err), f->err);
    const struct transfer_job sent = { .url = "https://h/x.kdb",
                                       .content_fd = -1,
                                       .manifest_fd = manifest,
                                       .staging = "/staging",
                                       .trusted_keys = "/keys" };
    struct received_job got;

    must(transfer_send_job(f->ours, &sent, &f->err), f->err);
    must(transfer_receive_job(f->theirs, &got, &f->err), f->err);

    assert_string_equal(got.job.url, sent.url);
    assert_int_equal(got.job.content_fd, -1);
    assert_int_equal(inode_of(got.job.manifest_fd), inode_of(manifest));
    received_job_done(&got);
    close(manifest);
}

TEST_F(transfer_wire, an_invalid_transfer_job_is_refused)
{
    static const char *const texts[] = {
        "",
        "nonsense",
        "{}",
        "[1]",
        "{\"staging\":\"/s\"}",
        "{\"staging\":\"/s\",\"trusted_keys\":\"/k\",\"content\":true}",
        "{\"staging\":1,\"trusted_keys\":2}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct received_job got;
        assert_true(send(f->ours, texts[i], strlen(texts[i]), 0) >= 0);
        assert_int_equal(transfer_receive_job(f->theirs, &got, &f->err), KILN_INVALID);
    }
}

TEST_F(transfer_wire, a_url_too_long_for_a_packet_is_refused_by_the_sender)
{
    static char url[40000];
    memset(url, 'a', sizeof(url) - 1);
    const struct transfer_job sent = { .url = url,
                                       .content_fd = -1,
                                       .manifest_fd = -1,
                                       .staging = "/staging",
                                       .trusted_keys = "/keys" };

    assert_int_equal(transfer_send_job(f->ours, &sent, &f->err), KILN_INVALID);

    assert_says(f->err.text, "too long");
}

TEST_F(transfer_wire, progress_arrives_as_it_was_sent)
{
    const struct transfer_progress reported = {
        .stage = "fetching", .done = 7, .total = 1ull << 40, .attempt = 3, .note = "cut"
    };
    struct transfer_report got;

    transfer_send_progress(f->theirs, &reported);
    must(hear(f, &got), f->err);

    assert_false(got.ended);
    assert_string_equal(got.progress.stage, "fetching");
    assert_int_equal(got.progress.done, 7);
    assert_int_equal(got.progress.total, 1ull << 40);
    assert_int_equal(got.progress.attempt, 3);
    assert_string_equal(got.progress.note, "cut");
}

TEST_F(transfer_wire, a_result_arrives_as_it_was_sent)
{
    struct transfer_result reported = {
        .name = "gfx90a68.kdb",
        .sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .signer = "amd",
        .source = "https://h/x.kdb",
        .fetched = "gfx90a68.kdb.bz2",
        .size = 5,
        .rows = 6,
    };
    struct transfer_report got;

    transfer_send_result(f->theirs, &reported, "look");
    must(hear(f, &got), f->err);

    assert_true(got.ended);
    assert_int_equal(got.result.err.code, KILN_OK);
    assert_string_equal(got.result.name, reported.name);
    assert_string_equal(got.result.sha256, reported.sha256);
    assert_string_equal(got.result.signer, reported.signer);
    assert_string_equal(got.result.source, reported.source);
    assert_string_equal(got.result.fetched, reported.fetched);
    assert_int_equal(got.result.size, 5);
    assert_int_equal(got.result.rows, 6);
    assert_string_equal(got.notice, "look");
}

TEST_F(transfer_wire, a_failure_arrives_with_its_message)
{
    struct transfer_result reported = { .err = { .code = KILN_CORRUPT,
                                                 .text = "row 7 is damaged" } };
    struct transfer_report got;

    transfer_send_result(f->theirs, &reported, "");
    must(hear(f, &got), f->err);

    assert_int_equal(got.result.err.code, KILN_CORRUPT);
    assert_string_equal(got.result.err.text, "row 7 is damaged");
}

#define GOOD_TAIL                                                                           \
    "\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","      \
    "\"signer\":\"\",\"source\":\"\",\"fetched\":\"\",\"text\":\"\",\"size\":1,\"rows\":1," \
    "\"damaged\":0,"                                                                        \
    "\"notice\":\"\"}"

TEST_F(transfer_wire, a_malformed_report_is_refused)
{
    static const char *const texts[] = {
        "nonsense",
        "{}",
        "[]",
        "{\"code\":0}",
        "{\"stage\":7,\"note\":\"\"}",
        "{\"code\":0,\"name\":\"../kernels.db\"," GOOD_TAIL,
        "{\"code\":0,\"name\":\".hidden\"," GOOD_TAIL,
        "{\"code\":0,\"name\":\"\"," GOOD_TAIL,
        "{\"code\":0,\"name\":7," GOOD_TAIL,
        "{\"code\":99,\"name\":\"x.kdb\"," GOOD_TAIL,
        "{\"code\":6,\"name\":\"x.kdb\"," GOOD_TAIL,
        "{\"code\":0,\"name\":\"x.kdb\",\"sha256\":\"ff\",\"signer\":\"\",\"source\":\"\","
        "\"text\":\"\",\"notice\":\"\"}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct transfer_report got;
        say(f, texts[i]);
        if (hear(f, &got) != KILN_INVALID)
            fail_msg("'%s' was taken", texts[i]);
    }
}

TEST_F(transfer_wire, a_result_with_a_valid_name_is_accepted)
{
    struct transfer_report got;

    say(f, "{\"code\":0,\"name\":\"x.kdb\"," GOOD_TAIL);

    must(hear(f, &got), f->err);
}

TEST_F(transfer_wire, control_characters_do_not_reach_a_terminal)
{
    struct transfer_report got;

    say(f, "{\"stage\":\"fetch\\u001b[2J\",\"note\":\"a\\nb\\u007f\"}");
    must(hear(f, &got), f->err);

    assert_string_equal(got.progress.stage, "fetch?[2J");
    assert_string_equal(got.progress.note, "a?b?");
}

TEST_F(transfer_wire, no_report_and_the_end_have_different_codes)
{
    struct transfer_report got;

    assert_int_equal(hear(f, &got), KILN_BUSY);
    fd_close(&f->theirs);
    assert_int_equal(hear(f, &got), KILN_UNAVAILABLE);
}

TEST_F(transfer_wire, progress_is_dropped_rather_than_waited_for)
{
    const struct transfer_progress reported = { .stage = "fetching", .attempt = 1, .note = "" };
    struct transfer_report got;
    unsigned heard = 0;

    for (int i = 0; i < 10000; i++)
        transfer_send_progress(f->theirs, &reported);

    while (hear(f, &got) == KILN_OK)
        heard++;
    assert_in_range(heard, 1, 9999);
}

TEST_F(transfer_wire, a_snapshot_arrives_with_its_descriptor)
{
    struct snapshot taken = { .fd = -1, .name = "gfx906_60.ukdb", .merged = true, .note = "" };
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char text[1024];
    struct iovec part = { .iov_base = text, .iov_len = sizeof(text) };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    must(fs_memfd("snapshot", &taken.fd, &f->err), f->err);

    transfer_send_snapshot(f->theirs, &taken, &f->err);
    ssize_t size = recvmsg(f->ours, &message, MSG_CMSG_CLOEXEC);

    assert_true(size > 0);
    KILN_AUTO(json) struct json *json = NULL;
    must(json_parse(bytes_of(text, (size_t)size), "snapshot", &json, &f->err), f->err);
    assert_int_equal(json_get_u64(json, "code", 99), 0);
    assert_string_equal(json_get_text(json, "name", ""), "gfx906_60.ukdb");
    assert_true(json_get_bool(json, "merged", false));
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    assert_int_equal(inode_of(fd), inode_of(taken.fd));
    close(fd);
    close(taken.fd);
}

/* SPDX-License-Identifier: MIT */
/* Tests kilnd with reports and answers of a hostile kiln-transfer, and kiln-transfer with hostile
 * jobs and requests. */
#include "tests/fuzz/fuzz.h"

#include "engine/transfer/fleet_wire.h"
#include "engine/transfer/transfer_wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES_MAX 4

static bool send_packet(int socket, struct bytes packet, unsigned file_count)
{
    int files[FILES_MAX];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(files))];
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)packet.data, packet.size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (file_count > 0) {
        for (unsigned i = 0; i < file_count; i++)
            files[i] = socket;
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(file_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(file_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), files, file_count * sizeof(int));
    }
    return sendmsg(socket, &message, 0) >= 0;
}

static void receive_job(int socket)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct received_job job;
    if (transfer_receive_job(socket, &job, &err))
        return;
    fuzz_expect(job.job.staging && job.job.trusted_keys, "a job has its directories");
    received_job_done(&job);
}

static void receive_report(int socket)
{
    struct kiln_err err = KILN_ERR_INIT;
    static struct transfer_report report;
    if (transfer_receive_report(socket, &report, &err))
        return;
    if (!report.ended) {
        fuzz_expect(report.progress.stage && report.progress.note, "progress has its texts");
        return;
    }
    const struct transfer_result *o = &report.result;
    fuzz_expect(o->err.code != KILN_OK || transfer_is_file_name(o->name), "a file has a name");
    fuzz_expect(memchr(o->source, '\0', sizeof(o->source)) &&
                    memchr(o->signer, '\0', sizeof(o->signer)),
                "texts are terminated");
}

static void receive_setup(int socket)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_setup setup;
    if (fleet_receive_setup(socket, &setup, &err) == KILN_OK)
        fuzz_expect(memchr(setup.url, '\0', sizeof(setup.url)), "the URL is terminated");
}

static void receive_request(int socket)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_request request;
    if (fleet_receive_request(socket, &request, &err))
        return;
    fuzz_expect(fleet_name_is_fine(request.name), "a request names a file of the tree");
    fuzz_expect(request.is_put == (request.fd >= 0), "a request has a file if it adds one");
    if (request.fd >= 0)
        close(request.fd);
}

static void receive_answer(int socket)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct fleet_answer answer;
    if (fleet_receive_answer(socket, &answer, &err))
        return;
    fuzz_expect(answer.end < FLEET_ENDS, "the end is one of the ends");
    fuzz_expect(answer.end == FLEET_END_DONE || answer.fd < 0, "a failure has no file");
    if (answer.fd >= 0)
        close(answer.fd);
}

static void receive(int socket, unsigned how)
{
    static void (*const receivers[])(int) = {
        receive_report, receive_job, receive_answer, receive_request, receive_setup,
    };
    receivers[how & 0x80 ? 2 + (how >> 5) % 3 : how & 1](socket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    unsigned how = reader_u8(&r);
    unsigned before = fuzz_descriptors();
    int ends[2];
    fuzz_expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair");
    if (send_packet(ends[0], fuzz_rest(&r), (how >> 1) % (FILES_MAX + 1)))
        receive(ends[1], how);
    close(ends[0]);
    close(ends[1]);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}

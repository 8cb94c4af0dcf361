/* SPDX-License-Identifier: MIT */
/* Hostile reports for kilnd, and hostile jobs for kiln-transfer. */
#include "tests/fuzz/fuzz.h"

#include "engine/transfer/transfer_wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    unsigned how = reader_u8(&r);
    unsigned before = fuzz_descriptors();
    int ends[2];
    fuzz_expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair");
    if (send_packet(ends[0], fuzz_rest(&r), (how >> 1) % (FILES_MAX + 1))) {
        if (how & 1)
            receive_job(ends[1]);
        else
            receive_report(ends[1]);
    }
    close(ends[0]);
    close(ends[1]);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}

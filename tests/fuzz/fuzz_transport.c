/* SPDX-License-Identifier: MIT */
/* Tests libkiln's receiver of frames with a hostile stream, which arrives in pieces and with
 * descriptors. */
#include "tests/fuzz/fuzz.h"

#include "common/base/clock.h"
#include "libclient/connection/transport_socket.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define FILES_MAX 8

static int some_file(void)
{
    static int fd = -1;
    if (fd < 0)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    fuzz_expect(fd >= 0, "a file");
    return fd;
}

static bool send_piece(int socket, struct bytes piece, unsigned file_count)
{
    int files[FILES_MAX];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(files))];
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)piece.data, piece.size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    for (unsigned i = 0; i < file_count; i++)
        files[i] = some_file();
    if (file_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(file_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(file_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), files, file_count * sizeof(int));
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)piece.size;
}

static bool receive_all(struct transport *transport)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct transport_frame frame;
    enum kiln_code rc;
    while (!(rc = transport->ops->receive(transport, clock_monotonic_ns(), &frame, &err))) {
        fuzz_expect(frame.body.size == frame.header.body_size, "a body is as long as it says");
        fuzz_expect(frame.descriptor_count == frame.header.descriptors,
                    "as many descriptors as it says");
        /* the caller may take a descriptor; the next receive closes the others */
        if (frame.descriptor_count > 1) {
            close(frame.descriptors[0]);
            frame.descriptors[0] = -1;
        }
        transport_frame_done(&frame);
    }
    return rc == KILN_TIMED_OUT || rc == KILN_BUSY;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(bytes_of(data, size));
    struct transport *transport = NULL;
    (void)some_file();
    unsigned before = fuzz_descriptors();
    int ends[2];
    fuzz_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
                "a socket pair");
    fuzz_expect(transport_socket_adopt(ends[1], &transport, &err) == KILN_OK, "a transport");
    bool lasts = true;
    while (lasts && reader_left(&r) > 0) {
        unsigned files = reader_u8(&r) % (FILES_MAX + 1);
        struct bytes piece = fuzz_part(&r);
        lasts = piece.size == 0 || (send_piece(ends[0], piece, files) && receive_all(transport));
    }
    close(ends[0]);
    if (lasts)
        fuzz_expect(!receive_all(transport), "the end of a stream is seen");
    transport_destroy(transport);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}

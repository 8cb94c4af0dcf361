/* SPDX-License-Identifier: MIT */
/* Descriptors that an earlier kilnd left with the service manager: any packets, any descriptors. */
#include "tests/fuzz/fuzz.h"

#include "daemon/manager/parcel.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define FILES_MOST 8
#define PACKETS_MOST 16

static bool send_packet(int socket, struct reader *r)
{
    int files[FILES_MOST];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(files))];
    } control = { 0 };
    unsigned count = reader_u8(r) % (FILES_MOST + 1);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = reader_u8(r);
        files[i] = kind & 1 ? fuzz_memfd(fuzz_part(r), !(kind & 2))
                            : open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    struct bytes content = fuzz_part(r);
    struct iovec iov = { (void *)(uintptr_t)content.data, content.size };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), files, count * sizeof(int));
    }
    bool sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    for (unsigned i = 0; i < count; i++)
        close(files[i]);
    return sent;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(bytes_of(data, size));
    struct parcel parcel = { 0 };
    unsigned before = fuzz_descriptors();
    int ends[2];
    int type = reader_u8(&r) % 8 ? SOCK_SEQPACKET : SOCK_STREAM;
    fuzz_expect(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair");
    for (unsigned i = 0; i < PACKETS_MOST && reader_left(&r) > 0; i++) {
        if (!send_packet(ends[1], &r))
            break;
    }
    if (parcel_unpack(ends[0], &parcel, &err) == KILN_OK)
        fuzz_expect(parcel.count <= PARCEL_FILES_MOST, "no more descriptors than fit");
    parcel_done(&parcel);
    close(ends[0]);
    close(ends[1]);
    fuzz_expect(fuzz_descriptors() == before, "no descriptor stays open");
    return 0;
}

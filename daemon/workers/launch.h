/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What passes between kilnd and kiln-launch.
 *
 * Role       one SOCK_SEQPACKET connection a process, each message one packet:
 *
 *   kilnd -> kiln-launch   request   the arguments, with what becomes the process's descriptor 3
 *                                    and, if it is given one, the directory to start it in
 *   kiln-launch -> kilnd   started   its pid, and the user that it runs as
 *   kiln-launch -> kilnd   ended     its exit status, and the signal that ended it
 *
 *            That kilnd shuts down its side, by whatever end, asks for SIGKILL; "ended" still comes
 * Ownership  see each call
 * Threading  one thread a connection
 */
#include "common/err.h"

#include <stdint.h>
#include <sys/types.h>

#define LAUNCH_ARGUMENTS_MAX 16
#define LAUNCH_PACKET_MAX 4096

struct launch_request {
    const char *const *arguments; /* NULL-terminated, with the program's name first */
    int fd_3, directory;          /* borrowed; directory -1: where kiln-launch is */
};

/* Does not wait: KILN_UNAVAILABLE, saying what to look at, where nobody listens. */
KILN_MUST_CHECK enum kiln_code launch_connect(const char *service, int *ret_control,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code launch_send_request(int control,
                                                   const struct launch_request *request,
                                                   struct kiln_err *err);

struct launch_received {
    char text[LAUNCH_PACKET_MAX];
    char *arguments[LAUNCH_ARGUMENTS_MAX + 1]; /* into |text| */
    int fd_3, directory;                       /* owned by the receiver; directory -1: none */
};
/* Waits.  KILN_NOT_FOUND, without a sentence, when kilnd went before it asked for anything. */
KILN_MUST_CHECK enum kiln_code launch_receive_request(int control,
                                                      struct launch_received *ret_request,
                                                      struct kiln_err *err);

enum launch_news { LAUNCH_STARTED = 1, LAUNCH_ENDED = 2 };
struct launch_report {
    uint32_t news;
    uint32_t pid, uid;       /* of LAUNCH_STARTED */
    int32_t status, signal_; /* of LAUNCH_ENDED */
};
/* Lost when kilnd is gone: then nobody wants to know. */
void launch_send_report(int control, const struct launch_report *report);
/* Does not wait: KILN_BUSY when there is none now, KILN_UNAVAILABLE when none will come,
 * KILN_INVALID for nonsense, all without a sentence. */
KILN_MUST_CHECK enum kiln_code launch_receive_report(int control, struct launch_report *ret_report);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd and kiln-launch.
 *
 * Role       one SOCK_SEQPACKET connection for each process, one packet for each message:
 *
 *   kilnd -> kiln-launch   request   the arguments, the process's descriptor 3 and, optionally, its
 *                                    working directory
 *   kiln-launch -> kilnd   started   its pid, and the user that it runs as
 *   kiln-launch -> kilnd   ended     its exit status, and the signal that ended it
 *
 *            When kilnd shuts down or closes its end, kiln-launch sends SIGKILL to the process;
 *            "ended" still follows
 * Ownership  see each call
 * Threading  one thread for each connection
 */
#include "common/base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define LAUNCH_ARGUMENTS_MAX 16
#define LAUNCH_PACKET_MAX 4096

struct launch_request {
    const char *const *arguments; /* NULL-terminated, with the program's name first */
    int fd_3, directory;          /* borrowed; directory -1: that of kiln-launch */
};

/* Does not wait.  KILN_UNAVAILABLE when nothing listens at |service|; the message says what to
 * check. */
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
/* Waits.  KILN_NOT_FOUND, without a message, when kilnd closed the connection before any
 * request. */
KILN_MUST_CHECK enum kiln_code launch_receive_request(int control,
                                                      struct launch_received *ret_request,
                                                      struct kiln_err *err);

enum launch_report_kind { LAUNCH_STARTED = 1, LAUNCH_ENDED = 2 };
struct launch_report {
    uint32_t kind;           /* a launch_report_kind */
    uint32_t pid, uid;       /* of LAUNCH_STARTED */
    int32_t status, signal_; /* of LAUNCH_ENDED */
};
/* The report is dropped if kilnd is gone. */
void launch_send_report(int control, const struct launch_report *report);
/* Does not wait.  Never sets a message: KILN_BUSY when no report is here yet, KILN_UNAVAILABLE
 * when none will come, KILN_INVALID for a malformed one. */
KILN_MUST_CHECK enum kiln_code launch_receive_report(int control, struct launch_report *ret_report);

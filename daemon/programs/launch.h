/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd and kiln-launch.
 *
 * Role       Each process has one SOCK_SEQPACKET connection, and each message is one packet:
 *
 *   kilnd -> kiln-launch   request   the arguments, the process's descriptor 3 and, optionally, its
 *                                    working directory
 *   kiln-launch -> kilnd   started   its pid, and the user that it runs as
 *   kiln-launch -> kilnd   ended     its exit status, and the signal that ended it
 *
 *            When kilnd shuts down or closes its end, kiln-launch sends SIGKILL to the process;
 *            "ended" is still sent
 * Ownership  documented at each call
 * Threading  one thread for each connection
 */
#include "common/base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define LAUNCH_ARGUMENTS_MAX 16
#define LAUNCH_PACKET_MAX 4096

struct launch_request {
    const char *const *arguments;
    /* Borrowed; a |directory| of -1 keeps the working directory of kiln-launch. */
    int fd_3, directory;
};

/* Never waits.  Returns KILN_UNAVAILABLE if nothing listens at |service|. */
KILN_MUST_CHECK enum kiln_code launch_connect(const char *service, int *ret_control,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code launch_send_request(int control,
                                                   const struct launch_request *request,
                                                   struct kiln_err *err);

struct launch_received {
    char text[LAUNCH_PACKET_MAX];
    char *arguments[LAUNCH_ARGUMENTS_MAX + 1];
    /* Owned by the receiver; |directory| may be -1. */
    int fd_3, directory;
};
/* Returns KILN_NOT_FOUND, without a message, if kilnd closed the connection before a request. */
KILN_MUST_CHECK enum kiln_code launch_receive_request(int control,
                                                      struct launch_received *ret_request,
                                                      struct kiln_err *err);

enum launch_report_kind { LAUNCH_STARTED = 1, LAUNCH_ENDED = 2 };
struct launch_report {
    uint32_t kind;
    uint32_t pid, uid;
    int32_t status, signal_; /* for LAUNCH_ENDED */
};
/* Drops the report if kilnd has ended. */
void launch_send_report(int control, const struct launch_report *report);
/* Never waits.  Returns KILN_BUSY if no report has come yet, KILN_UNAVAILABLE if none will come,
 * and KILN_INVALID if it is malformed, all without a message. */
KILN_MUST_CHECK enum kiln_code launch_receive_report(int control, struct launch_report *ret_report);

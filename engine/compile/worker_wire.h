/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The protocol between kilnd and a kiln-compiler process.
 *
 * Role       There is one SOCK_SEQPACKET pair for each worker.  A message is one small packet, and
 *            large data is passed as memfds, so neither side parses a stream
 * Ownership  documented at each call
 * Threading  one thread for each socket
 *
 *   worker -> kilnd   ready   once: the layers of its sandbox, and why others are missing
 *   kilnd -> worker   job     + 3 memfds: the job's bytes (sealed), an empty object file and an
 *                             empty log file
 *   worker -> kilnd   result  the object and log files are now filled
 *
 * The daemon keeps its own descriptors of the three files, so it can read the log of a worker that
 * died.
 */
#include "engine/compile/compile_job.h"
#include "engine/sandbox/layers.h"

enum worker_message { WORKER_READY = 1, WORKER_RESULT = 2 };

struct worker_result { /* not trusted */
    enum compile_end end;
    char text[512];
    uint64_t cpu_ns;
    uint64_t peak_rss;
    struct sandbox_report sandbox; /* only for WORKER_READY */
};

struct worker_files {
    int object_fd;
    int log_fd;
};

KILN_MUST_CHECK enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                                               struct worker_files *ret_files,
                                               struct kiln_err *err);
/* For the daemon: receives one message, without blocking. Returns KILN_BUSY if no message has
 * arrived, and KILN_UNAVAILABLE if the worker closed its end. WORKER_READY only fills
 * |ret_result->sandbox|. */
KILN_MUST_CHECK enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                                              struct worker_result *ret_result,
                                              struct kiln_err *err);
/* For the daemon: creates a compile result and closes both files. If the worker died, |result| is
 * NULL, and |end| and |text| say how it died. Rejects a file that cannot be sealed. Leaves out the
 * middle of a log longer than LIMIT_COMPILE_LOG. */
void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result);

struct compiler_worker_options {
    int socket_fd;
    unsigned max_jobs;
    uint64_t cpu_s; /* CPU seconds of one job; 0: unlimited */
    const struct sandbox_report *sandbox;
    const char *limits, *user;
};

/* For the worker: serves jobs until the daemon closes the socket or |max_jobs| are done.  Returns
 * the process's exit status. */
int compiler_worker_serve(const struct compiler_worker_options *options);

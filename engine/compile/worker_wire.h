/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The protocol between kilnd and a kiln-compiler process.
 *
 * Role       one SOCK_SEQPACKET pair for each worker.  Each message is one small packet and bulk
 *            data goes by memfd, so neither side parses a stream
 *
 * Ownership  see each call
 * Threading  one thread for each socket
 *
 *   worker -> kilnd   ready   once, after start: the layers of its sandbox, and why others are
 *                             missing
 *   kilnd -> worker   job     + 3 memfds: the job's bytes (sealed), an empty object file and an
 *                             empty log file
 *   worker -> kilnd   result  the object and log files are now filled
 *
 * The daemon keeps its own descriptors of the object and log files, so it can still read the log of
 * a worker that died.
 */
#include "engine/compile/compile_job.h"
#include "engine/sandbox/layers.h"

enum worker_message { WORKER_READY = 1, WORKER_RESULT = 2 };

struct worker_result { /* as received: untrusted */
    enum compile_end end;
    char text[512];
    uint64_t cpu_ns;
    uint64_t peak_rss;
    struct sandbox_report sandbox; /* of WORKER_READY */
};

struct worker_files { /* owned by the sender of the job */
    int object_fd;
    int log_fd;
};

/* Daemon's side.  Writes |job| to a memfd and sends it; the daemon keeps |ret_files|. */
KILN_MUST_CHECK enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                                               struct worker_files *ret_files,
                                               struct kiln_err *err);
/* Daemon's side, does not block.  KILN_BUSY when no message has arrived, KILN_UNAVAILABLE when
 * the worker closed its end.  WORKER_RESULT fills |ret_result|;  WORKER_READY only its
 * |sandbox|. */
KILN_MUST_CHECK enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                                              struct worker_result *ret_result,
                                              struct kiln_err *err);
/* Daemon's side.  Makes a compile result from files and worker result.  |result| is NULL when
 * the worker died;  |end| and |text| then say how.  Seals the object (a file that cannot be
 * sealed is refused) and reads the log, cutting its middle beyond LIMIT_COMPILE_LOG.  Closes
 * both files. */
void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result);

struct compiler_worker_options {
    int socket_fd;                        /* borrowed */
    unsigned max_jobs;                    /* 0: unlimited */
    uint64_t cpu_s;                       /* CPU time of one job; 0: unlimited */
    const struct sandbox_report *sandbox; /* borrowed: reported to kilnd */
    /* Arguments to pass to a process that replaces this one;  NULL: none. */
    const char *limits, *user;
};

/* Worker's side: reports ready, then serves jobs from the socket until the daemon closes it or
 * |max_jobs| are done.  Returns the process's exit status. */
int compiler_worker_serve(const struct compiler_worker_options *options);

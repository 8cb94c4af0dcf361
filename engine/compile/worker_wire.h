/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The protocol between kilnd and a kiln-compiler process.
 *
 * Role       sends and receives messages.  There is one SOCK_SEQPACKET pair for each worker.  A
 *            message is one small packet, and large data is passed as memfds, so neither side
 *            parses a stream
 *
 * Ownership  documented at each call
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

struct worker_result { /* a received result, which is not trusted */
    enum compile_end end;
    char text[512];
    uint64_t cpu_ns;
    uint64_t peak_rss;
    struct sandbox_report sandbox; /* only for WORKER_READY */
};

struct worker_files { /* owned by the process that sends the job */
    int object_fd;
    int log_fd;
};

/* For the daemon: writes |job| to a memfd and sends it.  The daemon owns |ret_files|. */
KILN_MUST_CHECK enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                                               struct worker_files *ret_files,
                                               struct kiln_err *err);
/* For the daemon: receives a message without blocking.  Returns KILN_BUSY if none has arrived, and
 * KILN_UNAVAILABLE if the worker closed its end.  WORKER_RESULT fills |ret_result|; WORKER_READY
 * only fills its |sandbox|. */
KILN_MUST_CHECK enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                                              struct worker_result *ret_result,
                                              struct kiln_err *err);
/* For the daemon: creates a compile result from the files and the worker's result.  If the worker
 * died, |result| is NULL, and |end| and |text| say how it died.  Seals the object; a file that
 * cannot be sealed is rejected.  Reads the log; if it is longer than LIMIT_COMPILE_LOG, leaves out
 * its middle.  Closes both files. */
void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result);

struct compiler_worker_options {
    int socket_fd;                        /* borrowed */
    unsigned max_jobs;                    /* 0 means unlimited */
    uint64_t cpu_s;                       /* CPU time of one job in seconds; 0 means unlimited */
    const struct sandbox_report *sandbox; /* borrowed; the layers that are reported to kilnd */
    /* Arguments to pass to a process that replaces this one, or NULL. */
    const char *limits, *user;
};

/* For the worker: reports that it is ready, then serves jobs from the socket until the daemon
 * closes it or |max_jobs| are done.  Returns the process's exit status. */
int compiler_worker_serve(const struct compiler_worker_options *options);

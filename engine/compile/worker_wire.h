/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What passes between kilnd and a kiln-compiler process.
 *
 * Role       one SOCK_SEQPACKET pair a worker; each message is one small packet, bulk
 *            data goes by memfd, so neither side ever parses a stream
 * Ownership  see each call
 * Threading  one thread a socket
 *
 *   worker -> kilnd   ready                 once, after start: which layers its sandbox has, and
 * why it lacks others kilnd -> worker   job      + 3 memfds   the job's bytes (sealed), an empty
 * object file, an empty log file worker -> kilnd   result                the same three files are
 * now filled
 *
 * The daemon keeps its own descriptors of the object and log files, so that the log of a
 * worker that died is still there to read.
 */
#include "engine/compile/compile_job.h"
#include "engine/sandbox/layers.h"

enum worker_message { WORKER_READY = 1, WORKER_RESULT = 2 };

struct worker_result { /* as received; nothing in it is trusted */
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

/* Daemon's side.  Packs |job| into a memfd and sends it; |ret_files| are the daemon's own. */
KILN_MUST_CHECK enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                                               struct worker_files *ret_files,
                                               struct kiln_err *err);
/* Daemon's side, does not block: KILN_BUSY when nothing is there yet, KILN_UNAVAILABLE when the
 * worker closed its end.  |ret_result| is filled for WORKER_RESULT; of WORKER_READY it has
 * |sandbox|. */
KILN_MUST_CHECK enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                                              struct worker_result *ret_result,
                                              struct kiln_err *err);
/* Daemon's side.  Turns files and result (NULL when the worker died: |end| and |text| then say
 * how) into an outcome: seals the object (a file that cannot be sealed is refused), reads the
 * log, cuts its middle out beyond LIMIT_COMPILE_LOG.  Closes both files. */
void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result);

struct compiler_worker_options {
    int socket_fd;                        /* borrowed */
    unsigned max_jobs;                    /* 0: no end */
    uint64_t cpu_s;                       /* processor time of one job; 0: no bound */
    const struct sandbox_report *sandbox; /* borrowed: what kilnd is told */
    /* Arguments that a process which replaces this one is given too; NULL: none. */
    const char *limits, *user;
};

/* Worker's side: says that it is ready, then serves jobs from the socket until the daemon closes
 * it or |max_jobs| are done; returns the process's exit status. */
int compiler_worker_serve(const struct compiler_worker_options *options);

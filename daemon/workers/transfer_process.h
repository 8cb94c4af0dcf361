/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-transfer process and its one job.
 *
 * Role       Every end, even a crash, becomes a result with one file, or a failure that leaves no
 *            file
 * Ownership  frees itself after |gone|; borrows options, and the task until |ended|
 * Threading  the loop's thread; no callback runs from within a call
 *
 *   PREPARING --directory made--> RUNNING --exit--> CLEARING --directory removed--> ended, gone
 *   PREPARING --stopped, or it cannot be started---^
 *   RUNNING --killed, and still there--> ended --exit, or abandoned--> CLEARING --> gone
 *
 * SIGKILL does not end a process that waits for a filesystem which does not answer.  Such a process
 * is detached: its task ends without waiting for it.
 */
#include "daemon/loop/work_queues.h"
#include "daemon/workers/take_file.h"
#include "daemon/workers/worker_process.h"
#include "daemon/workers/worker_user.h"

#include <stdatomic.h>

#define TRANSFER_DIRECTORY_MAX 512

struct transfer_process;

struct transfer_process_options {
    struct loop *loop;
    struct work_queues *work_queues;
    const char *program;
    /* Borrowed; path of the socket of the unit that starts the process; "": none. */
    const char *service;
    struct worker_user user;
    unsigned disk_part;  /* see struct transfer_job */
    uint64_t timeout_ms; /* the maximum wall-clock time of one transfer */
    /* Time without progress after which the process is killed. */
    uint64_t silence_ms;
    /* How long the process may take to end: after it sent its result, and after SIGKILL. */
    uint64_t exit_ms;
    /* Called when the task's result is complete; a detached process may still exist. */
    void (*ended)(struct transfer_process *process);
    void (*gone)(struct transfer_process *process);
};

enum transfer_stop {
    STOP_NOT,
    STOP_CANCELLED,
    STOP_SHUTDOWN,
    STOP_DEADLINE,
    STOP_SILENCE,
    STOP_NONSENSE,
};

struct transfer_process {
    const struct transfer_process_options *options;
    void *context;              /* for |ended| and |gone| */
    struct transfer_task *task; /* borrowed; NULL after the task has ended */
    uid_t uid;
    struct task work; /* creates and removes the directory */
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline, silence, killed;
    int socket; /* owned; -1 when closed */
    bool running, reported, is_stuck;
    enum transfer_stop stop;
    /* Why the file must not be copied (enum transfer_stop); 0: it may be copied. */
    atomic_int unwanted;
    /* Path of the file that the process made: |directory|, "/" and a name of at most 255 bytes. */
    char made[TRANSFER_DIRECTORY_MAX + 256];
    struct file_take take;
    bool takes_more;
    struct kiln_err kept; /* names a file that could not be removed, and why */
    /* A directory below the job's staging directory, or "" before it is created. */
    char directory[TRANSFER_DIRECTORY_MAX];
    char stage[16];
    struct list_link link;
};

/* Returns NULL if out of memory. */
struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task);
/* Ends the process for the reason |why|.  A result that the process has already reported stays
 * valid.  But STOP_CANCELLED and STOP_SHUTDOWN drop the result if kilnd has not copied its file. */
void transfer_process_stop(struct transfer_process *process, enum transfer_stop why);
/* Closes kilnd's descriptors of a detached process without waiting for its end.  Then calls
 * |gone|. */
void transfer_process_abandon(struct transfer_process *process);

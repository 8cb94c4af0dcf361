/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-transfer process and its one job.
 *
 * Role       creates a private directory, starts the process, sends it the job, passes on its
 *            progress and enforces time-outs.  Every end, even a crash, becomes a result with one
 *            file, or a failure that leaves no file
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
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* borrowed */
    /* Borrowed; the name of the unit that starts the process, or "" if there is none. */
    const char *service;
    /* The user that the process runs as; also the owner of its directory. */
    struct worker_user user;
    unsigned disk_part;  /* see transfer_job */
    uint64_t timeout_ms; /* maximum wall-clock time of one transfer */
    /* The process is killed if it makes no progress for this time. */
    uint64_t silence_ms;
    /* How long to wait for the process's end, after its result and after SIGKILL. */
    uint64_t exit_ms;
    /* Called when the task's result is filled in; a detached process may still exist. */
    void (*ended)(struct transfer_process *process);
    /* Called before the struct is freed. */
    void (*gone)(struct transfer_process *process);
};

enum transfer_stop { /* why the process is ended early */
                     STOP_NOT,
                     STOP_CANCELLED,
                     STOP_SHUTDOWN,
                     STOP_DEADLINE,
                     STOP_SILENCE,
                     STOP_NONSENSE,
};

struct transfer_process {
    const struct transfer_process_options *options; /* borrowed */
    void *context;                                  /* passed to |ended| and |gone| */
    struct transfer_task *task;                     /* borrowed; NULL after the task has ended */
    uid_t uid;                                      /* the user who asked for the transfer */
    struct task work;                               /* creates and removes the directory */
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline, silence, killed;
    int socket; /* owned; -1 when closed */
    bool running, reported, is_stuck;
    enum transfer_stop stop;
    /* Why the file must not be copied (enum transfer_stop), or 0 if it shall be copied. */
    atomic_int unwanted;
    /* The file that the process made: |directory|, "/" and a name of at most 255 bytes. */
    char made[TRANSFER_DIRECTORY_MAX + 256];
    struct file_take take; /* the copy of that file, in steps */
    bool takes_more;       /* the copy needs another step */
    struct kiln_err kept;  /* names a file that could not be removed, and why */
    /* The process's directory, below the job's staging directory; "" while there is none. */
    char directory[TRANSFER_DIRECTORY_MAX];
    char stage[16];        /* the stage that the process reported last */
    struct list_link link; /* link in its owner's list */
};

/* Starts a transfer.  Returns NULL if out of memory. */
struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task);
/* Kills the process.  A result that the process has already reported stays valid, but only if its
 * file has been copied. */
void transfer_process_stop(struct transfer_process *process, enum transfer_stop why);
/* Closes kilnd's descriptors of a detached process without waiting for its end.  Then calls
 * |gone|. */
void transfer_process_abandon(struct transfer_process *process);

/* SPDX-License-Identifier: MIT */
#pragma once

/* Transfers with a kiln-transfer that does what its URL says (fake_transfer.c). */
#include "daemon/workers/transfer.h"
#include "tests/support/launch_service.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct transfers *transfers;
    struct transfers_options options;
    char directory[64], staging[96];
    struct loop_owner owner;
    struct loop_timer tick; /* so that a turn of the loop ends though nothing happens */
    bool closed;
    struct launch_service unit; /* started by start_unit */
    struct kiln_err err;
};

struct transfer {
    struct transfer_task task;
    unsigned ended, reported;
    char stage[16];
};

#define READERS 2

int set_up(void **state);
int tear_down(void **state);

struct transfer transfer_of(const struct fixture *f, const char *url);
/* Transfers are started by a unit from now on. */
void start_unit(struct fixture *f);
void open_transfers(struct fixture *f);
void close_transfers(struct fixture *f);
unsigned files_in_staging(const struct fixture *f);
void wait_for(struct fixture *f, const struct transfer *t);
struct transfer_result *run(struct fixture *f, struct transfer *t);
void expect_failure(struct fixture *f, const char *url, enum kiln_code code, const char *says);
void take_result(const struct transfer_result *o, const char *content);

/* Cancels it, and waits for its end. */
void end(struct fixture *f, struct transfer *t);

/* Processes that wait for a filesystem which does not answer do not die of SIGKILL. */
struct immortal {
    bool active;
    pid_t groups[8]; /* that were to be killed */
    size_t count;
};
extern struct immortal immortal;
int __real_kill(pid_t pid, int number);
void make_immortal(struct fixture *f);
void let_them_die(void);

FIXTURE(transfers, set_up, tear_down);

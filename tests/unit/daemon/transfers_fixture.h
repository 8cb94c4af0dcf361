/* SPDX-License-Identifier: MIT */
#pragma once

/* Transfers with a fake kiln-transfer. The URL tells it what to do (fake_transfer.c). */
#include "daemon/workers/transfer.h"
#include "tests/support/launch_service.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct transfers *transfers;
    struct transfers_options options;
    const char *directory;
    char staging[96];
    struct loop_owner owner;
    struct loop_timer tick; /* ends each loop iteration even if nothing else happens */
    bool closed;
    struct launch_service unit;
    struct kiln_err err;
};

struct transfer {
    struct transfer_task task;
    unsigned ended, reported;
    char stage[16];
};

#define READERS 2 /* threads for long tasks; one more thread remains for brief tasks */

void open_fixture(struct fixture *f);
void close_fixture(struct fixture *f);

struct transfer transfer_of(const struct fixture *f, const char *url);
struct transfer transfer_of_user(const struct fixture *f, const char *url, uid_t uid);
/* After this call, a service unit starts the processes. */
void start_unit(struct fixture *f);
/* Does nothing if the transfers are open. */
void open_transfers(struct fixture *f);
void close_transfers(struct fixture *f);
unsigned files_in_staging(const struct fixture *f);
void wait_for_end(struct fixture *f, const struct transfer *t);
void start_transfer(struct fixture *f, struct transfer *t);
/* Starts |t|, and waits for its end. */
struct transfer_result *run_among_others(struct fixture *f, struct transfer *t);
/* Starts |t|, and waits for its end. No other transfer may run. */
struct transfer_result *run_transfer(struct fixture *f, struct transfer *t);
void expect_failure(struct fixture *f, const char *url, enum kiln_code code, const char *says);
/* The transfer of |url| must leave a file with |content|. */
void expect_content(struct fixture *f, const char *url, const char *content);
/* The transfer must have left a file with |content|. Removes the file. */
void take_result(const struct transfer_result *o, const char *content);

void cancel_transfer(struct fixture *f, struct transfer *t);

/* The fixture's limits, which no transfer reaches by itself. They differ, so that the timers can be
 * told apart. */
#define SILENCE_MS 3600001u
#define EXIT_MS 3600002u

struct transfer_timers {
    struct loop_timer *silence, *exit; /* those that were started last; borrowed */
    unsigned silences;                 /* how often a timer for silence was started */
};
extern struct transfer_timers timers;
/* Lets the timer end in the next loop iteration. */
void expire(struct loop_timer *timer);

/* Imitates processes that survive SIGKILL, like those that wait for a dead filesystem. While they
 * are |active|, EXIT_MS passes at once. */
struct immortal {
    bool active;
    pid_t groups[8];
    size_t count;
};
extern struct immortal immortal;
int __real_kill(pid_t pid, int number);
void make_immortal(void);
/* Starts |t|, whose process reports once, and waits until it was ended because of its silence. */
struct transfer_result *run_silent(struct fixture *f, struct transfer *t);
void let_them_die(void);

SET_UP(set_up) { open_fixture(f); }
TEAR_DOWN(tear_down) { close_fixture(f); }
FIXTURE(transfers, set_up, tear_down);

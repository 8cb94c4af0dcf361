/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine's inside, shared by engine.c and the files of service/ alone.
 *
 * Threading  the engine's thread; what runs on a lane touches only its own task
 */
#include "common/hash_table.h"
#include "engine/compile/toolchain.h"
#include "engine/engine.h"
#include "engine/jobs/compile_queue.h"
#include "engine/jobs/failure_memory.h"
#include "engine/package/package_set.h"
#include "engine/service/metrics/figures.h"
#include "engine/service/metrics/history.h"
#include "engine/service/requests/valid_counts.h"
#include "engine/service/service.h"
#include "engine/service/tuning/tuning_terms.h"
#include "engine/store/hot_set.h"
#include "engine/store/kernel_store.h"
#include "engine/tuning/lease.h"
#include "engine/tuning/tuning.h"

#define TOUCHES_MOST 4096 /* kernels whose use is remembered between two writes of recency */

struct stats {
#define STAT(name, metric, values, purpose) uint64_t name;
#include "engine/service/metrics/metrics.def"
};

#define DOUBTS_MOST 96 /* more than one list of targets leads to */
#define ADMINISTRATORS "root, the daemon's own user or a member of group kiln-admin"

/* Administrative requests of one kind take turns; the kinds do not wait for each other. */
enum { ADMIN_QUICK, ADMIN_SCANS, ADMIN_TURNS };

struct admin_turn {
    struct admin *waiting; /* owned list, first come first */
    struct admin *running; /* owned; on a lane */
};

/* A probe that failed for a reason that may pass. */
struct doubt {
    char toolchain[16];
    struct target target;
    uint64_t until_ns; /* 0: none */
};

struct engine {
    struct executor *executor;      /* borrowed */
    struct engine_host *host;       /* borrowed; may be NULL */
    const struct engine_data *data; /* borrowed; NULL: nothing is built in */
    bool checking_item;             /* one of its items is being checked */
    struct kernel_store *store;
    struct hot_set *hot;
    uint64_t
        hot_generation; /* of what it may hold: look-ups under way when it changed are not kept */
    struct digest hot_packages; /* the packages as they were when all of it was forgotten last: none
                                   of it is from older ones */
    struct package_set *packages;
    struct toolchain_table *toolchains;
    struct compile_queue *queue;
    struct failure_memory *failures;
    struct budget *budget; /* of bytes that wait */
    struct stats stats;
    struct figures figures;
    struct history history;
    uint64_t instance;
    uint64_t hot_limit_bytes;
    char notice[512]; /* what opening the store had to say; "" when nothing */

    struct caller *callers;    /* borrowed, joined */
    struct hash_table flights; /* owned struct flight */
    unsigned flight_count;
    unsigned tasks_out; /* handed to a lane and not done */
    struct admin_turn admin_turns[ADMIN_TURNS];
    struct admin_place *admin_places; /* borrowed list: what users have unanswered */
    struct build *builds;             /* borrowed list: from the question to the end */
    struct build *build_waiting;      /* borrowed list: for a step of theirs, one at a time */
    bool build_runs;

    struct probe *probes;    /* owned: describes and probes under way, and requests that wait for
                                them */
    uint64_t handled;        /* requests, and once more whenever one is looked at again */
    unsigned looks;          /* that the request at hand had before this one */
    uint64_t describe_at_ns; /* when to ask (again) */
    struct doubt doubts[DOUBTS_MOST];
    unsigned doubt_next;
    char describe_failure[512];
    bool described;
    bool said_no_toolchain;
    bool draining;

    struct handed_files *handed; /* owned: what went out with answers and is still open */
    bool sweeping;               /* a look at them is out */

    struct arrival *arrivals; /* owned: packages and caches on their way in */
    unsigned arrival_count;
    char *package_folder; /* owned; "": none */
    char *staging;        /* owned: folder in it that they arrive in; "": none */
    char *kfd_folder;     /* owned: where the GPUs are told of */
    char *trusted_keys;   /* owned: folder of public keys */
    uint64_t package_limit;
    uint64_t import_limit; /* bytes of a cache that a user brings */
    bool require_signature;
    bool rescanning; /* a look at the package folders is out */
    uint64_t rescan_at_ns;
    bool verifying; /* a package is being checked */

    struct tuning *tuning; /* owned; NULL: it could not be opened, |tuning_trouble| says why */
    struct tuning_options tuning_options;   /* its folder is owned */
    struct tuning_database tuning_asked[2]; /* of find and perf: what the last look-up was in */
    char tuning_trouble[512];
    char tuning_notice[512];            /* what opening it had to say; "" when nothing */
    uint64_t tuning_retry_ns;           /* when to try again to open it */
    bool tuning_opening;                /* that is out */
    struct tuning_turn *tuning_turns;   /* borrowed list: changes that wait for their turn */
    struct tuning_turn *tuning_running; /* borrowed */
    struct tuning_turn *tuning_paused;  /* borrowed: a long one between two of its steps */
    uint64_t tuning_rounds[2];          /* of long and of short ones: the round being served */
    unsigned tuning_shorts;             /* short ones since the last step of a long one */
    struct lease_table *leases;         /* owned */
    struct lease_wish *lease_wishes;    /* borrowed list: who waits for a lease */

    struct solver_turn *solver_turns;   /* borrowed list: requests that wait for their turn */
    struct solver_turn *solver_running; /* borrowed: on a lane */
    uint64_t solver_round;              /* the one being served */
    struct valid_counts valid_counts;

    struct digest touched[TOUCHES_MOST]; /* used since the last write of recency, by slot */
    bool is_touched[TOUCHES_MOST];
    unsigned touched_count;
    uint64_t touched_at_ns;
    bool touching; /* a write of recency is out */
    bool tidying;  /* so is a step of tidying */

    struct buffer records, body; /* scratch of the reply being built */
};

/* tasks.c: runs |task| on a lane and counts it; its done calls engine_task_ended first. */
void engine_run(struct engine *e, enum lane lane, struct task *task);
/* The same for done alone, at the end of the turn. */
void engine_later(struct engine *e, struct task *task);
void engine_task_ended(struct engine *e);

/* tasks.c: something was removed or replaced, so what is hot counts no more; all of it, for the hot
 * set does not know where an object is from. */
void engine_forget_hot(struct engine *e);
/* The same where only what is private to |uid| was. */
void engine_forget_hot_of(struct engine *e, uid_t uid);
/* The same where the keys have been taken out already: look-ups under way are not kept, and the
 * host is told. */
void engine_hot_forgotten(struct engine *e);

/* One unanswered request of a caller.  First member of what holds the rest. */
struct service_waiter {
    struct engine *engine;
    struct caller *caller; /* NULL once the caller left */
    uint64_t request_id;
    uint16_t type, code; /* of the request; and how it ends, for the figures */
    bool is_forgotten;   /* it does not end, but is handled again */
    /* The caller left or cancelled: stop, and free if nothing is out any more. */
    void (*cancel)(struct service_waiter *waiter);
    struct service_waiter *next, *previous;
};

void service_waiter_add(struct service_waiter *w, struct engine *e, struct caller *caller,
                        uint64_t request_id, void (*cancel)(struct service_waiter *));
void service_waiter_remove(struct service_waiter *w);

/* A request that was parked, from the start; it was counted when it came. */
void service_handle_again(struct engine *e, struct caller *caller,
                          const struct frame_header *header, struct bytes body);

/* Answers with an error frame.  |log| may be NULL. */
void service_refuse(struct engine *e, struct caller *caller, uint64_t request_id,
                    const struct kiln_err *why, const char *log);

/* toolchains.c: which toolchain for |target|?  KILN_BUSY: not known yet, a probe is under way; park
 * the request with toolchains_park. */
KILN_MUST_CHECK enum kiln_code toolchains_resolve(struct engine *e, uid_t uid,
                                                  const struct target *target, struct bytes forced,
                                                  const struct toolchain **ret_toolchain,
                                                  struct kiln_err *err);
/* Keeps a copy of the request and has service_handle look at it again when all has ended that it
 * asked for; who leaves meanwhile takes what only he waits for out of the queue. */
KILN_MUST_CHECK enum kiln_code toolchains_park(struct engine *e, struct caller *caller,
                                               const struct frame_header *header, struct bytes body,
                                               struct kiln_err *err);
/* The request at hand has failed: takes out of the queue what only it asked for. */
void toolchains_unask(struct engine *e);
/* Asks a compiler what is here, unless that is under way. */
void toolchains_describe(struct engine *e);
/* Failures that may have passed meanwhile are not known any more: they are tried again. */
void toolchains_forget_doubts(struct engine *e);
/* Starts the probe that answers |target| for |tc| in |uid|'s turn; one that is under way comes in
 * the better of the turns of those who ask.  KILN_UNAVAILABLE when it cannot be started now. */
KILN_MUST_CHECK enum kiln_code toolchains_probe(struct engine *e, uid_t uid,
                                                const struct toolchain *tc,
                                                const struct target *target, struct kiln_err *err);
/* Whether |tc| is known to build for |target|: the probe said so. */
bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target);
bool toolchains_settled(const struct engine *e); /* nothing under way */

/* Handlers, one a request of common/messages.def. */
#define KILN_REQUEST(name, number, who, body, purpose)                                       \
    enum kiln_code handle_##name(struct engine *e, struct caller *caller,                    \
                                 const struct frame_header *header, struct bytes frame_body, \
                                 struct kiln_err *err);
#define KILN_REPLY(name, number, body, purpose)
#include "common/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY

/* events.c: {"event": name, ...}; cheap when nobody listens. */
struct source;
void event_kernel(struct engine *e, const char *name, const struct digest *key,
                  const struct source *source, const struct compile_outcome *outcome);
void event_text(struct engine *e, const char *name, const char *text);
/* The same for what an operator should know of: the host writes it to its log too. */
void event_report(struct engine *e, const char *name, const char *text);
/* The same about one kernel. */
void event_report_key(struct engine *e, const char *name, const struct digest *key,
                      const char *text);
/* The same where nothing is wrong. */
void event_note(struct engine *e, const char *name, const char *text);
/* What the store had to say of itself. */
void event_store(struct engine *e, enum kernel_notice kind, const char *text);
/* After a write to the store: what came of it, and what the store repaired meanwhile. */
void event_after_write(struct engine *e, enum kiln_code rc, const struct kiln_err *err);

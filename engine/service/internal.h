/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine's internals, shared only by engine.c and the files of service/.
 *
 * Threading  the engine's thread; code that runs on a work queue touches only its own task
 */
#include "common/base/hash_table.h"
#include "engine/compile/toolchain.h"
#include "engine/engine.h"
#include "engine/jobs/compile_queue.h"
#include "engine/jobs/failure_memory.h"
#include "engine/package/package_set.h"
#include "engine/service/deferred.h"
#include "engine/service/kernels/toolchains.h"
#include "engine/service/metrics/engine_metrics.h"
#include "engine/service/requests/queues.h"
#include "engine/service/service.h"
#include "engine/store/hot_set.h"
#include "engine/store/kernel_store.h"
#include "engine/tuning/lease.h"
#include "engine/tuning/tuning.h"

struct fleet_tier;
struct fleet_upload;
struct held_objects;

struct stats {
#define STAT(name, metric, values, purpose) uint64_t name;
#include "engine/service/metrics/metrics.def"
};

#define ADMINISTRATORS "root, the daemon's own user or a member of group kiln-admin"

struct engine {
    struct executor *executor;
    uid_t own_uid;            /* kilnd's own user, to whom maintenance work is charged */
    struct engine_host *host; /* may be NULL */
    struct built_in *built_in;
    struct kernel_store *store;
    struct hot_set *hot;
    struct held_objects *held;
    struct package_set *packages;
    struct fleet_tier *fleet;
    struct fleet_upload *fleet_upload; /* NULL: this kilnd adds nothing to the fleet */
    struct toolchain_table *toolchains;
    struct compile_queue *queue;
    struct failure_memory *failures;
    struct budget *budget;
    struct stats stats;
    struct engine_metrics metrics;
    struct history *history;
    uint64_t instance;
    char notice[512];

    unsigned callers;
    struct list subscribers;
    struct inflights *inflights;
    unsigned tasks_out;
    struct requests *requests;
    struct client_compiles *client_compiles;

    struct toolchain_probes *probes;
    bool draining;

    struct exported_files *exported;

    struct package_service *package_service;
    struct tuning_service *tuning;
    bool shares_tuning; /* a request fleet_tuning_export has not ended */

    struct valid_counts *valid_counts;

    struct store_upkeep *upkeep;

    struct buffer records, body;
};

/* Runs |task| on a work queue. The done callback of |task| must first call engine_task_ended.
 * For maintenance, |uid| is own_uid. */
void engine_run(struct engine *e, uid_t uid, enum work_queue work_queue, struct task *task);
/* If |task| has not begun, removes it and returns true; neither of its callbacks is then called. */
bool engine_cancel(struct engine *e, enum work_queue work_queue, struct task *task);
/* Calls the done callback of |task| at the end of this loop iteration, without any work. */
void engine_later(struct engine *e, uid_t uid, struct task *task);
void engine_task_ended(struct engine *e);
/* Closes a descriptor that user |uid| sent. Closing may take long, so another thread may do it. */
void engine_close_file(struct engine *e, uid_t uid, int fd);

/* Empties the hot set, because the hot set does not record where an object came from. Also forgets
 * failed compiles, because a package may now have their kernels. Call this function after an object
 * was added, removed or replaced. */
void engine_forget_answers(struct engine *e);
/* Removes from the hot set the objects that are private to |uid|. Also removes public objects that
 * are there because |uid| requested them by name. Call this function after private objects of |uid|
 * were removed or replaced. */
void engine_forget_hot_of(struct engine *e, uid_t uid);

/* Answers with |e->body|, or with an error if memory ran out. */
void service_reply_body(struct engine *e, struct caller *caller, uint16_t type,
                        uint64_t request_id);
/* Answers that there is too little memory to build the answer. */
void service_refuse_unbuilt(struct engine *e, struct caller *caller, uint64_t request_id);
void service_refuse(struct engine *e, struct caller *caller, uint64_t request_id,
                    const struct kiln_err *why, const char *log);

#define KILN_REQUEST(name, number, role, body, purpose)                                      \
    enum kiln_code handle_##name(struct engine *e, struct caller *caller,                    \
                                 const struct frame_header *header, struct bytes frame_body, \
                                 struct kiln_err *err);
#define KILN_REPLY(name, number, body, purpose)
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY

/* Sends {"event": name, ...} to subscribers. Costs little if there are none. */
struct source;
void event_kernel(struct engine *e, const char *name, const struct digest *key,
                  const struct source *source, const struct compile_result *result);
void event_text(struct engine *e, const char *name, const char *text);
/* Sends an event about a problem that operators should know about. kilnd also logs it. */
void event_report(struct engine *e, const char *name, const char *text);
/* Sends an event about a problem with one kernel to administrators. kilnd also logs it. */
void event_report_key(struct engine *e, const char *name, const struct digest *key,
                      const char *text);
/* Sends an event that is not a problem. kilnd also logs it. */
void event_note(struct engine *e, const char *name, const char *text);
void event_store(struct engine *e, enum kernel_notice kind, const char *text);
/* Call it after each write to the store. Sends events about a failed write, and about what the
 * store has repaired. */
void event_after_write(struct engine *e, enum kiln_code rc, const struct kiln_err *err);

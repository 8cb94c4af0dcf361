/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The parts of the fleet tier, shared only by the files of this directory.
 *
 * Ownership  a shard owns its index; a query has no owner, and frees itself when it ends
 * Threading  the engine's thread; while a task runs, only the task uses the struct that it fills
 */
#include "common/protocol/limits.h"
#include "engine/fleet/fleet_access.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/jobs/fair_queue.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/internal.h"

#include <limits.h>

#define FLEET_SHARDS_MAX 64u
#define FLEET_REFUSED_MAX 64u
#define FLEET_TOOLCHAIN_TEXT 64
#define FLEET_ERROR_TEXT 512
/* Time without use after which an index is no longer refreshed, until it is used again. */
#define FLEET_IDLE_NS 600000000000u
/* Time between two reads of the keys. An index that is older is refreshed before it is shown. */
#define FLEET_REFRESH_NS 60000000000u
/* Maximum time between two requests for the pointer of an index that is in use. The time is
 * shortened by a random amount, to one minute on average. Otherwise hosts that had to wait for the
 * same event, such as the end of a failure, would send their requests together from then on. */
#define FLEET_POINTER_NS 80000000000u

/* The trusted keys, which tasks on other threads use, too. Only the engine's thread changes the
 * number of references. */
struct trusted {
    unsigned references;
    struct fleet_trust *keys; /* owned */
};
struct trusted *trusted_ref(struct trusted *trusted);

struct fleet_opening { /* an index that is being verified */
    struct task task;
    struct trusted *trusted; /* owned reference */
    struct fleet_pointer pointer;
    int fd; /* owned */
    enum fleet_fault fault;
    bool is_final; /* the file is the one that the pointer names, so it will not change */
    enum kiln_code rc;
    struct fleet_index *index; /* owned; NULL unless it could be opened */
};

/* Lists of the loose records for which this host waits, and of leases (fleet_listing.c). */
struct fleet_listing {
    struct fleet_access get;
    bool is_requesting;
    unsigned waits; /* number of the shard's queries that wait for other hosts */
    uint64_t due_ns, pause_ns;
    uint64_t resume_ns; /* before this time, no lists of records are requested */
    struct fleet_access leases;
    uint64_t leases_resume_ns; /* before this time, no lists of leases are requested */
    bool is_requesting_leases;
    bool has_rivals; /* another host had a lease that this host requested */
    bool is_old;     /* since the last list of leases was requested, another host got a lease */
};

struct shard {
    struct list_link link;
    struct engine *engine;
    char id[FLEET_SHARD_ID_SIZE];
    char target[LIMIT_TARGET_TEXT], toolchain[FLEET_TOOLCHAIN_TEXT];
    struct digest toolchain_id;
    struct fleet_index *index;    /* owned; NULL: no valid index was found yet */
    struct fleet_pointer pointer; /* names |index| */
    /* Names an index that was refused and is not requested again; zeros: none. */
    struct fleet_pointer refused_index;
    enum fleet_fault refused_fault; /* why it was refused */
    bool is_known;                  /* the fleet was asked for an index, and has answered */
    bool is_loading;
    bool is_slow; /* loading the index has taken longer than a look-up may wait */
    uint64_t asked_ns, refreshed_ns, load_began_ns;
    uint64_t refresh_ns; /* when the pointer is requested again, if the index is in use */
    /* Why the last load got no index. Both members are 0 if the load got one, or found the index
     * unchanged. */
    enum fleet_end load_end;
    enum fleet_fault load_fault;
    unsigned queries;    /* number of queries that have not ended */
    struct list waiting; /* list of struct fleet_query that wait for the index */
    struct fleet_access get;
    struct fleet_opening opening;
    struct fleet_listing listing;
    /* Prefixes of the keys whose records failed their check. These records are not requested
     * again. */
    uint64_t refused[FLEET_REFUSED_MAX];
    unsigned refused_count;
};

struct fleet_query {
    struct list_link link;
    struct shard *shard;
    struct digest key;
    bool has_prefix_only; /* only the first bytes of |key| are set, until the record was read */
    uid_t uid;
    void (*answered)(void *context, struct object *object); /* NULL: nobody waits */
    void *context;
    uint64_t began_ns; /* when the query, or its last request for a lease or loose record, began */
    uint64_t expected_ns; /* expected duration of the compile */
    enum priority priority;
    uid_t turn_uid;  /* the user in whose turn the lease is requested */
    bool is_put_off; /* is in the list |put_off| of the leases */
    /* Used while another host compiles the kernel. |wait_began_ns| stays 0 if this host never
     * waits. */
    uint64_t wait_began_ns, poll_ns, poll_pause_ns;
    bool is_last_poll;
    bool is_listed;   /* a list has shown that the loose record is there */
    bool is_unlisted; /* the record was requested last although no list had shown it */
    enum priority requested_priority;
    bool is_counted;    /* in |requesting| or |polling| of the leases */
    bool is_requesting; /* a request for the lease, or for the loose record, has not ended */
    struct fleet_access get;
    struct task task;
    /* Used by the task, on another thread. The task fills the members from |fault| on. */
    struct trusted *trusted;
    int fd;
    enum fleet_fault fault;
    enum kiln_code rc;
    struct object *object; /* owned reference */
    uint8_t builder[FLEET_KEY_ID_SIZE];
    struct kernel_record record;
    struct buffer texts; /* owned; the texts of |record| */
};

/* Maximum number of kernels for which this host requests leases, or waits for another host, at the
 * same time. Each of them needs requests to the store, and a store that is 30 ms away answers only
 * about 500 requests in a second. */
#define FLEET_LEASES_MAX 1024u
/* Maximum for one user. If it is reached, a kernel that this host can soon compile is compiled
 * without a lease. */
#define FLEET_LEASES_MAX_UID 256u
/* Maximum number of requests for loose records at the same time. A request that waits behind many
 * others in the queue of the store's process would seem to be slow. */
#define FLEET_POLLS_MAX 64u
#define FLEET_OWN_LEASES_MAX 1024u
/* Number of waits in vain after which this host requests no leases for a while. */
#define FLEET_EXPIRED_MAX 3u

enum leases_state { LEASES_UNUSED, LEASES_UNKNOWN, LEASES_ON, LEASES_OFF };

struct fleet_leases {
    struct engine *engine;
    enum leases_state state;
    uint64_t compile_min_ns; /* shorter compiles need no lease */
    uint64_t resume_ns;      /* before this time, no leases are requested */
    uint64_t shared_ns;      /* when a kernel for which this host waited last arrived */
    /* Queries that will request their leases when this host can soon compile their kernels. Their
     * number is limited only by the users' budgets. */
    struct list put_off;
    struct list active;    /* queries that request a lease, or whose kernels other hosts compile */
    unsigned active_count; /* at most FLEET_LEASES_MAX */
    /* Number of requests for leases for whose answers queries wait. The index is the priority that
     * the query had when its lease was requested. */
    unsigned requesting[2];
    unsigned polling; /* number of requests for loose records for whose answers queries wait */
    uid_t last_uid;   /* the user for whom the last lease was requested */
    int nonce_fd;     /* owned; the content of all leases of this host; -1: not made yet */
    /* A ring with hashes of the keys whose leases this host got last. */
    uint64_t own[FLEET_OWN_LEASES_MAX];
    unsigned own_count;
    /* Hashes of the different keys for which this host waited in vain since it last got a kernel of
     * another host, or last stopped requesting leases. */
    uint64_t expired[FLEET_EXPIRED_MAX];
    unsigned expired_count;
    struct fleet_access probe;
    bool is_probing, is_second;
    bool has_probe_ended;
    enum fleet_end probe_end; /* how the last probe ended */
    uint64_t probe_ns;
    uint64_t counts[FLEET_LEASE_ENDS];
};

struct fleet_tier {
    bool is_on;
    struct fleet_records *records; /* owned; NULL until the first tick */
    struct fleet_pull *pull; /* owned; the last pull (fleet_pull.c); NULL: none since the start */
    uint64_t wait_ms;
    char keys[PATH_MAX];
    char epochs_path[PATH_MAX]; /* "": epochs are kept in memory only */
    struct trusted *trusted;    /* owned reference */
    struct fleet_epochs epochs;
    struct list shards;
    unsigned shard_count;
    unsigned running; /* requests and tasks that have not ended */
    /* Set while the fleet's store fails. Then only fleet_tier_tick sends requests. */
    bool is_broken;
    bool is_busy;       /* it fails because it has asked for fewer requests */
    bool is_trying;     /* while the store fails: an attempt has not ended */
    uint64_t tried_ns;  /* when the last attempt began */
    uint64_t broken_ns; /* when the store began to fail */
    uint64_t pause_ns, retry_ns;
    uint64_t answered_ns; /* when the store last answered */
    uint64_t keys_read_ns;
    /* |keys_begun|: number of the last read of the keys. |keys_installed|: number of the read whose
     * keys are used now. */
    uint64_t keys_begun, keys_installed;
    uint64_t keys_changes; /* how often other keys than before were installed */
    uint64_t ends[FLEET_ENDS];
    uint64_t faults[FLEET_FAULTS];
    uint64_t late;
    char last_error[FLEET_ERROR_TEXT]; /* "": none since the start */
    uint64_t last_error_ns;
    struct fleet_leases leases;
};

/* Returns how many milliseconds a look-up that began at |began_ns| may still wait; at least 1. */
uint64_t fleet_wait_left_ms(const struct fleet_tier *tier, uint64_t began_ns);
/* Passes |get| to the executor. If |get| adds no file, sets |fd| to -1 first. */
void fleet_access_start(struct engine *e, struct fleet_access *get);
/* Counts and reports how the access ended. Each |done| callback must call this first. Returns
 * whether the access ended with FLEET_END_DONE. */
bool fleet_access_ended(struct engine *e, const struct fleet_access *get);
/* Reads the keys again if FLEET_REFRESH_NS have passed. */
void fleet_keys_tick(struct engine *e, uint64_t now_ns);
/* Writes the epochs, on a work queue. */
void fleet_epochs_save(struct engine *e);
/* Returns how long the store is left alone if it wants to be left alone for |wait_s| seconds. */
uint64_t fleet_busy_ns(uint64_t wait_s);
/* Treats the store as broken if it has answered no access since |began_ns|. Call this function when
 * an access that began at that time is slow. If the access is an attempt, the attempt has failed.
 */
void fleet_note_silence(struct engine *e, uint64_t began_ns);
/* Call this function when a request tries a store that fails. */
void fleet_note_attempt(struct fleet_tier *tier, uint64_t now_ns);
void fleet_note_fault(struct engine *e, enum fleet_fault fault, const char *what);
/* Reports the event fleet_error, and stores its text for status requests. */
void fleet_report_error(struct engine *e, const char *text);

/* Returns a JSON object with the counts that are not 0, by their labels. */
struct json *fleet_describe_ends(const uint64_t counts[FLEET_ENDS]);

/* Finds or makes the shard. Returns NULL if there are too many shards, or if memory ran out. */
struct shard *shard_of(struct engine *e, const struct fleet_shard *what);
void shard_destroy(struct shard *shard);
struct fleet_shard shard_view(const struct shard *shard);
/* Requests the shard's pointer. If the pointer names another index than before, then requests that
 * index. */
void shard_load(struct shard *shard);
void shard_drop_index(struct shard *shard);
bool shard_is_refused(const struct shard *shard, const struct digest *key);
void shard_refuse(struct shard *shard, const struct digest *key);

/* Continues a query that waited for the index. May free the query. */
void query_continue(struct fleet_query *query);
/* Requests the record at |place|, and later stores its kernel. Uses only the first bytes of
 * |asked->key|. Returns false if memory ran out. */
bool query_pull(struct shard *shard, const struct fleet_asked *asked,
                const struct fleet_place *place);
/* Goes on with a pull that waits for an index. Call it when an index was loaded, and about once a
 * second. */
void fleet_pull_tick(struct engine *e);
void fleet_pull_destroy(struct fleet_pull *pull);
struct json *fleet_pull_describe(const struct fleet_pull *pull);

/* Answers that this host must compile the kernel, and frees the query. */
void query_give_up(struct fleet_query *query);
/* Counts the query as late, unless its caller has left. */
void query_note_late(const struct fleet_query *query);
/* For fleet_access.slow: answers that this host must compile the kernel. A record that comes later
 * is still stored. */
void query_note_slow(struct fleet_access *get);
/* Verifies the record that was read, and answers the query. */
void query_verify(struct fleet_query *query);
struct fleet_query *query_of_access(struct fleet_access *get);

void fleet_leases_open(struct fleet_leases *leases, uint64_t compile_min_ns);
void fleet_leases_close(struct fleet_leases *leases);
/* Requests the lease of the query's kernel, now or when this host can soon compile it
 * (fleet_leases_next). Returns false if this kernel needs no lease, if this host has its lease
 * already, if too many leases are requested, or if leases are not used now. */
bool lease_request(struct fleet_query *query);
void fleet_leases_tick(struct engine *e, uint64_t now_ns);
/* Returns a memory file with random digits, so that no two hosts write the same text; -1 on
 * failure. */
int fleet_nonce_create(void);
void fleet_probe_tick(struct engine *e, uint64_t now_ns);
/* Requests the loose records that are due. Call this function when a list has ended. */
void fleet_leases_look_again(struct engine *e, uint64_t now_ns);
/* Call this function when a kernel has arrived for which this host waited. */
void fleet_leases_note_shared(struct fleet_leases *leases);
/* Lets the queries that have not requested their leases yet wait for other hosts, if other hosts
 * have these leases. |keys| are the sorted keys of the leases. Returns the number of queries. */
unsigned fleet_leases_note_held(struct shard *shard, struct bytes keys);
/* Returns whether the sorted digests |keys| have |key|. */
bool fleet_listing_has(struct bytes keys, const struct digest *key);
/* Call these functions when a query of the shard begins, or ends, to wait for another host. */
void fleet_listing_begin_wait(struct shard *shard, uint64_t now_ns);
void fleet_listing_end_wait(struct shard *shard);
/* Returns whether lists show which records are there, so that no query must look for its own. */
bool fleet_listing_is_used(const struct shard *shard, uint64_t now_ns);
/* Requests the lists that are due. */
void fleet_listing_request(struct engine *e, uint64_t now_ns);
/* Requests no lists of the shard for a while. Call this function when a list lacked a record. */
void fleet_listing_stop(struct shard *shard, uint64_t now_ns);
/* Call this function when another host had the lease that |put| requested. */
void fleet_listing_note_lost(struct shard *shard, const struct fleet_access *put);
/* Requests a list of the leases if it saves requests for leases. |put_off| is the number of the
 * shard's queries that have not requested theirs. */
void fleet_listing_request_leases(struct shard *shard, unsigned put_off, uint64_t now_ns);
/* Returns whether a list of the leases is under way, before which no lease must be requested. */
bool fleet_listing_awaits_leases(const struct shard *shard, uint64_t now_ns);
/* Stops waiting for other hosts. This host then compiles the kernels itself. */
void fleet_leases_give_up(struct engine *e);

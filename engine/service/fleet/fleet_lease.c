/* SPDX-License-Identifier: MIT */
/*
 * Leases: if several hosts need a kernel that the fleet lacks, one of them compiles it for all.
 *
 * Each of these hosts tries to add the lease, a file named after the kernel. A host does so only
 * when it can soon compile the kernel, so that the hosts of a fleet share the compiles. The host
 * that succeeds compiles the kernel, and adds its record to the tree as a file (a loose record).
 * The other hosts look for that record again and again. If it does not appear in time, they compile
 * the kernel, too. After several such kernels, they use no leases for a while, so forged leases or
 * a host that crashed cost little time. No host relies on the clock of another one.
 */
#include "common/base/clock.h"
#include "engine/fleet/fleet_record.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_upload.h"

#define SECOND_NS 1000000000u
/* How long a host waits for another host's kernel. This does not depend on how long the compile is
 * expected to take, because the other host may have other compiles to do first. */
#define WAIT_NS (30ull * SECOND_NS)
/* How long a host waits at most while kernels of other hosts arrive (wait_end_ns). A program waits
 * two minutes for a kernel by default, so as much time is left for the compile. */
#define WAIT_MAX_NS (60ull * SECOND_NS)
/* A compiler has about this many compiles to do before that of a new lease has ended (has_room). If
 * they take longer than other hosts wait, no lease is requested. */
#define QUEUED_COMPILES 3u
#define POLL_MAX_NS (8ull * SECOND_NS)
#define REST_NS (300ull * SECOND_NS)

static struct fleet_leases *leases_of(const struct engine *e) { return &e->fleet->leases; }

void fleet_leases_open(struct fleet_leases *leases, uint64_t compile_min_ns)
{
    leases->compile_min_ns = compile_min_ns;
    leases->nonce_fd = -1;
    list_init(&leases->active);
    list_init(&leases->put_off);
}

void fleet_leases_close(struct fleet_leases *leases)
{
    if (leases->nonce_fd >= 0)
        close(leases->nonce_fd);
}

const char *fleet_tier_leases(const struct fleet_tier *tier)
{
    static const char *const names[] = { [LEASES_UNUSED] = "unused",
                                         [LEASES_UNKNOWN] = "unknown",
                                         [LEASES_ON] = "on",
                                         [LEASES_OFF] = "off" };
    return names[tier->leases.state];
}

uint64_t fleet_tier_lease_count(const struct fleet_tier *tier, enum fleet_lease_end end)
{
    return tier->leases.counts[end];
}

/* ---- waiting for another host ---- */

static void join_active(struct fleet_query *query)
{
    struct fleet_leases *leases = leases_of(query->shard->engine);
    list_append(&leases->active, &query->link);
    leases->active_count++;
}

static void leave_active(struct fleet_query *query)
{
    list_remove(&query->link);
    leases_of(query->shard->engine)->active_count--;
}

static void end_waiting(struct fleet_query *query)
{
    query->shard->engine->fleet->running--;
    fleet_listing_end_wait(query->shard);
    leave_active(query);
}

static void give_up_waiting(struct fleet_query *query)
{
    end_waiting(query);
    query_give_up(query);
}

static void note_expired(struct fleet_leases *leases, const struct digest *key, uint64_t now_ns)
{
    for (unsigned i = 0; i < leases->expired_count; i++)
        if (leases->expired[i] == digest_hash(key))
            return;
    leases->expired[leases->expired_count++] = digest_hash(key);
    if (leases->expired_count < FLEET_EXPIRED_MAX)
        return;
    leases->expired_count = 0;
    leases->resume_ns = now_ns + REST_NS;
}

/* Stops waiting for the other host. One kernel may be missing because it does not compile, or
 * because nobody there needed it any longer. If several are missing, a host may have crashed, and
 * waiting for its other leases would only cost time. So this host then requests no leases for
 * REST_NS. */
static void expire(struct fleet_query *query, uint64_t now_ns)
{
    struct fleet_leases *leases = leases_of(query->shard->engine);
    leases->counts[FLEET_LEASE_EXPIRED]++;
    note_expired(leases, &query->key, now_ns);
    give_up_waiting(query);
}

/* Returns when the wait ends. Each kernel that arrives prolongs all waits: it shows that the other
 * hosts work and that the store answers. They may only be slow, for example because all hosts
 * began to work at the same time. If each host then compiled the missing kernels itself, all would
 * take much longer. */
static uint64_t wait_end_ns(const struct fleet_query *query)
{
    uint64_t shared_ns = leases_of(query->shard->engine)->shared_ns,
             began_ns = query->wait_began_ns;
    uint64_t end_ns = (shared_ns > began_ns ? shared_ns : began_ns) + WAIT_NS;
    return end_ns < began_ns + WAIT_MAX_NS ? end_ns : began_ns + WAIT_MAX_NS;
}

void fleet_leases_note_shared(struct fleet_leases *leases)
{
    leases->counts[FLEET_LEASE_SHARED]++;
    leases->expired_count = 0;
    leases->shared_ns = clock_monotonic_ns();
}

static void end_poll(struct fleet_query *query)
{
    leases_of(query->shard->engine)->polling -= query->is_counted;
    query->is_counted = false;
}

static void on_slow_loose(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    end_poll(query);
    query_note_slow(get);
    fleet_leases_look_again(query->shard->engine, clock_monotonic_ns());
}

static void on_loose(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    struct engine *e = query->shard->engine;
    bool is_there = fleet_access_ended(e, get);
    query->is_requesting = false;
    bool was_full = leases_of(e)->polling >= FLEET_POLLS_MAX;
    end_poll(query);
    bool is_awaited = get->end == FLEET_END_ABSENT && query->answered && !e->draining;
    uint64_t now_ns = clock_monotonic_ns();
    if (is_awaited && query->is_last_poll && now_ns >= wait_end_ns(query)) {
        expire(query, now_ns);
    } else if (is_there) {
        if (query->is_unlisted) /* the lists may come from a cache */
            fleet_listing_stop(query->shard, now_ns);
        end_waiting(query);
        query_verify(query);
    } else if (!is_awaited) {
        give_up_waiting(query);
    } /* otherwise fleet_leases_tick will look again */
    if (was_full || e->fleet->is_broken)
        fleet_leases_look_again(e, now_ns);
}

/* Requests the loose record that the other host will add. If the store does not answer in time,
 * this host compiles the kernel, too. The last request is sent when the time is over. */
static void poll_loose(struct fleet_query *query, uint64_t now_ns)
{
    struct engine *e = query->shard->engine;
    query->is_requesting = query->is_counted = true;
    query->is_unlisted = fleet_listing_is_used(query->shard, now_ns) && !query->is_listed;
    query->is_listed = false;
    leases_of(e)->polling++;
    query->began_ns = now_ns;
    query->poll_pause_ns =
        query->poll_pause_ns < POLL_MAX_NS ? query->poll_pause_ns * 2 : POLL_MAX_NS;
    query->poll_ns = now_ns + query->poll_pause_ns;
    uint64_t end_ns = wait_end_ns(query);
    query->is_last_poll = now_ns >= end_ns;
    if (!query->is_last_poll && query->poll_ns > end_ns)
        query->poll_ns = end_ns;
    query->get = (struct fleet_access){ .size_max = FLEET_RECORD_MAX,
                                        .budget_ms = e->fleet->wait_ms,
                                        .slow = on_slow_loose,
                                        .done = on_loose };
    fleet_name_loose(query->shard->id, &query->key, query->get.name);
    fleet_access_start(e, &query->get);
}

static void begin_waiting(struct fleet_query *query, uint64_t now_ns)
{
    query->shard->engine->fleet->running++;
    fleet_listing_begin_wait(query->shard, now_ns);
    query->wait_began_ns = now_ns;
    query->poll_ns = now_ns;
    query->poll_pause_ns = SECOND_NS / 4;
}

static void leave_put_off(struct fleet_query *query)
{
    query->shard->engine->fleet->running--;
    list_remove(&query->link);
    query->is_put_off = false;
}

static void give_up_put_off(struct fleet_query *query)
{
    leave_put_off(query);
    query_give_up(query);
}

static void compile_without_leases(struct fleet_leases *leases)
{
    struct fleet_query *query;
    while ((query = LIST_FIRST(&leases->put_off, struct fleet_query, link)))
        give_up_put_off(query);
}

void fleet_leases_give_up(struct engine *e)
{
    compile_without_leases(leases_of(e));
    LIST_EACH (&leases_of(e)->active, struct fleet_query, link, query)
        if (!query->is_requesting)
            give_up_waiting(query);
}

/* Returns whether the query's record is requested now. If there are lists, they say when, but when
 * the time is over, the record itself is requested in any case. */
static bool is_due(const struct fleet_query *query, uint64_t now_ns)
{
    if (now_ns >= wait_end_ns(query) || !fleet_listing_is_used(query->shard, now_ns))
        return now_ns >= query->poll_ns;
    return query->is_listed;
}

void fleet_leases_look_again(struct engine *e, uint64_t now_ns)
{
    struct fleet_leases *leases = leases_of(e);
    if (e->fleet->is_broken) {
        fleet_leases_give_up(e);
        return;
    }
    LIST_EACH (&leases->put_off, struct fleet_query, link, query)
        if (!query->answered)
            give_up_put_off(query);
    LIST_EACH (&leases->active, struct fleet_query, link, query) {
        if (query->is_requesting)
            continue;
        if (!query->answered)
            give_up_waiting(query);
        else if (is_due(query, now_ns) && leases->polling < FLEET_POLLS_MAX)
            poll_loose(query, now_ns);
    }
    fleet_listing_request(e, now_ns);
}

/* ---- the lease of one kernel ---- */

static void note_own(struct fleet_leases *leases, const struct digest *key)
{
    leases->own[leases->own_count++ % FLEET_OWN_LEASES_MAX] = digest_hash(key);
}

/* Returns whether this host got the kernel's lease before. Then it must not wait for another host,
 * because no other host will compile the kernel. This host may have the lease but no kernel, for
 * example because the job was cancelled. */
static bool is_own(const struct fleet_leases *leases, const struct digest *key)
{
    unsigned count =
        leases->own_count < FLEET_OWN_LEASES_MAX ? leases->own_count : FLEET_OWN_LEASES_MAX;
    for (unsigned i = 0; i < count; i++)
        if (leases->own[i] == digest_hash(key))
            return true;
    return false;
}

static void discount(struct fleet_query *query)
{
    leases_of(query->shard->engine)->requesting[query->requested_priority] -= query->is_counted;
    query->is_counted = false;
}

/* Also requests other leases, because this kernel is now in the queue of compiles, and the store
 * may take long to answer. */
static void on_slow_lease(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    discount(query);
    query_note_slow(get);
    fleet_leases_next(query->shard->engine);
}

static void on_lease(struct fleet_access *get)
{
    struct fleet_query *query = query_of_access(get);
    struct engine *e = query->shard->engine;
    bool is_ours = fleet_access_ended(e, get);
    query->is_requesting = false;
    discount(query);
    if (is_ours)
        note_own(leases_of(e), &query->key);
    if (get->end == FLEET_END_EXISTS)
        fleet_listing_note_lost(query->shard, get);
    if (get->end == FLEET_END_EXISTS && query->answered && !e->draining) {
        uint64_t now_ns = clock_monotonic_ns();
        begin_waiting(query, now_ns);
        fleet_leases_look_again(e, now_ns);
        fleet_leases_next(e);
        return;
    }
    if (is_ours && query->answered) {
        leases_of(e)->counts[FLEET_LEASE_TAKEN]++;
        fleet_upload_hurry(e->fleet_upload);
    }
    leave_active(query);
    query_give_up(query);
    fleet_leases_next(e);
}

/* Returns whether one more lease of |uid| would exceed the limits. */
static bool is_full(const struct fleet_leases *leases, uid_t uid)
{
    static const struct fair_queue_options limits = { .max = FLEET_LEASES_MAX,
                                                      .max_uid = FLEET_LEASES_MAX_UID,
                                                      .noun = "leases" };
    struct kiln_err ignored = KILN_ERR_INIT;
    unsigned of_user = 0;
    LIST_EACH (&leases->active, const struct fleet_query, link, query)
        of_user += query->turn_uid == uid;
    return fair_queue_check(&limits, leases->active_count, uid, of_user, &ignored) != KILN_OK;
}

static bool may_request(const struct engine *e)
{
    const struct fleet_leases *leases = leases_of(e);
    return leases->state == LEASES_ON && !e->fleet->is_broken && !e->draining &&
           clock_monotonic_ns() >= leases->resume_ns;
}

static bool is_requesting_for(const struct fleet_leases *leases, uid_t uid)
{
    LIST_EACH (&leases->active, const struct fleet_query, link, query)
        if (query->is_counted && query->get.is_put && query->turn_uid == uid)
            return true;
    return false;
}

/* Returns whether this host can soon compile the query's kernel. Prefetches do not count if the
 * kernel is needed now, because they are compiled later. A user who has no kernel in the queue may
 * have one more, because users share the compilers. */
static bool has_room(const struct fleet_query *query)
{
    const struct engine *e = query->shard->engine;
    const unsigned *requesting = leases_of(e)->requesting;
    unsigned slots = e->executor->ops->compile_slots(e->executor);
    unsigned soon =
        compile_queue_ahead(e->queue, query->priority) + requesting[PRIORITY_INTERACTIVE];
    if (query->priority == PRIORITY_PREFETCH)
        soon += requesting[PRIORITY_PREFETCH];
    if (slots == 0 || soon < 2 * slots) /* without a compiler, the kernel fails at once */
        return true;
    return compile_queue_ahead_of(e->queue, query->priority, query->turn_uid) == 0 &&
           !is_requesting_for(leases_of(e), query->turn_uid);
}

/* Starts to add the lease's file to the tree. All leases are added with the same descriptor
 * (nonce_fd), because users can cause tens of thousands of these requests. */
static void add_lease(struct fleet_query *query)
{
    struct engine *e = query->shard->engine;
    struct fleet_leases *leases = leases_of(e);
    query->get = (struct fleet_access){ .is_put = true,
                                        .fd = leases->nonce_fd,
                                        .budget_ms = fleet_wait_left_ms(e->fleet, query->began_ns),
                                        .slow = on_slow_lease,
                                        .done = on_lease };
    join_active(query);
    query->is_requesting = true;
    query->requested_priority = query->priority;
    leases->requesting[query->priority]++;
    query->is_counted = true;
    leases->last_uid = query->turn_uid;
    fleet_name_lease(query->shard->id, &query->key, query->get.name);
    fleet_access_start(e, &query->get);
}

/* Lets the query wait until this host can soon compile its kernel. */
static void put_off(struct fleet_query *query)
{
    struct engine *e = query->shard->engine;
    e->fleet->running++;
    query->is_put_off = true;
    list_append(&leases_of(e)->put_off, &query->link);
}

static void request_now(struct fleet_query *query)
{
    leave_put_off(query);
    query->began_ns = clock_monotonic_ns();
    add_lease(query);
}

static bool is_held(const struct fleet_query *query, struct bytes keys)
{
    const struct fleet_leases *leases = leases_of(query->shard->engine);
    return query->answered && fleet_listing_has(keys, &query->key) &&
           !is_own(leases, &query->key) && !is_full(leases, query->turn_uid);
}

unsigned fleet_leases_note_held(struct shard *shard, struct bytes keys)
{
    const uint64_t now_ns = clock_monotonic_ns();
    unsigned found = 0;
    if (shard->engine->draining)
        return 0;
    LIST_EACH (&leases_of(shard->engine)->put_off, struct fleet_query, link, query) {
        if (query->shard != shard || !is_held(query, keys))
            continue;
        leave_put_off(query);
        join_active(query);
        begin_waiting(query, now_ns);
        found++;
    }
    return found;
}

/* Returns whether the lease of |query| is requested before that of |best|, which was put off
 * earlier and has the same rank. If other hosts need the same kernels, each host takes them in
 * another order. No kernel must wait long because of that. */
static bool is_nearer(const struct fleet_query *query, const struct fleet_query *best)
{
    uint64_t random = query->shard->engine->instance;
    return query->shard->listing.has_rivals && clock_monotonic_ns() - best->began_ns < WAIT_NS &&
           (digest_hash(&query->key) ^ random) < (digest_hash(&best->key) ^ random);
}

/* Returns the query whose lease is requested next, or NULL. A kernel that is needed now comes
 * first. Of equal queries, takes one of another user than the last, if possible. */
static struct fleet_query *next_query(const struct engine *e)
{
    struct fleet_query *best = NULL;
    unsigned best_rank = 0;
    LIST_EACH (&leases_of(e)->put_off, struct fleet_query, link, query) {
        unsigned rank = 1 + 2 * (query->priority == PRIORITY_INTERACTIVE) +
                        (query->turn_uid != leases_of(e)->last_uid);
        bool is_better = rank > best_rank || (rank == best_rank && is_nearer(query, best));
        if (!is_better || !query->answered || !has_room(query))
            continue;
        best = query;
        best_rank = rank;
    }
    return best;
}

static unsigned count_put_off(const struct shard *shard)
{
    unsigned count = 0;
    LIST_EACH (&leases_of(shard->engine)->put_off, const struct fleet_query, link, query)
        count += query->shard == shard;
    return count;
}

static void request_some(struct engine *e)
{
    struct fleet_leases *leases = leases_of(e);
    const uint64_t now_ns = clock_monotonic_ns();
    struct fleet_query *query;
    while ((query = next_query(e))) {
        if (is_full(leases, query->turn_uid) || is_own(leases, &query->key)) {
            give_up_put_off(query);
            continue;
        }
        fleet_listing_request_leases(query->shard, count_put_off(query->shard), now_ns);
        if (fleet_listing_awaits_leases(query->shard, now_ns))
            return; /* fleet_leases_next is called again when the list has ended */
        request_now(query);
    }
}

void fleet_leases_next(struct engine *e)
{
    if (may_request(e))
        request_some(e);
    else
        compile_without_leases(leases_of(e));
}

/* Returns whether fewer queries of |uid| are put off than queries of the same turn before |query|.
 */
static bool is_sooner_as(const struct fleet_query *query, uid_t uid)
{
    const struct fleet_leases *leases = leases_of(query->shard->engine);
    unsigned before = 0, own = 0;
    bool is_before = true;
    LIST_EACH (&leases->put_off, const struct fleet_query, link, other) {
        is_before = is_before && other != query;
        before += is_before && other->turn_uid == query->turn_uid;
        own += other->turn_uid == uid;
    }
    return own < before;
}

/* Answers no query, because the caller uses the requests that wait for the answer. */
void fleet_tier_join(struct fleet_query *query, uid_t uid, enum priority priority)
{
    struct engine *e = query->shard->engine;
    struct fleet_leases *leases = leases_of(e);
    if (priority == PRIORITY_INTERACTIVE)
        query->priority = priority;
    if (!query->is_put_off)
        return;
    if (uid != query->turn_uid && is_sooner_as(query, uid)) {
        query->turn_uid = uid;
        list_remove(&query->link);
        list_append(&leases->put_off, &query->link);
    }
    if (may_request(e) && has_room(query) && !is_full(leases, query->turn_uid))
        request_now(query);
}

bool lease_request(struct fleet_query *query)
{
    struct engine *e = query->shard->engine;
    struct fleet_leases *leases = leases_of(e);
    if (!may_request(e) || query->expected_ns < leases->compile_min_ns ||
        QUEUED_COMPILES * query->expected_ns > WAIT_NS)
        return false;
    if (is_own(leases, &query->key)) {
        fleet_upload_hurry(e->fleet_upload);
        return false;
    }
    if (leases->nonce_fd < 0)
        leases->nonce_fd = fleet_nonce_create();
    if (leases->nonce_fd < 0)
        return false;
    if (!has_room(query) || fleet_listing_awaits_leases(query->shard, query->began_ns)) {
        put_off(query);
        return true;
    }
    if (is_full(leases, query->turn_uid))
        return false;
    add_lease(query);
    return true;
}

/* Requests the records that other hosts will add, and the leases of kernels that this host can soon
 * compile. */
void fleet_leases_tick(struct engine *e, uint64_t now_ns)
{
    fleet_leases_look_again(e, now_ns);
    fleet_leases_next(e);
    fleet_probe_tick(e, now_ns);
}

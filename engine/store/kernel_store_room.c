/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <stdio.h>

/* Whoever adds makes room before: evicts until enough of the file's pages are free, and cuts the
 * file where it is too long. */
#define PAGE STORE_PAGE
#define OVERFLOW_PAGE 4092u /* bytes of a long value in a page of its own */
/* Pages that a put changes beside those that it fills: one or two of each table and index. */
#define TOUCHED (24u * PAGE)
/* What the rows take beside long values: pages that split. */
#define ROW_PAGES 12u
/* Tables and indices without a row. */
#define EMPTY_BYTES (24u * PAGE)
/* Go a twentieth below the limit, so that not every put has to evict ... */
#define ROOM_SHARE 20u
/* ... but hold up the writer by no more than about 10 ms for that. */
#define EXTRA_MAX 256u
#define EVICT_BATCH 32u /* kernels that go in one transaction */
/* A limit that was made smaller takes effect over several writes, each at most this long:
 * kernels (about 0.1 s), pages that move. */
#define EVICT_MAX 2048u
#define MOVE_MAX 4096u
#define GIVE_BACK_STEPS 64u /* in one call of tidy */
/* Rounds of gc: filesystems may take more blocks for a file than it has pages. */
#define ROUNDS_MAX 4u

uint64_t store_need(uint64_t stored_size, uint64_t texts_size)
{
    uint64_t pages = stored_size / OVERFLOW_PAGE + texts_size / OVERFLOW_PAGE + ROW_PAGES;
    pages += pages / 512; /* auto-vacuum's map of who points to whom */
    return pages * PAGE;
}

/* ---- evicting ---- */

struct goal {
    const struct store_own *own; /* NULL: whichever is worth least goes */
    uint64_t enough;             /* stop when at most so many bytes of the file are used */
    uint64_t must;               /* more than this, and it was in vain */
    uint64_t extra_max, most;    /* kernels: below |must|, and in all */
    /* so far */
    uint64_t used, evicted, extra;
    bool repaired, none_left;
};

static bool is_reached(const struct goal *g)
{
    return g->used <= g->enough || g->none_left || g->evicted >= g->most ||
           (g->used <= g->must && g->extra >= g->extra_max);
}

/* Kernels that eviction does not know of, objects of no kernel, and last the evidence of damage. */
static enum kiln_code find_more(struct kernel_store *store, struct goal *g, struct kiln_err *err)
{
    g->none_left = g->repaired || g->own;
    if (g->none_left)
        return KILN_OK;
    g->repaired = true;
    enum kiln_code rc = store_repair(store, err);
    return rc ? rc : store_run(store, KERNEL_FORGET_QUARANTINE, err);
}

/* Whoever has more than his share goes first; where all of his is pinned, whichever is worth
 * least. */
static enum kiln_code evict_fairly(struct kernel_store *store, bool *ret_gone, struct kiln_err *err)
{
    uint32_t uid = 0;
    bool any = false, gone = false;
    enum kiln_code rc = store_find_heaviest(store, &uid, &any, err);
    if (!rc && any)
        rc = store_evict_one(store, &uid, &gone, err);
    if (!rc && !gone)
        rc = store_evict_one(store, /* uid= */ NULL, &gone, err);
    *ret_gone = gone;
    return rc;
}

static enum kiln_code evict_batch(struct kernel_store *store, struct goal *g, struct kiln_err *err)
{
    unsigned batch = store_batch(store) < EVICT_BATCH ? store_batch(store) : EVICT_BATCH;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    for (unsigned i = 0; !rc && i < batch && !is_reached(g); i++) {
        struct store_space s = { 0 };
        bool gone = false;
        rc = g->own ? store_evict_own(store, g->own, &gone, err) : evict_fairly(store, &gone, err);
        if (!rc && !gone)
            rc = find_more(store, g, err);
        if (!rc)
            rc = store_measure(store, &s, err);
        g->used = s.used;
        g->evicted += gone;
        g->extra += gone && g->used <= g->must;
    }
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code evict(struct kernel_store *store, struct goal *g, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && !is_reached(g))
        rc = evict_batch(store, g, err);
    store->giving_back |= g->evicted > 0;
    return rc;
}

/* ---- making room ---- */

static enum kiln_code pinned_bytes(struct kernel_store *store, uint64_t *ret_bytes,
                                   struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!store->pinned_known)
        rc = store_number(store->writer, KERNEL_PINNED_BYTES, &store->pinned_bytes, err);
    store->pinned_known = !rc;
    *ret_bytes = store->pinned_bytes;
    return rc;
}

static void refuse(const struct kernel_store *store, uint64_t need, struct store_room *room)
{
    char a[STORE_SIZE_TEXT], limit[STORE_SIZE_TEXT];
    store_size_text(store->limit_bytes, limit);
    room->never = true;
    if (store->pinned_bytes)
        snprintf(room->why, sizeof(room->why),
                 "pinned kernels take %s of the %s that the kernel cache may have and are never "
                 "evicted: unpin some, or raise the limit",
                 store_size_text(store->pinned_bytes, a), limit);
    else
        snprintf(room->why, sizeof(room->why),
                 "a kernel that takes %s on the disk (compressed, with its rows) is larger than "
                 "the kernel cache may be (%s, a part of it for its log): raise its limit",
                 store_size_text(need, a), limit);
}

static void refuse_own(const struct kernel_store *store, const struct store_own *own,
                       struct store_room *room)
{
    char taken[STORE_SIZE_TEXT], limit[STORE_SIZE_TEXT];
    room->never = true;
    snprintf(room->why, sizeof(room->why),
             "the kernel cache is full (%s of %s), and what a user imports pushes out no other "
             "user's kernels: make room among your own with 'kilnctl clear --own', or have an "
             "administrator run 'kilnctl clear --uid %u' or 'kilnctl gc --to SIZE', or raise "
             "cache_limit",
             store_size_text(store_taken_bytes(store), taken),
             store_size_text(store->limit_bytes, limit), (unsigned)own->uid);
}

static void put_off(struct kernel_store *store, struct store_room *room)
{
    char taken[STORE_SIZE_TEXT], limit[STORE_SIZE_TEXT];
    room->later = true;
    snprintf(room->why, sizeof(room->why),
             "the kernel cache takes %s, its limit is %s: it is being made smaller, and takes new "
             "kernels when that is done",
             store_size_text(store_taken_bytes(store), taken),
             store_size_text(store->limit_bytes, limit));
    if (!store->shrinking)
        store_say(store, KERNEL_NOTICE_TROUBLE, room->why);
    store->shrinking = true;
}

static bool fits(const struct store_space *s, uint64_t need, uint64_t most)
{
    uint64_t after = s->used + need > s->file ? s->used + need : s->file;
    return after <= most && s->blocks <= most;
}

/* Filesystems may give a file more blocks than it has pages: so much less is to be had. */
static enum kiln_code leave_out_spare(struct kernel_store *store, uint64_t *most,
                                      struct kiln_err *err)
{
    struct store_space s = { 0 };
    enum kiln_code rc = db_checkpoint_now(store->writer, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    uint64_t spare = !rc && s.blocks > s.file ? s.blocks - s.file : 0;
    *most -= spare < *most / 2 ? spare : *most / 2;
    return rc;
}

/* Of a user's own none goes that need not. */
static struct goal goal_of(uint64_t need, uint64_t most, const struct store_own *own)
{
    uint64_t below = most - most / ROOM_SHARE;
    struct goal goal = { .own = own, .must = most - need, .most = EVICT_MAX };
    goal.enough = own ? goal.must : below > need ? below - need : 0;
    goal.extra_max = own ? 0 : EXTRA_MAX;
    return goal;
}

static enum kiln_code make_smaller(struct kernel_store *store, uint64_t need, uint64_t most,
                                   const struct store_own *own, struct store_room *room,
                                   struct kiln_err *err)
{
    uint64_t pinned = 0;
    struct store_space s;
    enum kiln_code rc = pinned_bytes(store, &pinned, err);
    if (!rc && need + pinned + EMPTY_BYTES > most) {
        refuse(store, need, room);
        return KILN_OK;
    }
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc)
        return rc;
    struct goal goal = goal_of(need, most, own);
    goal.used = s.used;
    if (s.used > goal.must)
        rc = evict(store, &goal, err);
    room->evicted = goal.evicted;
    if (!rc && goal.used <= goal.must)
        rc = store_cut(store, most, MOVE_MAX, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc)
        return rc;
    if (goal.none_left && s.used > goal.must)
        own ? refuse_own(store, own, room) : refuse(store, need, room);
    else if (s.used > goal.must || (s.file > most && s.used < s.file))
        put_off(store, room);
    else
        store->shrinking = false;
    return KILN_OK;
}

enum kiln_code store_make_room(struct kernel_store *store, uint64_t need,
                               const struct store_own *own, struct store_room *ret_room,
                               struct kiln_err *err)
{
    *ret_room = (struct store_room){ 0 };
    uint64_t limit = store->limit_bytes;
    uint64_t share = store_log_share(limit), log_need = need + TOUCHED;
    uint64_t log_bytes = log_need > share ? log_need : share;
    uint64_t most = limit > log_bytes ? limit - log_bytes : 0;
    struct store_space s;
    enum kiln_code rc = store_bound_log(store, log_bytes - log_need, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc || fits(&s, need, most))
        return rc;
    rc = leave_out_spare(store, &most, err);
    if (!rc)
        rc = make_smaller(store, need, most, own, ret_room, err);
    return rc ? rc : store_bound_log(store, log_bytes - log_need, err);
}

/* ---- for gc and tidy ---- */

static enum kiln_code shrink_round(struct kernel_store *store, uint64_t used_max,
                                   uint64_t *ret_evicted, bool *ret_none_left, struct kiln_err *err)
{
    struct store_space s;
    enum kiln_code rc = store_measure(store, &s, err);
    if (rc)
        return rc;
    struct goal goal = { .must = used_max, .enough = used_max, .most = UINT64_MAX, .used = s.used };
    rc = evict(store, &goal, err);
    *ret_evicted += goal.evicted;
    *ret_none_left = goal.none_left;
    return rc ? rc : store_cut(store, 0, UINT64_MAX, err);
}

enum kiln_code store_shrink_to(struct kernel_store *store, uint64_t most, uint64_t *ret_evicted,
                               struct kiln_err *err)
{
    uint64_t used_max = most;
    bool none_left = false;
    enum kiln_code rc = store_cut(store, 0, UINT64_MAX, err);
    for (unsigned i = 0; !rc && i < ROUNDS_MAX && !none_left; i++) {
        uint64_t taken = store_taken_bytes(store);
        if (taken <= most)
            break;
        if (i > 0)
            used_max = used_max > taken - most ? used_max - (taken - most) : 0;
        rc = shrink_round(store, used_max, ret_evicted, &none_left, err);
    }
    return rc;
}

static enum kiln_code try_to_write(struct kernel_store *store, struct kiln_err *err)
{
    static const int64_t there_and_back[] = { 1, -1 };
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    for (size_t i = 0; !rc && i < 2; i++) {
        QUERY_AUTO struct query q = query_of(store->writer, KERNEL_TRY);
        query_bind_i64(&q, 1, there_and_back[i]);
        rc = query_run(&q, err);
    }
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code tidy_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    bool *more = context;
    struct store_room room = { 0 };
    enum kiln_code rc = KILN_OK;
    if (store->health.state != KERNEL_HEALTH_OK)
        rc = try_to_write(store, err);
    if (!rc)
        rc = store_make_room(store, 0, /* own= */ NULL, &room, err);
    for (unsigned i = 0; !rc && store->giving_back && i < GIVE_BACK_STEPS; i++)
        rc = store_give_back(store, err);
    *more = !rc && (store->giving_back || room.later);
    return rc;
}

enum kiln_code kernel_store_tidy(struct kernel_store *store, bool *ret_more, struct kiln_err *err)
{
    bool more = false;
    enum kiln_code rc = store_write(store, STORE_UNASKED, tidy_work, &more, err);
    if (rc)
        return kiln_while(err, "tidying the kernel cache");
    *ret_more = more;
    return KILN_OK;
}

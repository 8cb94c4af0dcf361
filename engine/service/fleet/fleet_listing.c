/* SPDX-License-Identifier: MIT */
/*
 * Lists: which of the kernels for which this host waits are in the tree, and which leases other
 * hosts have.
 *
 * If a host waits for several kernels that other hosts compile, it lists the directory of their
 * loose records, instead of requesting each record until it is there. If another host had a lease
 * that this host requested, and this host needs several other leases, it lists the leases before it
 * requests another one. In a cold fleet, most requests would otherwise be for absent records and
 * for leases of other hosts. Not all stores can list files, and a list may be too long. Then each
 * file is requested by itself. A list of the store is only a hint.
 */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/fleet/fleet_store.h"
#include "engine/service/fleet/fleet_parts.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000u
/* Minimum number of files for which a list is requested. For Ceph, a list costs as much as three
 * requests for absent files. */
#define FILES_MIN 4u
/* The pause doubles after a list with fewer new records than FILES_MIN, and halves after others. */
#define PAUSE_MIN_NS (1ull * SECOND_NS)
#define PAUSE_MAX_NS (4ull * SECOND_NS)
/* Time without lists after one that failed, was slow or was incomplete, or lacked a record. */
#define REST_NS (300ull * SECOND_NS)
/* Maximum size of a list. A list of S3 has at most 1000 files, each in a line of about 90 bytes. */
#define LIST_MAX (256u << 10)

void fleet_listing_begin_wait(struct shard *shard, uint64_t now_ns)
{
    struct fleet_listing *listing = &shard->listing;
    listing->waits++;
    if (listing->due_ns > now_ns + PAUSE_MIN_NS)
        listing->due_ns = now_ns + PAUSE_MIN_NS;
}

void fleet_listing_end_wait(struct shard *shard) { shard->listing.waits--; }

bool fleet_listing_is_used(const struct shard *shard, uint64_t now_ns)
{
    return shard->listing.waits >= FILES_MIN && now_ns >= shard->listing.resume_ns;
}

static int compare_keys(const void *a, const void *b) { return memcmp(a, b, DIGEST_SIZE); }

bool fleet_listing_has(struct bytes keys, const struct digest *key)
{
    return keys.size > 0 && bsearch(key->bytes, keys.data, keys.size / DIGEST_SIZE, DIGEST_SIZE,
                                    compare_keys) != NULL;
}

/* Reads the keys in a list, and sorts them: there may be many of them, and many queries. */
static void read_keys(struct bytes list, struct buffer *ret_keys)
{
    const size_t digits = DIGEST_HEX_SIZE - 1;
    char hex[DIGEST_HEX_SIZE] = "";
    struct digest key;
    while (list.size > digits) {
        memcpy(hex, list.data, digits);
        if (list.data[digits] == ' ' && digest_from_hex(hex, &key))
            buffer_put(ret_keys, key.bytes, DIGEST_SIZE);
        const uint8_t *newline = memchr(list.data, '\n', list.size);
        if (!newline)
            break;
        size_t line = (size_t)(newline - list.data) + 1;
        list = bytes_of(list.data + line, list.size - line);
    }
    if (ret_keys->size > 0)
        qsort(ret_keys->data, ret_keys->size / DIGEST_SIZE, DIGEST_SIZE, compare_keys);
}

/* Notes the sorted keys in a list. Returns how many of them queries need. */
typedef unsigned note_keys(struct shard *shard, struct bytes keys);

/* Closes |fd|. Returns false if the list could not be read, or is too long. */
static bool read_list(struct shard *shard, int fd, note_keys *note, unsigned *ret_found)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer list;
    BUFFER_AUTO struct buffer keys;
    buffer_init(&list, LIST_MAX);
    buffer_init(&keys, LIST_MAX);
    enum kiln_code rc = fs_read_fd(fd, LIST_MAX, &list, &ignored);
    close(fd);
    if (rc)
        return false;
    read_keys(buffer_view(&list), &keys);
    *ret_found = note(shard, buffer_view(&keys));
    return true;
}

/* Requests no more lists for a while where |list| is from: v1/k/SHARD, or v1/l/SHARD. Both may be
 * different: leases are kept for a day, so their list may be too long. */
static void stop_lists(struct shard *shard, const struct fleet_access *list, uint64_t now_ns)
{
    struct fleet_listing *listing = &shard->listing;
    uint64_t *resume_ns =
        list == &listing->leases ? &listing->leases_resume_ns : &listing->resume_ns;
    *resume_ns = now_ns + REST_NS;
}

void fleet_listing_stop(struct shard *shard, uint64_t now_ns)
{
    stop_lists(shard, &shard->listing.get, now_ns);
    stop_lists(shard, &shard->listing.leases, now_ns);
}

/* Ends a list, and notes its keys. Requests no such lists for a while if this one is not complete.
 */
static unsigned end_list(struct shard *shard, const struct fleet_access *get, note_keys *note,
                         uint64_t now_ns)
{
    unsigned found = 0;
    bool is_read =
        fleet_access_ended(shard->engine, get) && read_list(shard, get->fd, note, &found);
    if (!is_read || get->is_partial)
        stop_lists(shard, get, now_ns);
    return found;
}

static void start_list(struct shard *shard, struct fleet_access *get)
{
    get->is_list = true;
    get->budget_ms = shard->engine->fleet->wait_ms;
    fleet_access_start(shard->engine, get);
}

/* ---- loose records ---- */

static unsigned note_records(struct shard *shard, struct bytes keys)
{
    unsigned found = 0;
    LIST_EACH (&shard->engine->fleet->leases.active, struct fleet_query, link, query) {
        if (query->shard != shard || !query->wait_began_ns || !fleet_listing_has(keys, &query->key))
            continue;
        query->is_listed = true;
        found++;
    }
    return found;
}

static struct shard *shard_of_list(struct fleet_access *get)
{
    return (struct shard *)(void *)((char *)get - offsetof(struct shard, listing.get));
}

static uint64_t next_pause(uint64_t pause_ns, unsigned found)
{
    pause_ns = found < FILES_MIN ? pause_ns * 2 : pause_ns / 2;
    if (pause_ns < PAUSE_MIN_NS)
        return PAUSE_MIN_NS;
    return pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}

static void on_list(struct fleet_access *get)
{
    struct shard *shard = shard_of_list(get);
    struct fleet_listing *listing = &shard->listing;
    struct engine *e = shard->engine;
    uint64_t now_ns = clock_monotonic_ns();
    unsigned found = end_list(shard, get, note_records, now_ns);
    listing->is_requesting = false;
    listing->pause_ns = next_pause(listing->pause_ns, found);
    listing->due_ns = now_ns + listing->pause_ns;
    fleet_leases_look_again(e, now_ns);
}

/* The records are requested one by one. If the store does not answer that either, the waits end. */
static void on_slow_list(struct fleet_access *get)
{
    struct shard *shard = shard_of_list(get);
    uint64_t now_ns = clock_monotonic_ns();
    stop_lists(shard, get, now_ns);
    fleet_leases_look_again(shard->engine, now_ns);
}

static void request_list(struct shard *shard)
{
    struct fleet_listing *listing = &shard->listing;
    listing->is_requesting = true;
    listing->get = (struct fleet_access){ .slow = on_slow_list, .done = on_list };
    fleet_name_loose_directory(shard->id, listing->get.name);
    start_list(shard, &listing->get);
}

void fleet_listing_request(struct engine *e, uint64_t now_ns)
{
    if (e->draining)
        return;
    LIST_EACH (&e->fleet->shards, struct shard, link, shard)
        if (fleet_listing_is_used(shard, now_ns) && !shard->listing.is_requesting &&
            now_ns >= shard->listing.due_ns)
            request_list(shard);
}

/* ---- leases ---- */

static struct shard *shard_of_leases(struct fleet_access *get)
{
    return (struct shard *)(void *)((char *)get - offsetof(struct shard, listing.leases));
}

/* A lease that was requested before the last list was may be in that list. */
void fleet_listing_note_lost(struct shard *shard, const struct fleet_access *put)
{
    struct fleet_listing *listing = &shard->listing;
    listing->has_rivals = true;
    listing->is_old |= put->sent_ns >= listing->leases.sent_ns;
}

static void on_leases(struct fleet_access *get)
{
    struct shard *shard = shard_of_leases(get);
    uint64_t now_ns = clock_monotonic_ns();
    (void)end_list(shard, get, fleet_leases_note_held, now_ns);
    shard->listing.is_requesting_leases = false;
    fleet_leases_look_again(shard->engine, now_ns);
    fleet_leases_next(shard->engine);
}

static void on_slow_leases(struct fleet_access *get)
{
    struct shard *shard = shard_of_leases(get);
    stop_lists(shard, get, clock_monotonic_ns());
    fleet_leases_next(shard->engine);
}

bool fleet_listing_awaits_leases(const struct shard *shard, uint64_t now_ns)
{
    return shard->listing.is_requesting_leases && now_ns >= shard->listing.leases_resume_ns;
}

void fleet_listing_request_leases(struct shard *shard, unsigned put_off, uint64_t now_ns)
{
    struct fleet_listing *listing = &shard->listing;
    if (listing->is_requesting_leases || !listing->is_old || put_off < FILES_MIN ||
        now_ns < listing->leases_resume_ns)
        return;
    listing->is_old = false;
    listing->is_requesting_leases = true;
    listing->leases = (struct fleet_access){ .slow = on_slow_leases, .done = on_leases };
    fleet_name_lease_directory(shard->id, listing->leases.name);
    start_list(shard, &listing->leases);
}

/* SPDX-License-Identifier: MIT */
/*
 * Lists: which of the kernels for which this host waits are in the tree.
 *
 * If a host waits for several kernels that other hosts compile, it lists the directory of their
 * loose records, instead of requesting each record until it is there. In a cold fleet, the requests
 * for absent records would be most of all requests. Not all stores can list files, and a list may
 * be too long. Then each record is requested by itself. A list of the store is only a hint.
 */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/fleet/fleet_store.h"
#include "engine/service/fleet/fleet_parts.h"

#include <string.h>

#define SECOND_NS 1000000000u
/* Minimum number of waits for which a list is requested. For Ceph, a list costs as much as three
 * requests for absent files. */
#define WAITS_MIN 4u
/* The pause doubles after a list with fewer new records than WAITS_MIN, and halves after others. */
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
    return shard->listing.waits >= WAITS_MIN && now_ns >= shard->listing.resume_ns;
}

/* Notes that the record of |key| is there. Returns whether a query waits for it. */
static bool note_listed(struct shard *shard, const struct digest *key)
{
    LIST_EACH (&shard->engine->fleet->leases.active, struct fleet_query, link, query) {
        if (query->shard != shard || !digest_equal(&query->key, key))
            continue;
        query->is_listed = query->wait_began_ns != 0;
        return query->is_listed;
    }
    return false;
}

/* Notes the records in a list. Returns how many of them queries wait for. */
static unsigned note_all_listed(struct shard *shard, struct bytes list)
{
    const size_t digits = DIGEST_HEX_SIZE - 1;
    char hex[DIGEST_HEX_SIZE] = "";
    struct digest key;
    unsigned found = 0;
    while (list.size > digits) {
        memcpy(hex, list.data, digits);
        if (list.data[digits] == ' ' && digest_from_hex(hex, &key))
            found += note_listed(shard, &key);
        const uint8_t *newline = memchr(list.data, '\n', list.size);
        if (!newline)
            break;
        size_t line = (size_t)(newline - list.data) + 1;
        list = bytes_of(list.data + line, list.size - line);
    }
    return found;
}

/* Closes |fd|. Returns false if the list could not be read, or is too long. */
static bool read_list(struct shard *shard, int fd, unsigned *ret_found)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer list;
    buffer_init(&list, LIST_MAX);
    enum kiln_code rc = fs_read_fd(fd, LIST_MAX, &list, &ignored);
    close(fd);
    if (!rc)
        *ret_found = note_all_listed(shard, buffer_view(&list));
    return rc == KILN_OK;
}

static struct shard *shard_of_list(struct fleet_access *get)
{
    return (struct shard *)(void *)((char *)get - offsetof(struct shard, listing.get));
}

void fleet_listing_stop(struct shard *shard, uint64_t now_ns)
{
    shard->listing.resume_ns = now_ns + REST_NS;
}

static uint64_t next_pause(uint64_t pause_ns, unsigned found)
{
    pause_ns = found < WAITS_MIN ? pause_ns * 2 : pause_ns / 2;
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
    unsigned found = 0;
    bool is_read = fleet_access_ended(e, get) && read_list(shard, get->fd, &found);
    listing->is_requesting = false;
    if (!is_read || get->is_partial)
        fleet_listing_stop(shard, now_ns);
    listing->pause_ns = next_pause(listing->pause_ns, found);
    listing->due_ns = now_ns + listing->pause_ns;
    fleet_leases_look_again(e, now_ns);
}

/* The records are requested one by one. If the store does not answer that either, the waits end. */
static void on_slow_list(struct fleet_access *get)
{
    struct shard *shard = shard_of_list(get);
    uint64_t now_ns = clock_monotonic_ns();
    fleet_listing_stop(shard, now_ns);
    fleet_leases_look_again(shard->engine, now_ns);
}

static void request_list(struct shard *shard)
{
    struct fleet_listing *listing = &shard->listing;
    listing->is_requesting = true;
    listing->get = (struct fleet_access){ .is_list = true,
                                          .budget_ms = shard->engine->fleet->wait_ms,
                                          .slow = on_slow_list,
                                          .done = on_list };
    fleet_name_loose_directory(shard->id, listing->get.name);
    fleet_access_start(shard->engine, &listing->get);
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

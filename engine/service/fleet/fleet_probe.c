/* SPDX-License-Identifier: MIT */
/* Finds out whether the fleet's store can give leases: whether it honours If-None-Match. */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/jitter.h"
#include "engine/service/fleet/fleet_parts.h"

#include <stdio.h>
#include <sys/random.h>

#define PROBE_PAUSE_NS 60000000000u

int fleet_nonce_create(void)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    uint64_t random;
    char text[32];
    int fd = -1;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random) ||
        fs_memfd("fleet-lease", &fd, &ignored))
        return -1;
    snprintf(text, sizeof(text), "%016llx\n", (unsigned long long)random);
    if (fs_write_all(fd, bytes_of_text(text), &ignored))
        fd_auto(&fd);
    return fd;
}

static struct fleet_leases *leases_of_probe(struct fleet_access *probe)
{
    return (struct fleet_leases *)(void *)((char *)probe - offsetof(struct fleet_leases, probe));
}

static void judge_store(struct fleet_leases *leases, enum fleet_end end)
{
    if (end == FLEET_END_EXISTS) {
        leases->state = LEASES_ON;
    } else if (end == FLEET_END_DONE) {
        leases->state = LEASES_OFF;
        fleet_report_error(leases->engine,
                           "the store replaces files in spite of If-None-Match: several hosts may "
                           "compile the same kernel at the same time");
    }
}

static void add_probe(struct fleet_leases *leases);

static void on_probe(struct fleet_access *probe)
{
    struct fleet_leases *leases = leases_of_probe(probe);
    close(probe->fd);
    bool is_added = fleet_access_ended(leases->engine, probe);
    leases->is_probing = false;
    leases->has_probe_ended = true;
    leases->probe_end = probe->end;
    if (leases->is_second)
        judge_store(leases, probe->end);
    leases->is_second = is_added && !leases->is_second;
    if (leases->is_second && !leases->engine->draining)
        add_probe(leases);
}

/* Tries to add a file with a random name. A second probe uses the same name again: if it succeeds,
 * too, the store has replaced the file, and cannot give leases. */
static void add_probe(struct fleet_leases *leases)
{
    char name[FLEET_FILE_NAME_MAX];
    uint64_t random;
    int fd = fleet_nonce_create();
    if (fd < 0 || getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        fd_auto(&fd);
        return;
    }
    if (leases->is_second)
        snprintf(name, sizeof(name), "%s", leases->probe.name);
    else
        fleet_name_probe(random, name);
    leases->is_probing = true;
    leases->probe = (struct fleet_access){ .is_put = true, .fd = fd, .done = on_probe };
    snprintf(leases->probe.name, sizeof(leases->probe.name), "%s", name);
    fleet_access_start(leases->engine, &leases->probe);
}

/* Probes the store until it is known whether it can give leases. A probe also finds out whether a
 * broken store works again. The refresh of an index does the same, but if the store was broken when
 * kilnd started, there is no index yet. */
void fleet_probe_tick(struct engine *e, uint64_t now_ns)
{
    struct fleet_leases *leases = &e->fleet->leases;
    bool may_ask = !e->fleet->is_broken || now_ns >= e->fleet->retry_ns;
    if (leases->state != LEASES_UNKNOWN || leases->is_probing || !may_ask ||
        now_ns < leases->probe_ns)
        return;
    leases->engine = e;
    leases->probe_ns = now_ns + jitter_shorten(PROBE_PAUSE_NS);
    leases->is_second = false;
    if (e->fleet->is_broken)
        fleet_note_attempt(e->fleet, now_ns);
    add_probe(leases);
}

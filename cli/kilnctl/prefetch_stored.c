/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_stored.h"

#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/nap.h"
#include "common/base/units.h"

#include <string.h>

#define NAP_MS 20
/* kilnd's disk counts as hanging after this many pauses without progress (10 minutes). */
#define NAPS_MAX (10u * 60 * 1000 / NAP_MS)

struct puts {
    uint64_t given, ended, lost;
    bool writable;
};

/* Repeats the request while kilnd is busy: many ranks may prefetch at the same time, and kilnd
 * limits the administration requests of a user. */
static int ask_in_turn(const struct invocation *invocation, const char *request,
                       const struct json *arguments, struct json **ret_answer,
                       struct kiln_error *err)
{
    int rc = admin_ask(invocation, request, arguments, ret_answer, err);
    for (unsigned naps = 0; rc == KILN_E_BUSY && naps < NAPS_MAX; naps++) {
        nap_ms(NAP_MS);
        *err = (struct kiln_error){ 0 };
        rc = admin_ask(invocation, request, arguments, ret_answer, err);
    }
    return rc;
}

static int read_puts(const struct invocation *invocation, struct puts *ret_puts,
                     struct kiln_error *err)
{
    KILN_AUTO(json) struct json *stats = NULL;
    int rc = ask_in_turn(invocation, "stats", admin_no_arguments, &stats, err);
    if (rc)
        return rc;
    uint64_t lost = json_get_u64(stats, "puts_lost", 0);
    *ret_puts = (struct puts){ .given = json_get_u64(stats, "puts", 0),
                               .ended = json_get_u64(stats, "puts_kept", 0) + lost,
                               .lost = lost,
                               .writable = json_get_bool(stats, "store_writable", true) };
    return KILN_E_OK;
}

int prefetch_stored_begin(const struct invocation *invocation, struct prefetch_stored *ret_kept,
                          struct kiln_error *err)
{
    struct puts puts = { 0 };
    int rc = read_puts(invocation, &puts, err);
    ret_kept->lost_before = puts.lost;
    return rc;
}

/* Waits until kilnd has written the kernels that were queued when this function began. kilnd writes
 * in order, so kernels that are queued meanwhile do not prolong this. */
static int wait_for_puts(const struct invocation *invocation, struct puts *ret_puts,
                         struct kiln_error *err)
{
    int rc = read_puts(invocation, ret_puts, err);
    uint64_t given = ret_puts->given, ended = ret_puts->ended;
    unsigned naps = 0;
    while (!rc && ret_puts->ended < given &&
           ret_puts->given >= given) { /* a smaller number means that kilnd was restarted */
        if (naps++ == NAPS_MAX)
            return cli_fail(err, KILN_E_TIMED_OUT,
                            "kilnd is still writing kernels to its disk after %u s",
                            NAPS_MAX / 1000 * NAP_MS);
        nap_ms(NAP_MS);
        rc = read_puts(invocation, ret_puts, err);
        naps = ret_puts->ended > ended ? 0 : naps;
        ended = ret_puts->ended;
    }
    return rc;
}

/* Counts the prefetched kernels that are not on disk. Asks for each one: kilnd's counter of lost
 * kernels includes those of other users, and the disk may have been full for only some of the
 * kernels. */
static int count_not_stored(const struct invocation *invocation,
                            const struct prefetch_report *report, uint64_t *ret_count,
                            struct kiln_error *err)
{
    uint64_t count = 0;
    int rc = KILN_E_OK;
    HASH_ALL (&report->kernels, struct prefetch_kernel, link, kernel) {
        if (!kernel->in_memory)
            continue;
        KILN_AUTO(json) struct json *ask = json_object();
        KILN_AUTO(json) struct json *shown = NULL;
        json_set_text(ask, "key", kernel->key);
        rc = ask_in_turn(invocation, "kernel_show", ask, &shown, err);
        count += rc == KILN_E_NOT_FOUND;
        if (rc == KILN_E_NOT_FOUND) {
            *err = (struct kiln_error){ 0 };
            rc = KILN_E_OK;
        }
        if (rc)
            return rc;
    }
    *ret_count = count;
    return KILN_E_OK;
}

static int fail_not_stored(const struct json *store, uint64_t lost, struct kiln_error *err)
{
    char kernels[UNITS_TEXT_MAX];
    const char *why = json_get_text(store, "trouble", "kilnd's log says why: journalctl -u kilnd");
    bool full = strcmp(json_get_text(store, "health", ""), "full") == 0;
    int code = full ? KILN_E_FULL : KILN_E_IO;
    return cli_fail(err, code, "%s not stored, so lost when kilnd stops: %.400s",
                    units_kernels(lost, kernels), why);
}

int prefetch_stored_check(const struct invocation *invocation, const struct prefetch_stored *kept,
                          struct prefetch_report *report, struct kiln_error *err)
{
    struct puts puts = { 0 };
    KILN_AUTO(json) struct json *status = NULL;
    int rc = wait_for_puts(invocation, &puts, err);
    if (rc || (puts.lost <= kept->lost_before && puts.writable))
        return rc;
    rc = ask_in_turn(invocation, "status", admin_no_arguments, &status, err);
    const struct json *store = json_get(status, "store");
    if (rc || strcmp(json_get_text(store, "mode", "on"), "on") != 0)
        return rc;
    rc = count_not_stored(invocation, report, &report->not_stored, err);
    return rc || report->not_stored == 0 ? rc : fail_not_stored(store, report->not_stored, err);
}

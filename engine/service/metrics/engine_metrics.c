/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/request_metrics.h"

#include <stdio.h>
#include <strings.h>

#define COMPILE_UNKNOWN_NS 1000000000u

enum kiln_code metrics_open(struct engine_metrics *f, struct kiln_err *err)
{
    f->started = clock_wall_s();
    enum kiln_code rc = accounting_create(&f->accounting, err);
    if (!rc)
        f->accounting->since = f->started;
    return rc;
}

void metrics_close(struct engine_metrics *f) { accounting_destroy(f->accounting); }

struct toolchain_metrics *metrics_of_toolchain(struct engine_metrics *f, struct bytes name)
{
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        if (bytes_equal_text(name, f->toolchains[i].name))
            return &f->toolchains[i];
    }
    struct toolchain_metrics *row = &f->toolchains[METRICS_TOOLCHAINS - 1];
    if (f->toolchain_count >= METRICS_TOOLCHAINS - 1) {
        f->toolchain_count = METRICS_TOOLCHAINS;
        snprintf(row->name, sizeof(row->name), "others");
        return row;
    }
    row = &f->toolchains[f->toolchain_count++];
    snprintf(row->name, sizeof(row->name), "%.*s", (int)name.size, (const char *)name.data);
    return row;
}

void metrics_compile_ended(struct engine_metrics *f, struct bytes toolchain, unsigned result,
                           uint64_t wall_ns)
{
    struct toolchain_metrics *row = metrics_of_toolchain(f, toolchain);
    histogram_observe(&row->duration, wall_ns, 1);
    row->results[result]++;
    f->compile_us += wall_ns / 1000;
}

uint64_t metrics_compile_expected(const struct engine_metrics *f, struct bytes toolchain)
{
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        const struct histogram *duration = &f->toolchains[i].duration;
        uint64_t count = histogram_count(duration);
        if (count > 0 && bytes_equal_text(toolchain, f->toolchains[i].name))
            return duration->sum_ns / count;
    }
    return COMPILE_UNKNOWN_NS;
}

const char *metrics_compile_result(unsigned result)
{
    return result == COMPILED_INVALID ? "invalid" : compile_end_name((enum compile_end)result);
}

static enum transfer_op transfer_op_of(const char *url)
{
    static const char file[] = "file:";
    return url && strncasecmp(url, file, sizeof(file) - 1) != 0 ? TRANSFER_DOWNLOAD : TRANSFER_COPY;
}

void metrics_transfer_ended(struct engine_metrics *f, enum transfer_tier tier, const char *url,
                            enum kiln_code code)
{
    f->transfers[tier][transfer_op_of(url)][code]++;
}

static bool is_limit(unsigned code) { return code == KILN_BUSY || code == KILN_FULL; }

static bool is_marked(const struct request_mark *mark, const struct caller *caller, uint64_t id)
{
    return mark->caller == caller && mark->id == id;
}

/* Corrects the count of a deferred request that is refused after it was counted as successful. */
static void recount_ended_request(struct engine_metrics *f, enum kiln_code code)
{
    f->requests[f->ended.type][f->ended.code]--;
    f->rejections -= is_limit(f->ended.code);
    request_count(f, f->ended.type, code);
    f->ended.code = (uint16_t)code;
}

static bool mark_waiter(const struct caller *caller, uint64_t id, enum kiln_code code)
{
    LIST_EACH (&caller->unanswered, struct deferred, link, w) {
        if (w->request_id != id)
            continue;
        w->code = (uint16_t)code;
        return true;
    }
    return false;
}

/* If a client uses an id twice, the error may be counted for the wrong one of two requests. */
void request_refused(struct engine_metrics *f, const struct caller *caller, uint64_t id,
                     enum kiln_code code)
{
    struct deferred *newest = LIST_FIRST(&caller->unanswered, struct deferred, link);
    bool handled = f->handled.caller != NULL;
    if (handled && is_marked(&f->ended, caller, id)) {
        recount_ended_request(f, code);
    } else if (handled && is_marked(&f->handled, caller, id)) {
        f->handled.code = (uint16_t)code;
        if (newest && newest->request_id == id)
            newest->code = (uint16_t)code;
    } else if (!mark_waiter(caller, id, code) && is_marked(&f->ended, caller, id)) {
        recount_ended_request(f, code);
    }
}

void metrics_result_failed(struct engine_metrics *f, enum kiln_code code)
{
    f->rejections += is_limit(code);
}

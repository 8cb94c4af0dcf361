/* SPDX-License-Identifier: MIT */
#include "daemon/workers/sandbox_reports.h"

#include "common/log/log.h"
#include "daemon/workers/worker.h"

static void log_missing_layers(struct sandbox_reports *r)
{
    char missing[LAYERS_TEXT_MAX];
    uint32_t lacks = LAYERS_ALL & ~r->latest.has;
    if ((lacks & ~r->logged) == 0)
        return;
    r->logged |= lacks;
    report_missing(&r->latest, missing);
    log_event(LOG_EVENT_compiler_notice, NULL,
              "compilers run without these layers of their sandbox: %s; to do: %s (%s)", missing,
              report_advice(&r->latest), r->latest.why);
}

void sandbox_reports_add(struct sandbox_reports *r, const struct sandbox_report *report)
{
    r->is_known = true;
    r->is_refused = false;
    r->latest = *report;
    log_missing_layers(r);
}

void sandbox_reports_refuse(struct sandbox_reports *r, const struct sandbox_report *report)
{
    r->is_known = r->is_refused = true;
    r->latest = *report;
}

struct sandbox_report sandbox_reports_worst(const struct sandbox_reports *r,
                                            const struct list *workers)
{
    struct sandbox_report worst = { .has = LAYERS_ALL, .landlock = UINT32_MAX };
    if (r->is_refused)
        report_worsen(&worst, &r->latest);
    LIST_EACH (workers, const struct worker, link, w) {
        if (w->state != WORKER_STARTING && w->state != WORKER_GONE)
            report_worsen(&worst, &w->sandbox);
    }
    return worst.landlock == UINT32_MAX ? r->latest : worst;
}

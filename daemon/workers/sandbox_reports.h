/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What compiler processes report about the layers of their sandbox.
 *
 * Role       logs layers that are missing, once; knows how the processes are confined
 * Ownership  plain values; embed it, zeroed
 * Threading  the loop's thread
 */
#include "common/base/list.h"
#include "engine/sandbox/layers.h"

struct sandbox_reports {
    bool is_known;                /* a process has reported: */
    struct sandbox_report latest; /* the latest report, also of a process that was killed for it */
    bool is_refused;              /* the latest report led to a kill */
    uint32_t logged;              /* layers that were logged as missing */
};

/* A process is ready. Logs one line for all processes, and another one only if a further layer is
 * missing. */
void sandbox_reports_add(struct sandbox_reports *reports, const struct sandbox_report *report);
/* Call it when a process was killed because of its report. */
void sandbox_reports_refuse(struct sandbox_reports *reports, const struct sandbox_report *report);
/* The layers that all living |workers| have. */
struct sandbox_report sandbox_reports_worst(const struct sandbox_reports *reports,
                                            const struct list *workers);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What compiler processes report about the layers of their sandbox.
 *
 * Role       stores how the processes are confined, and logs missing layers once
 * Ownership  plain values; the caller embeds the struct, zeroed
 * Threading  the loop's thread
 */
#include "common/base/list.h"
#include "engine/sandbox/layers.h"

struct sandbox_reports {
    bool is_known;
    /* The report of the newest process, even if the process was killed because of this report. */
    struct sandbox_report latest;
    bool is_refused; /* a process was killed because of the latest report */
    uint32_t logged; /* layers that were logged as missing */
};

/* Logs the layers that are missing, unless all of them were already logged. */
void sandbox_reports_add(struct sandbox_reports *reports, const struct sandbox_report *report);
void sandbox_reports_refuse(struct sandbox_reports *reports, const struct sandbox_report *report);
/* Returns the layers that all running |workers| have. */
struct sandbox_report sandbox_reports_worst(const struct sandbox_reports *reports,
                                            const struct list *workers);

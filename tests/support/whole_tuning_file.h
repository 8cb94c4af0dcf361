/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads a whole tuning file in one call, where kilnd makes many small steps. */
#include "engine/miopen/tuning_reader.h"

static inline enum kiln_code tuning_text_read(enum tuning_kind kind, struct bytes text,
                                              const struct tuning_reader_events *events,
                                              struct kiln_err *err)
{
    KILN_AUTO(tuning_text_reader) struct tuning_text_reader *r = NULL;
    enum kiln_code rc = tuning_text_reader_create(kind, text, &r, err);
    for (bool more = true; !rc && more;)
        rc = tuning_text_reader_step(r, events, UINT64_MAX, &more, err);
    return rc;
}

static inline enum kiln_code perf_db_read(const char *path,
                                          const struct tuning_reader_events *events,
                                          struct kiln_err *err)
{
    KILN_AUTO(perf_db_reader) struct perf_db_reader *r = NULL;
    enum kiln_code rc = perf_db_reader_open(path, &r, err);
    for (bool more = true; !rc && more;)
        rc = perf_db_reader_step(r, events, UINT64_MAX, &more, err);
    return rc;
}

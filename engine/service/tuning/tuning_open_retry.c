/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_open_retry.h"

#include "common/clock.h"

#include <stdio.h>
#include <string.h>

#define RETRY_EVERY_NS 10000000000u

struct opening {
    struct task task; /* first member */
    struct engine *engine;
    struct tuning_options options; /* as when it began; the folder is the engine's */
    struct tuning *tuning;         /* owned */
    char notice[512];
    enum kiln_code rc;
    struct kiln_err err;
};

#ifdef KILN_DISABLE_USERDB
#define WITHOUT_USER true
#else
#define WITHOUT_USER false
#endif
#ifdef KILN_DISABLE_SYSDB
#define WITHOUT_SYSTEM true
#else
#define WITHOUT_SYSTEM false
#endif

/* What the disk may let us do later: room is made, a mount comes back, a mode is corrected. */
static bool may_pass(enum kiln_code rc)
{
    return rc == KILN_IO || rc == KILN_FULL || rc == KILN_DENIED || rc == KILN_BUSY ||
           rc == KILN_NOT_FOUND || rc == KILN_UNAVAILABLE || rc == KILN_CORRUPT;
}

static void note_trouble(struct engine *e, const struct kiln_err *why)
{
    snprintf(e->tuning_trouble, sizeof(e->tuning_trouble), "%s", why->text);
    e->tuning_retry_ns = clock_monotonic_ns() + RETRY_EVERY_NS;
}

enum kiln_code tuning_open_retry_begin(struct engine *e, const struct engine_options *options,
                                       struct kiln_err *err)
{
    enum kiln_code rc = lease_table_create(&e->leases, err);
    if (rc)
        return rc;
    e->tuning_options = (struct tuning_options){ .data = options->data,
                                                 .without_user = WITHOUT_USER,
                                                 .without_system = WITHOUT_SYSTEM,
                                                 .records_per_uid = options->tuning_records_per_uid,
                                                 .bytes_per_uid = options->tuning_bytes_per_uid,
                                                 .stale = options->tuning_stale };
    if (options->state_directory &&
        !(e->tuning_options.directory = strdup(options->state_directory)))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the tuning databases: out of memory");
    rc = tuning_open(&e->tuning_options, &e->tuning, e->tuning_notice, err);
    if (!rc || !may_pass(rc) || !options->state_directory)
        return rc;
    note_trouble(e, err);
    return KILN_OK;
}

void tuning_open_retry_tell(struct engine *e)
{
    if (e->tuning_notice[0])
        event_report(e, "tuning_notice", e->tuning_notice);
    if (!e->tuning && e->tuning_options.directory)
        event_report(e, "tuning_unavailable", e->tuning_trouble);
}

void tuning_open_retry_set_limits(struct engine *e, const struct engine_options *options)
{
    e->tuning_options.records_per_uid = options->tuning_records_per_uid;
    e->tuning_options.bytes_per_uid = options->tuning_bytes_per_uid;
    e->tuning_options.stale = options->tuning_stale;
    if (e->tuning)
        tuning_set_limits(e->tuning, &e->tuning_options);
}

void tuning_open_retry_end(struct engine *e)
{
    tuning_destroy(e->tuning);
    lease_table_destroy(e->leases);
    free((char *)e->tuning_options.directory);
}

/* ---- another try ---- */

static void open_work(struct task *task)
{
    struct opening *o = (struct opening *)task;
    o->rc = tuning_open(&o->options, &o->tuning, o->notice, &o->err);
}

static void open_done(struct task *task)
{
    struct opening *o = (struct opening *)task;
    struct engine *e = o->engine;
    engine_task_ended(e);
    e->tuning_opening = false;
    if (o->rc) {
        note_trouble(e, &o->err);
    } else {
        e->tuning = o->tuning;
        tuning_set_limits(e->tuning, &e->tuning_options); /* which may be others by now */
        e->tuning_trouble[0] = '\0';
        memcpy(e->tuning_notice, o->notice, sizeof(o->notice));
        event_note(e, "tuning_available", "the tuning databases could be opened");
        tuning_open_retry_tell(e);
    }
    free(o);
}

void tuning_open_retry_tick(struct engine *e)
{
    if (e->tuning || e->tuning_opening || e->draining || !e->tuning_options.directory ||
        clock_monotonic_ns() < e->tuning_retry_ns)
        return;
    struct opening *o = calloc(1, sizeof(*o));
    if (!o)
        return;
    o->task = (struct task){ .work = open_work, .done = open_done };
    o->engine = e;
    o->options = e->tuning_options;
    o->err = KILN_ERR_INIT;
    e->tuning_opening = true;
    engine_run(e, LANE_TUNING, &o->task);
}

struct json *tuning_open_retry_describe(const struct engine *e)
{
    struct json *j = json_object();
    json_set_bool(j, "available", e->tuning != NULL);
    if (!e->tuning)
        json_set_text(j, "trouble", e->tuning_trouble);
    if (e->tuning_notice[0])
        json_set_text(j, "notice", e->tuning_notice);
    return j;
}

/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/packages_state.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/jobs/transfer_limits.h"
#include "engine/topology/kfd.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Time between two rescans. They may be frequent, because they call stat(2) on only a few
 * directories and files. */
#define RESCAN_EVERY_NS 2000000000u
/* Name of the file that lists the missing packages that were already reported, and the boot in
 * which they were reported. */
#define REPORTED_FILE "package-missing.reported"

struct rescan {
    struct task task;
    struct engine *engine;
    struct json *events;
    bool changed;
    enum kiln_code rc;
    struct kiln_err err;
};

static void add_event(struct rescan *r, const char *event, const char *text)
{
    struct json *j = json_object();
    json_set_text(j, "event", event);
    json_set_text(j, "text", text);
    json_append(r->events, j);
}

static void note_change(void *context, const struct package_change *change)
{
    struct rescan *r = context;
    char text[512];
    const struct package_info *info = &change->info;
    r->changed = true;
    if (change->appeared)
        snprintf(text, sizeof(text), "package '%s' is in use", info->name);
    else
        snprintf(text, sizeof(text), "package '%s' is no longer used", info->name);
    add_event(r, change->appeared ? "package_appeared" : "package_gone", text);
}

static void note_refusal(void *context, const char *text)
{
    add_event(context, "package_refused", text);
}

static void rescan_work(struct task *task)
{
    struct rescan *r = (struct rescan *)task;
    r->rc = package_set_rescan(r->engine->packages, note_change, note_refusal, r, &r->err);
}

static void report_event(struct engine *e, const char *event, const char *text)
{
    if (strcmp(event, "package_refused") == 0)
        event_report(e, event, text);
    else
        event_note(e, event, text);
}

static void report_events(struct rescan *r)
{
    if (r->rc)
        event_report(r->engine, "package_error", r->err.text);
    for (const struct json *j = json_first(r->events); j; j = json_next(j))
        report_event(r->engine, json_get_text(j, "event", ""), json_get_text(j, "text", ""));
    json_destroy(r->events);
}

static void rescan_done(struct task *task)
{
    struct rescan *r = (struct rescan *)task;
    struct engine *e = r->engine;
    engine_task_ended(e);
    e->package_service->is_rescanning = false;
    if (r->changed)
        engine_forget_answers(e);
    report_events(r);
    free(r);
}

void packages_tick(struct engine *e)
{
    uint64_t now = clock_monotonic_ns();
    if (e->package_service->is_rescanning || now < e->package_service->rescan_at_ns ||
        !e->package_service->directory[0])
        return;
    e->package_service->rescan_at_ns = now + RESCAN_EVERY_NS;
    struct rescan *r = calloc(1, sizeof(*r));
    if (!r)
        return;
    r->task = (struct task){ .work = rescan_work, .done = rescan_done };
    r->engine = e;
    r->events = json_array();
    r->err = KILN_ERR_INIT;
    e->package_service->is_rescanning = true;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &r->task);
}

struct coverage {
    struct task task;
    struct engine *engine;
    struct json *lines;
};

static bool reported_since_boot(const struct engine *e, const char *lines)
{
    char path[PATH_MAX];
    BUFFER_AUTO struct buffer boot, reported;
    buffer_init(&boot, 4096);
    buffer_init(&reported, 64u << 10);
    struct kiln_err ignored = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s/" REPORTED_FILE, e->package_service->directory);
    if (fs_read_file("/proc/sys/kernel/random/boot_id", 4096, &boot, &ignored))
        return false;
    buffer_put(&boot, lines, strlen(lines));
    if (fs_read_file(path, 64u << 10, &reported, &ignored) == KILN_OK &&
        bytes_equal(buffer_view(&reported), buffer_view(&boot)))
        return true;
    if (fs_replace_file(path, buffer_view(&boot), 0644, &ignored))
        return false;
    return false;
}

/* Returns whether no earlier GPU has the same database id. A missing package is reported once for
 * each database id, not once for each GPU. */
static bool is_first_of_its_kind(const struct gpu *gpus, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(gpus[i].database_id, gpus[index].database_id) == 0)
            return false;
    }
    return true;
}

static void coverage_work(struct task *task)
{
    struct coverage *c = (struct coverage *)task;
    struct engine *e = c->engine;
    KILN_AUTO(mem) struct gpu *gpus = calloc(GPUS_MAX, sizeof(*gpus));
    size_t count = 0;
    char skipped[256];
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!gpus ||
        kfd_gpus(e->package_service->kfd_directory, gpus, &count, skipped, &ignored) != KILN_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        char line[PACKAGE_MISSING_TEXT];
        if (is_first_of_its_kind(gpus, i) &&
            package_set_missing(e->packages, gpus[i].database_id, line))
            json_append(c->lines, json_text(line));
    }
    KILN_AUTO(mem) char *text = json_print(c->lines, false);
    if (!text || (json_count(c->lines) > 0 && reported_since_boot(e, text))) {
        json_destroy(c->lines);
        c->lines = json_array();
    }
}

static void coverage_done(struct task *task)
{
    struct coverage *c = (struct coverage *)task;
    engine_task_ended(c->engine);
    for (const struct json *j = json_first(c->lines); j; j = json_next(j))
        event_report(c->engine, "package_missing", json_as_text(j, ""));
    json_destroy(c->lines);
    free(c);
}

void packages_start(struct engine *e)
{
    struct coverage *c = e->package_service->directory[0] ? calloc(1, sizeof(*c)) : NULL;
    if (!c)
        return;
    c->task = (struct task){ .work = coverage_work, .done = coverage_done };
    c->engine = e;
    c->lines = json_array();
    engine_run(e, e->own_uid, WORK_QUEUE_READ, &c->task);
}

/* Maximum size of an imported cache, as a multiple of the store's limit. A larger cache would not
 * fit, because stored objects are compressed to about a quarter. */
#define IMPORT_OF_STORE 4

static uint64_t import_limit(const struct engine_options *o)
{
    uint64_t store = o->store_limit_bytes;
    bool smaller = store > 0 && store < o->package_limit / IMPORT_OF_STORE;
    return smaller ? store * IMPORT_OF_STORE : o->package_limit;
}

void packages_set_limits(struct engine *e, const struct engine_options *o)
{
    e->package_service->package_limit = o->package_limit;
    e->package_service->import_limit = import_limit(o);
    e->package_service->rescan_at_ns = 0;
}

static char *staging_of(const char *package_directory)
{
    char *staging = NULL;
    if (!package_directory)
        return strdup("");
    return asprintf(&staging, "%s/incoming", package_directory) < 0 ? NULL : staging;
}

static enum kiln_code prepare_staging(struct engine *e, struct kiln_err *err)
{
    struct kiln_err kept = KILN_ERR_INIT;
    enum kiln_code rc = fs_make_directories(e->package_service->staging, err);
    if (!rc && fs_empty(e->package_service->staging, &kept)) /* removes files of an earlier kilnd */
        event_report(e, "directory_left", kept.text);
    return rc;
}

static enum kiln_code create_service(const struct engine_options *o,
                                     struct package_service **ret_service, struct kiln_err *err)
{
    struct package_service *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the packages");
    *ret_service = s;
    s->uploads = (struct request_group){ .noun = "uploads",
                                         .max = UPLOADS_MAX,
                                         .max_uid = UPLOADS_MAX_UID,
                                         .kept_for_admin = UPLOADS_FOR_ADMINS };
    list_init(&s->uploads.members);
    s->require_signature = o->require_signature;
    s->directory = strdup(o->package_directory ? o->package_directory : "");
    s->trusted_keys = strdup(o->trusted_keys ? o->trusted_keys : "");
    s->kfd_directory = strdup(o->kfd_directory ? o->kfd_directory : KFD_DIRECTORY);
    s->staging = staging_of(o->package_directory);
    if (!s->directory || !s->trusted_keys || !s->kfd_directory || !s->staging)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the packages");
    return KILN_OK;
}

enum kiln_code packages_open(struct engine *e, const struct engine_options *o, struct kiln_err *err)
{
    const struct package_set_options options = {
        .own_directory = o->package_directory,
        .data = o->data,
        .other_directories = o->more_package_directories,
        .trusted_keys_directory = o->trusted_keys,
        .readers = o->readers,
        .require_signature = o->require_signature,
    };
    enum kiln_code rc = create_service(o, &e->package_service, err);
    if (rc)
        return rc;
    packages_set_limits(e, o);
    rc = package_set_create(&options, &e->packages, err);
    if (!rc && o->package_directory)
        rc = prepare_staging(e, err);
    if (rc)
        return rc;
    struct rescan first = { .engine = e, .events = json_array(), .err = KILN_ERR_INIT };
    rescan_work(&first.task);
    report_events(&first);
    return KILN_OK;
}

void packages_close(struct engine *e)
{
    struct package_service *s = e->package_service;
    package_set_destroy(e->packages);
    if (!s)
        return;
    free(s->directory);
    free(s->staging);
    free(s->trusted_keys);
    free(s->kfd_directory);
    free(s);
}

const char *packages_staging(const struct engine *e) { return e->package_service->staging; }
const char *packages_kfd_directory(const struct engine *e)
{
    return e->package_service->kfd_directory;
}

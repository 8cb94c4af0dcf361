/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_service.h"

#include "engine/service/tuning/tuning_open_retry.h"
#include "engine/service/tuning/tuning_state.h"

#include <string.h>

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

static void note_change(void *context, enum tuning_tier tier, uint32_t owner)
{
    struct tuning_service *service = context;
    tuning_watches_note(&service->watches, tier, owner);
}

static enum kiln_code open_service(struct tuning_service *service,
                                   const struct engine_options *options, struct kiln_err *err)
{
    /* The queue needs no limit, because groups of requests limit the changes. */
    request_queue_init(&service->queue, &(struct fair_queue_options){ .noun = "changes" });
    tuning_watches_init(&service->watches);
    enum kiln_code rc = lease_table_create(&service->leases, err);
    if (rc)
        return rc;
    service->options = (struct tuning_options){ .data = options->data,
                                                .without_user = WITHOUT_USER,
                                                .without_system = WITHOUT_SYSTEM,
                                                .records_per_uid = options->tuning_records_per_uid,
                                                .bytes_per_uid = options->tuning_bytes_per_uid,
                                                .stale = options->tuning_stale,
                                                .changed = note_change,
                                                .context = service };
    if (options->state_directory &&
        !(service->options.directory = strdup(options->state_directory)))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the tuning databases: out of memory");
    return tuning_open_first(service, err);
}

enum kiln_code tuning_service_create(const struct engine_options *options,
                                     struct tuning_service **ret_service, struct kiln_err *err)
{
    struct tuning_service *service = calloc(1, sizeof(*service));
    if (!service)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the tuning databases: out of memory");
    enum kiln_code rc = open_service(service, options, err);
    if (rc) {
        tuning_service_destroy(service);
        return rc;
    }
    *ret_service = service;
    return KILN_OK;
}

void tuning_service_destroy(struct tuning_service *service)
{
    if (!service)
        return;
    request_queue_done(&service->queue);
    tuning_destroy(service->databases);
    lease_table_destroy(service->leases);
    tuning_watches_done(&service->watches);
    free((char *)service->options.directory);
    free(service);
}

void tuning_service_start(struct engine *e)
{
    const struct tuning_service *service = e->tuning;
    if (service->notice[0])
        event_report(e, "tuning_notice", service->notice);
    if (!service->databases && service->options.directory)
        event_report(e, "tuning_unavailable", service->trouble);
}

void tuning_service_set_limits(struct engine *e, const struct engine_options *options)
{
    struct tuning_service *service = e->tuning;
    bool is_same = service->options.stale == options->tuning_stale;
    service->options.records_per_uid = options->tuning_records_per_uid;
    service->options.bytes_per_uid = options->tuning_bytes_per_uid;
    service->options.stale = options->tuning_stale;
    if (service->databases)
        tuning_set_limits(service->databases, &service->options);
    if (!is_same) /* look-ups may find other records */
        tuning_watches_note_all(&service->watches);
}

void tuning_service_tick(struct engine *e)
{
    tuning_open_retry_tick(e);
    tuning_queue_tick(e);
}

void tuning_service_drain(struct engine *e) { tuning_queue_drain(e); }

struct tuning *tuning_databases(const struct engine *e) { return e->tuning->databases; }
struct lease_table *tuning_leases(const struct engine *e) { return e->tuning->leases; }
const char *tuning_directory(const struct engine *e) { return e->tuning->options.directory; }

enum kiln_code tuning_ready(const struct engine *e, struct kiln_err *err)
{
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!e->tuning->databases)
        return kiln_fail(err, KILN_UNAVAILABLE, "the tuning databases are not open: %s",
                         e->tuning->trouble);
    return KILN_OK;
}

struct json *tuning_service_describe(const struct engine *e)
{
    const struct tuning_service *service = e->tuning;
    struct json *j = json_object();
    json_set_bool(j, "available", service->databases != NULL);
    if (!service->databases)
        json_set_text(j, "trouble", service->trouble);
    if (service->notice[0])
        json_set_text(j, "notice", service->notice);
    return j;
}

/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/flight_look.h"

#include "engine/compile/code_object.h"
#include "engine/service/kernels/flight_compile.h"
#include "engine/service/kernels/flight_deliver.h"
#include "engine/service/kernels/store_tasks.h"

#include <stdio.h>
#include <string.h>

static enum kiln_code parse_targets(struct bytes wanted, struct target *ret_target,
                                    struct target *ret_plain, struct kiln_err *err)
{
    char arch[LIMIT_TARGET_TEXT];
    enum kiln_code rc = target_parse(wanted, ret_target, err);
    if (rc)
        return rc;
    target_arch(ret_target, arch, sizeof(arch));
    return target_parse(bytes_of_text(arch), ret_plain, err);
}

/* A package's name says for which arch it is, and nothing of features: an object for another arch
 * is damage, one for other features a miss. */
static enum kiln_code check_packaged(struct flight *f, struct bytes raw)
{
    struct target target, plain;
    struct bytes wanted = f->alias->name.target;
    struct package_found *p = &f->by_name;
    struct kiln_err why = KILN_ERR_INIT;
    if (wanted.size == 0)
        return KILN_OK;
    f->packaged = true;
    if (parse_targets(wanted, &target, &plain, &why) || code_object_check(raw, &plain, &why)) {
        memcpy(p->damaged, p->package, sizeof(p->damaged));
        snprintf(p->damage, sizeof(p->damage), "%.255s", why.text);
        return KILN_NOT_FOUND;
    }
    return code_object_suits(raw, &target) ? KILN_OK : KILN_NOT_FOUND;
}

/* What a level cannot say is no reason to leave the next one unasked. */
static void note_trouble(struct flight *f, const struct kiln_err *why)
{
    if (f->found && f->found != KILN_NOT_FOUND && !f->trouble.code)
        f->trouble = *why;
}

static void look_into_store(struct flight *f, const struct digest *key, bool *ret_damaged)
{
    struct kiln_err why = KILN_ERR_INIT;
    f->found =
        kernel_store_get_as(f->engine->store, &f->reader, key, &f->object, ret_damaged, &why);
    note_trouble(f, &why);
}

/* Asked for by a name that states no version. */
static bool is_plain(const struct flight *f)
{
    const struct kernel_name *n = &f->alias->name;
    struct digest plain = kernel_name_key(f->uid, n->database_id, n->name, n->args);
    return digest_equal(&plain, &f->asked);
}

/* A cache of MIOpen is kept under its version.  As long as there is one alone, the plain database
 * id finds it, too: the asker's own, then everyone's. */
static void look_into_version(struct flight *f)
{
    const uint64_t scopes[] = { f->uid, KERNEL_SCOPE_EVERYONE };
    char id[KERNEL_VERSIONED_ID_MOST];
    const struct kernel_name *n = &f->alias->name;
    struct kiln_err why = KILN_ERR_INIT;
    if (kernel_store_only_version(f->engine->store, f->uid, n->database_id, id, &why) != KILN_OK)
        return;
    for (size_t i = 0; i < 2 && f->found && !f->shared_damaged; i++) {
        f->shared_key = kernel_name_key(scopes[i], bytes_of_text(id), n->name, n->args);
        look_into_store(f, &f->shared_key, &f->shared_damaged);
        f->is_shared = !f->found;
    }
}

static void look_by_key(struct flight *f)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    struct kiln_err why = KILN_ERR_INIT;
    f->found = package_set_find_key(f->engine->packages, &f->asked, &raw, &f->by_key, &why);
    if (!f->found)
        f->found = object_from_bytes(buffer_view(&raw), f->by_key.hit.compile_ns, &f->object, &why);
    note_trouble(f, &why);
}

static void look_by_name(struct flight *f)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    const struct kernel_name *n = &f->alias->name;
    struct kiln_err why = KILN_ERR_INIT;
    f->found = package_set_find_named(f->engine->packages, n->database_id, n->name, n->args, &raw,
                                      &f->by_name, &why);
    if (!f->found)
        f->found = check_packaged(f, buffer_view(&raw));
    if (!f->found)
        f->found =
            object_from_bytes(buffer_view(&raw), f->by_name.hit.compile_ns, &f->object, &why);
    note_trouble(f, &why);
}

static void look_into_packages(struct flight *f)
{
    f->tier = TIER_PACKAGE;
    look_by_key(f);
    if (f->found && f->alias)
        look_by_name(f);
}

static void look_work(struct task *task)
{
    struct flight *f = flight_of_task(task);
    f->tier = TIER_DISK;
    look_into_store(f, &f->asked, &f->damaged);
    if (f->found && f->has_shared_key) {
        look_into_store(f, &f->shared_key, &f->shared_damaged);
        f->is_shared = !f->found;
    }
    if (f->found && f->has_shared_key && f->alias && is_plain(f))
        look_into_version(f);
    if (f->found)
        look_into_packages(f);
}

static void report(struct flight *f)
{
    struct engine *e = f->engine;
    if (f->damaged)
        quarantine_later(e, &f->asked);
    if (f->shared_damaged)
        quarantine_later(e, &f->shared_key);
    if (f->by_key.damaged[0])
        quarantine_package(e, &f->by_key, f->alias ? &f->alias->name : NULL);
    if (f->by_name.damaged[0])
        quarantine_package(e, &f->by_name, &f->alias->name);
    if (f->trouble.code)
        event_report(e, "store_error", f->trouble.text); /* to the client it is a miss */
}

/* Whose it is has joined a flight that somebody else began with the key. */
static bool is_its_owners(const struct flight *f)
{
    const struct fetch_ticket *t = f->found && f->reader.hidden ? f->tickets : NULL;
    while (t && t->uid != f->reader.owner)
        t = t->next;
    return t;
}

static void look_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    report(f);
    if (is_its_owners(f)) {
        f->reader = (struct kernel_reader){ .uid = f->reader.owner };
        flight_look(f);
        return;
    }
    if (!f->found) {
        if (f->packaged)
            flight_deliver_packaged(f);
        else
            flight_deliver_object(f, f->tier);
        return;
    }
    f->err = (struct kiln_err){ .code = KILN_NOT_FOUND };
    if (!f->tickets)
        flight_destroy(f); /* everybody left while we looked */
    else if (f->source)
        flight_compile_or_join(f);
    else
        flight_deliver_failure(f, &f->err, NULL);
}

void flight_look(struct flight *f)
{
    f->stage = LOOKING;
    f->generation = hot_set_generation(f->engine->hot);
    f->task = (struct task){ .work = look_work, .done = look_done, .is_brief = true };
    engine_run(f->engine, LANE_READ, &f->task);
}

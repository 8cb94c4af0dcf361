/* SPDX-License-Identifier: MIT */
/*
 * why_miss says whether a fetch would be a hit. If not, it lists the nearest stored kernels and the
 * parts of the key that differ. The question names a kernel by its key, by MIOpen's name, or by a
 * problem, which stands for the first missing program of its plan.
 */
#include "engine/service/kernels/kernel_lookup.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/why.h"

#include <stdio.h>
#include <string.h>

static void release_why(struct deferred *d)
{
    struct why *w = (struct why *)d;
    json_destroy(w->nearest);
    for (size_t i = 0; i < sizeof(w->texts) / sizeof(w->texts[0]); i++)
        free(w->texts[i]);
    for (uint32_t i = 0; i < w->program_count; i++) {
        free(w->programs[i].options);
        free(w->programs[i].name_text);
        free(w->programs[i].args_text);
        buffer_done(&w->programs[i].name);
        buffer_done(&w->programs[i].args);
    }
}

static enum kiln_code keep_wanted(struct why *w, const struct kernel_record *record)
{
    const char *texts[] = { record->target, record->toolchain, record->program, record->options,
                            record->database_id };
    w->wanted = *record;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        w->texts[i] = strdup(texts[i] ? texts[i] : "");
        if (!w->texts[i])
            return kiln_fail(&w->base.err, KILN_NO_MEMORY, "cannot keep a kernel's record");
    }
    w->wanted.target = w->texts[0];
    w->wanted.toolchain = w->texts[1];
    w->wanted.program = w->texts[2];
    w->wanted.options = w->texts[3];
    w->wanted.database_id = w->texts[4];
    w->wanted.package = w->wanted.version = "";
    return KILN_OK;
}

static void take_stored(void *context, const struct kernel_record *record)
{
    struct why *w = context;
    bool visible = !record->is_private || record->uid == (uint32_t)w->base.uid || w->base.is_admin;
    if (visible)
        w->base.rc = keep_wanted(w, record);
}

/* Sets *ret_name to the program's name in packages. Returns false if a fetch would not search
 * packages for the program. */
static bool name_for_packages(const struct why *w, const struct wanted_program *p,
                              struct kernel_name *ret_name)
{
    if (!p || !w->use_packages)
        return false;
    *ret_name = (struct kernel_name){ .database_id = bytes_of_text(w->database_id),
                                      .name = buffer_view(&p->name),
                                      .args = buffer_view(&p->args),
                                      .target = bytes_of_text(w->by_name ? "" : w->target.text) };
    return true;
}

static bool is_hot(const struct why *w, const struct wanted_program *p)
{
    struct digest ignored;
    struct kernel_name name;
    const struct hot_lookup lookup = { .key = p ? &p->key : &w->key,
                                       .name = name_for_packages(w, p, &name) ? &name : NULL,
                                       .uid = w->base.uid };
    return kernel_lookup_hot(w->base.engine->hot, hot_set_peek, &lookup, &ignored) != NULL;
}

static void look_into_hot_set(struct deferred *d)
{
    struct why *w = (struct why *)d;
    w->is_hot = w->program_count == 0 && is_hot(w, NULL);
    for (uint32_t i = 0; i < w->program_count; i++)
        w->programs[i].is_hot = is_hot(w, &w->programs[i]);
}

/* Looks the kernel up as a fetch would. Also looks up a kernel in the hot set, to exclude it from
 * the nearest kernels. */
static void look_as_fetch(struct why *w, const struct wanted_program *p)
{
    struct kernel_name name;
    bool has_name = name_for_packages(w, p, &name);
    bool was_hot = p ? p->is_hot : w->is_hot;
    struct lookup_report report = { .trouble = KILN_ERR_INIT };
    struct kernel_lookup lookup = { .store = w->base.engine->store,
                                    .packages = w->base.engine->packages,
                                    .uid = w->base.uid,
                                    .reader = { .uid = (uint32_t)w->base.uid },
                                    .asked = w->key,
                                    .name = has_name ? &name : NULL,
                                    .has_shared_key = w->by_name,
                                    .report = &report };
    if (w->by_name)
        lookup.shared_key = kernel_name_key(
            KERNEL_SCOPE_EVERYONE, bytes_of_text(p->record.database_id), name.name, name.args);
    kernel_lookup(&lookup);
    object_unref(lookup.object);
    w->found = was_hot || !lookup.found;
    w->tier = was_hot ? TIER_HOT : lookup.tier;
    w->package[0] = '\0';
    if (lookup.found)
        return;
    if (lookup.is_shared)
        w->key = lookup.shared_key;
    if (lookup.tier == TIER_PACKAGE)
        memcpy(w->package,
               report.by_name.package[0] ? report.by_name.package : report.by_key.package,
               sizeof(w->package));
}

static enum kiln_code look_for(struct why *w, const struct wanted_program *p)
{
    look_as_fetch(w, p);
    if (!p) {
        enum kiln_code rc =
            kernel_store_show(w->base.engine->store, &w->key, take_stored, w, &w->base.err);
        if (rc && rc != KILN_NOT_FOUND)
            return rc;
    } else if (!w->found && !w->elsewhere[0] &&
               package_set_find_elsewhere(
                   w->base.engine->packages,
                   &(struct package_query){ bytes_of_text(w->database_id),
                                            { buffer_view(&p->name), buffer_view(&p->args) } },
                   w->elsewhere, w->elsewhere_id)) {
        w->elsewhere[0] = '\0';
    }
    return w->base.rc;
}

/* Chooses the first missing program or, if none is missing, the last one. */
static enum kiln_code look_for_programs(struct why *w)
{
    w->found = true;
    for (uint32_t i = 0; w->found && i < w->program_count; i++) {
        w->missing = &w->programs[i];
        w->key = w->programs[i].key;
        enum kiln_code rc = look_for(w, w->missing);
        if (rc)
            return rc;
    }
    if (!w->by_name)
        w->key = w->missing->key;
    return keep_wanted(w, &w->missing->record);
}

/* Writes the message for a missing kernel that the fleet has. Returns false if the fleet is not
 * known to have the kernel or a variant of it. */
static bool write_fleet_message(const struct why *w, char *ret_text, size_t size)
{
    const struct wanted_program *p = w->missing;
    if (w->found || (p ? !p->is_in_fleet && !p->fleet_variant[0] : !w->fleet_target[0]))
        return false;
    if (!p)
        snprintf(ret_text, size, "it is not in the store, but the fleet has it for %s",
                 w->fleet_target);
    else if (p->is_in_fleet)
        snprintf(ret_text, size,
                 "it is not in the store, but the fleet has it: a fetch of it takes it from there");
    else
        snprintf(ret_text, size,
                 "it is not in the store; the fleet has it %s, which is another kernel",
                 p->fleet_variant);
    return true;
}

static void write_message(const struct why *w, char *ret_text, size_t size)
{
    if (write_fleet_message(w, ret_text, size))
        return;
    if (w->found && w->tier == TIER_HOT)
        snprintf(ret_text, size, "it is in kilnd's memory (hot): a fetch of it is a hit");
    else if (w->found && w->tier == TIER_PACKAGE)
        snprintf(ret_text, size, "an installed package has it (%s): a fetch of it is a hit",
                 w->package);
    else if (w->found && w->wanted.kind != OBJECT_CODE)
        snprintf(ret_text, size, "it is in the store, for compiles by NVRTC, hiprtc or comgr of %s",
                 w->wanted.is_private ? "the user who sent it" : "all users");
    else if (w->found)
        snprintf(ret_text, size, "it is in the store: a fetch of it is a hit");
    else if (w->elsewhere[0])
        snprintf(ret_text, size,
                 "it is not in the store, and no package for %s has it; %s has it for other "
                 "compute units (%s), but kiln does not use that kernel, as MIOpen would not",
                 w->database_id, w->elsewhere, w->elsewhere_id);
    else if (!w->wanted.program)
        snprintf(ret_text, size,
                 "no stored kernel has this key, and kilnd does not know its source: ask with the "
                 "problem; why a program's own compile was not answered, 'kilnctl run --explain' "
                 "says");
    else if (w->why_not_compile.code)
        snprintf(ret_text, size, "no package has it, and it cannot be compiled: %s",
                 w->why_not_compile.text);
    else if (json_count(w->nearest))
        snprintf(ret_text, size, "it is not in the store; the nearest kernels there differ");
    else
        snprintf(ret_text, size, "it is not in the store, and nothing similar is");
}

static enum kiln_code find_namesakes(struct why *w)
{
    const struct wanted_program *p = w->missing;
    if (!p || w->by_name || w->found)
        return KILN_OK;
    const struct kernel_record named = { .program = p->name_text,
                                         .options = p->args_text,
                                         .database_id = w->database_id,
                                         .uid = (uint32_t)w->base.uid };
    enum kiln_code rc =
        kernel_store_nearest(w->base.engine->store, &named, why_compare_namesake, w, &w->base.err);
    w->namesakes_reported = true;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static void why_work(struct deferred *d)
{
    struct why *w = (struct why *)d;
    char hex[DIGEST_HEX_SIZE], message[1024];
    enum kiln_code rc = w->program_count ? look_for_programs(w) : look_for(w, NULL);
    why_name_elsewhere(w);
    if (!rc)
        rc = find_namesakes(w);
    w->wanted.uid = (uint32_t)w->base.uid;
    if (!rc && w->wanted.program)
        rc = kernel_store_nearest(w->base.engine->store, &w->wanted, why_compare, w, &w->base.err);
    if (rc && rc != KILN_NOT_FOUND)
        w->base.rc = rc;
    digest_to_hex(&w->key, hex);
    write_message(w, message, sizeof(message));
    json_set_text(w->base.answer, "key", hex);
    json_set_bool(w->base.answer, "found", w->found);
    if (w->found)
        json_set_text(w->base.answer, "tier", tier_name(w->tier));
    json_set_text(w->base.answer, "message", message);
    if (w->fleet_loads)
        json_set_bool(w->base.answer, "fleet_loads", true);
    json_set(w->base.answer, "nearest", KILN_TAKE(w->nearest));
}

static const struct deferred_kind deferred_why = { .size = sizeof(struct why),
                                                   .release = release_why };
static const struct deferred_step why_step = { .work_queue = WORK_QUEUE_READ,
                                               .begin = look_into_hot_set,
                                               .work = why_work };

static const struct admin_member why_members[] = {
    { "key", MEMBER_TEXT },    { "problem", MEMBER_TEXT },     { "name", MEMBER_TEXT },
    { "args", MEMBER_TEXT },   { "target", MEMBER_TEXT },      { "toolchain", MEMBER_TEXT },
    { "solver", MEMBER_TEXT }, { "database_id", MEMBER_TEXT }, { 0 },
};

static void note_toolchains(struct why *w)
{
    const struct toolchain_table *table = w->base.engine->toolchains;
    for (size_t i = 0; i < toolchain_table_count(table) && i < TOOLCHAINS_MAX; i++) {
        const struct toolchain *tc = toolchain_table_at(table, i);
        struct known_toolchain *here = &w->here[w->here_count++];
        here->identity = tc->identity;
        snprintf(here->version, sizeof(here->version), "%.63s", tc->version);
    }
}

static enum kiln_code answer_why(struct deferred *d)
{
    note_toolchains((struct why *)d);
    if (json_get(d->question, "key"))
        why_look_for_key_in_fleet((struct why *)d);
    enum kiln_code rc = why_add_programs((struct why *)d, &d->err);
    return rc ? rc
              : deferred_enqueue(d, requests_queue(d->engine->requests, QUEUE_SCANS), &why_step,
                                 &d->err);
}

static const struct toolchain_need why_need = { .ask = why_ask_for_toolchain,
                                                .answer = answer_why };

enum kiln_code handle_why_miss(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    struct why *w = deferred_create(&deferred_why, e, caller, header->request_id, err);
    if (!w)
        return err->code;
    w->base.answer = json_object();
    w->nearest = json_array();
    w->why_not_compile = KILN_ERR_INIT;
    enum kiln_code rc = admin_read(header, body, why_members, &w->base.question, err);
    if (!rc)
        rc = deferred_join(&w->base, requests_group(e->requests, GROUP_ADMIN), err);
    if (!rc)
        rc = why_read_question(w, err);
    rc = deferred_wait_or_destroy(&w->base, rc);
    if (!rc)
        toolchains_need(&w->base, &why_need, (struct bytes){ 0 });
    return rc;
}

/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/built_in.h"

#include "engine/data/engine_data.h"
#include "engine/miopen/names/tuning_file_name.h"
#include "engine/miopen/problem_key.h"
#include "engine/service/packages/packages.h"

#include <stdio.h>
#include <string.h>

struct built_in {
    const struct engine_data *data; /* borrowed; NULL: nothing is built in */
    bool is_checking;
};

enum kiln_code built_in_create(const struct engine_data *data, struct built_in **ret_built_in,
                               struct kiln_err *err)
{
    struct built_in *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the data built into the program");
    b->data = data;
    *ret_built_in = b;
    return KILN_OK;
}

void built_in_destroy(struct built_in *b) { free(b); }

bool built_in_exists(const struct engine *e) { return e->built_in->data != NULL; }

static bool writes_files(unsigned type)
{
    switch (type) {
    case MESSAGE_package_install:
    case MESSAGE_package_build:
    case MESSAGE_kernel_import:
    case MESSAGE_kernel_export:
    case MESSAGE_fleet_export:
    case MESSAGE_tuning_import:
    case MESSAGE_tuning_merge:
    case MESSAGE_tuning_export:
    case MESSAGE_tuning_diff:
    case MESSAGE_tuning_backup: return true;
    default: return false;
    }
}

enum kiln_code built_in_check_request(const struct engine *e, unsigned type, const char *command,
                                      struct kiln_err *err)
{
    if (packages_staging(e)[0] || !writes_files(type))
        return KILN_OK;
    return kiln_fail(
        err, KILN_UNSUPPORTED,
        "'%s' writes files, but the engine in this program has no directory: ask kilnd", command);
}

enum built_in_kinds { HAS_FIND = 1, HAS_PERF = 2, HAS_KERNELS = 4 };

static const char *const kind_names[] = { "FindDb", "PerfDb", "kernels" };
#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

static unsigned kind_of(const struct engine_item *item)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_file_name name;
    if (item->kind == ENGINE_ITEM_PACKAGE)
        return HAS_KERNELS;
    if (tuning_file_name_parse(item->name, &name, &ignored))
        return 0;
    return name.kind == TUNING_FIND ? HAS_FIND : HAS_PERF;
}

static struct bytes id_of(const struct engine_item *item)
{
    return bytes_of(item->name, strcspn(item->name, "."));
}

static unsigned kinds_of(const struct engine_data *data, size_t from, struct bytes id)
{
    unsigned kinds = 0;
    for (size_t i = from; i < data->count; i++) {
        const struct engine_item *item = &data->items[i];
        if (!engine_item_is_damaged(item) && bytes_equal(id_of(item), id))
            kinds |= kind_of(item);
    }
    return kinds;
}

static bool is_first_of_its_id(const struct engine_data *data, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (bytes_equal(id_of(&data->items[i]), id_of(&data->items[at])))
            return false;
    }
    return true;
}

#define NAMES_MAX 160
#define ENTRY_MAX 80
#define MORE_MAX 16
#define OFF_WAY "rebuild the program, or set KILN_EMBED_COMPILE=on on a host with a compiler"

static void write_kinds(char text[ENTRY_MAX], struct bytes id, unsigned kinds)
{
    size_t used = (size_t)snprintf(text, ENTRY_MAX, "%.*s", (int)(id.size < 40 ? id.size : 40),
                                   (const char *)id.data);
    const char *before = " (";
    for (size_t i = 0; i < KINDS; i++) {
        if (!(kinds & 1u << i))
            continue;
        used += (size_t)snprintf(text + used, ENTRY_MAX - used, "%s%s", before, kind_names[i]);
        before = ", ";
    }
    snprintf(text + used, ENTRY_MAX - used, ")");
}

static void name_built_in(const struct engine_data *data, char names[NAMES_MAX])
{
    char entry[ENTRY_MAX];
    size_t used = 0, more = 0;
    names[0] = '\0';
    for (size_t i = 0; i < data->count; i++) {
        struct bytes id = id_of(&data->items[i]);
        unsigned kinds = is_first_of_its_id(data, i) ? kinds_of(data, i, id) : 0;
        if (!kinds)
            continue;
        write_kinds(entry, id, kinds);
        if (more || used + strlen(entry) + 2 + MORE_MAX > NAMES_MAX)
            more++;
        else
            used +=
                (size_t)snprintf(names + used, NAMES_MAX - used, "%s%s", used ? ", " : "", entry);
    }
    if (more)
        snprintf(names + used, NAMES_MAX - used, " and %zu more", more);
    if (!names[0])
        snprintf(names, NAMES_MAX, "nothing");
}

struct absence {
    const struct unmet_plan *plan;
    enum kiln_code code;
    bool covers; /* some kernels for the device are built in, but perhaps not this plan's */
    bool is_off;
    const char *why;
    char key[PROBLEM_KEY_MAX];
};

static void say_no_compile(const struct absence *a, unsigned kinds, struct kiln_err *err)
{
    const char *id = a->plan->database_id;
    if (a->covers)
        kiln_fail(err, a->code,
                  "the kernels of %.80s are not built into this program for %s, and they cannot be "
                  "compiled: %s",
                  a->key, id, a->why);
    else
        kiln_fail(
            err, a->code,
            "%s built into this program for %s, and the kernels of %.80s cannot be compiled: %s",
            kinds ? "no kernels are" : "nothing is", id, a->key, a->why);
}

static void say_damage(const struct absence *a, const char *name, struct kiln_err *err)
{
    kiln_fail(err, a->code,
              "the kernels of %.80s for %s are not available: '%.60s', which is built into this "
              "program, is damaged: reinstall the program%s%s",
              a->key, a->plan->database_id, name,
              a->is_off ? "" : "; and they cannot be compiled: ", a->is_off ? "" : a->why);
}

static void say_uncovered(const struct engine *e, const struct absence *a, unsigned kinds,
                          struct kiln_err *err)
{
    static const char *const tuning[] = { "", "; its FindDb is", "; its PerfDb is",
                                          "; its FindDb and PerfDb are" };
    char names[NAMES_MAX];
    name_built_in(e->built_in->data, names);
    kiln_fail(err, a->code,
              "%s built into this program for %s (%.80s%s), so the kernels of %.60s are missing; "
              "built in: %s. Name the device in KILN_DEVICE_TARGETS and " OFF_WAY,
              kinds ? "no kernels are" : "nothing is", a->plan->database_id, a->plan->target->text,
              tuning[kinds & (HAS_FIND | HAS_PERF)], a->key, names);
}

void built_in_explain(struct engine *e, const struct unmet_plan *plan, struct kiln_err *err)
{
    const struct kiln_err why = *err;
    if (!built_in_exists(e))
        return;
    struct bytes id = bytes_of_text(plan->database_id);
    struct absence a = { .plan = plan,
                         .covers = package_set_covers(e->packages, id),
                         .is_off = e->executor->ops->compile_slots(e->executor) == 0,
                         .why = why.text };
    bool is_lasting = a.is_off || why.code == KILN_UNAVAILABLE; /* no compiler can be started */
    char damaged[PACKAGE_NAME_MAX];
    bool is_damaged = package_set_built_in_is_damaged(e->packages, id, damaged);
    unsigned kinds = kinds_of(e->built_in->data, 0, id);
    a.code = !is_lasting ? why.code : a.covers || is_damaged ? KILN_NOT_FOUND : KILN_UNSUPPORTED;
    find_key_write(plan->problem, a.key);
    if (is_damaged)
        say_damage(&a, damaged, err);
    else if (a.covers && plan->has_named_solver)
        kiln_fail(
            err, a.code,
            "its kernels for %.120s are not built into this program for %s: of a problem named in "
            "KILN_EMBED_PROBLEMS, only the kernels of the chosen solver are built in",
            a.key, plan->database_id);
    else if (!a.is_off)
        say_no_compile(&a, kinds, err);
    else if (a.covers)
        kiln_fail(err, a.code,
                  "the kernels of %.120s are not built into this program for %s: name the problem "
                  "in KILN_EMBED_PROBLEMS and " OFF_WAY,
                  a.key, plan->database_id);
    else
        say_uncovered(e, &a, kinds, err);
}

struct item_task {
    struct task task;
    struct engine *engine;
    struct engine_item_check check;
    bool is_done;
};

static void check_work(struct task *task)
{
    struct item_task *t = (struct item_task *)task;
    t->is_done = engine_item_check_step(&t->check);
}

static void report_damage(struct engine *e, const struct engine_item *item)
{
    char text[256];
    snprintf(text, sizeof(text),
             "'%s', which is built into this program, is damaged: kiln no longer uses it; "
             "reinstall the program",
             item->name);
    engine_forget_answers(e);
    event_report(e, "built_in_damaged", text);
}

void built_in_report(struct engine *e)
{
    const struct engine_data *data = e->built_in->data;
    for (size_t i = 0; data && i < data->count; i++) {
        if (engine_item_is_damaged(&data->items[i]))
            report_damage(e, &data->items[i]);
    }
}

struct json *built_in_describe_damage(const struct engine *e)
{
    struct json *names = json_array();
    const struct engine_data *data = e->built_in->data;
    for (size_t i = 0; data && i < data->count; i++) {
        if (engine_item_is_damaged(&data->items[i]))
            json_append(names, json_text(data->items[i].name));
    }
    return names;
}

static void check_done(struct task *task)
{
    struct item_task *t = (struct item_task *)task;
    struct engine *e = t->engine;
    engine_task_ended(e);
    if (!t->is_done && !e->draining) {
        engine_run(e, e->own_uid, WORK_QUEUE_TUNING, &t->task);
        return;
    }
    e->built_in->is_checking = false;
    if (t->is_done && engine_item_is_damaged(t->check.item))
        report_damage(e, t->check.item);
    free(t);
}

void built_in_tick(struct engine *e)
{
    struct engine_item_check check;
    if (e->built_in->is_checking || e->draining ||
        !engine_item_check_begin(e->built_in->data, &check))
        return;
    struct item_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    *t = (struct item_task){ .task = { .work = check_work, .done = check_done },
                             .engine = e,
                             .check = check };
    e->built_in->is_checking = true;
    engine_run(e, e->own_uid, WORK_QUEUE_TUNING, &t->task);
}

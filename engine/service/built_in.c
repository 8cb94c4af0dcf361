/* SPDX-License-Identifier: MIT */
#include "engine/service/built_in.h"

#include "engine/data/engine_data.h"
#include "engine/miopen/problem_key.h"

#include <stdio.h>
#include <string.h>

/* ---- no folder ---- */

static bool writes_files(unsigned type)
{
    switch (type) {
    case MESSAGE_package_install:
    case MESSAGE_package_build:
    case MESSAGE_kernel_import:
    case MESSAGE_kernel_export:
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
    if (e->staging[0] || !writes_files(type))
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "'%s' writes files, and the kiln in this process has no folder: ask kilnd",
                     command);
}

/* ---- what is missing ---- */

#define NAMES_MOST 160 /* letters of a sentence */
#define WAY_MOST 260

static void add_name(char names[NAMES_MOST], const char *name)
{
    size_t used = strlen(names);
    snprintf(names + used, NAMES_MOST - used, "%s%s", used ? ", " : "", name);
}

static void name_package(void *context, const struct package_info *info)
{
    add_name(context, info->name);
}

/* The packages, by name: each begins with the id of the devices that it is for. */
static void name_built_in(struct engine *e, char names[NAMES_MOST])
{
    names[0] = '\0';
    package_set_list(e->packages, name_package, names);
    if (!names[0])
        add_name(names, "nothing");
}

/* |why|: it could not be compiled, either.  Empty: it was not to be. */
static void say_what_to_do(char text[WAY_MOST], const char *why)
{
    if (why[0])
        snprintf(text, WAY_MOST, "build it anew; nor is it compiled here: %.180s", why);
    else
        snprintf(text, WAY_MOST, "build it anew, or set KILN_EMBED_COMPILE=on where a compiler is");
}

void built_in_explain(struct engine *e, const struct built_in_wish *wish, struct kiln_err *err)
{
    char names[NAMES_MOST], key[PROBLEM_KEY_MOST], way[WAY_MOST];
    const struct kiln_err why = *err;
    if (!e->data)
        return;
    bool is_off = e->executor->ops->compile_slots(e->executor) == 0;
    bool is_lasting = is_off || why.code == KILN_UNAVAILABLE; /* there is no compiler to start */
    enum kiln_code code = is_lasting ? KILN_NOT_FOUND : why.code;
    bool covers = package_set_covers(e->packages, bytes_of_text(wish->database_id));
    find_key_write(wish->problem, key);
    say_what_to_do(way, is_off ? "" : why.text);
    if (covers && wish->has_named_solver) {
        kiln_fail(err, code,
                  "its kernels for %.120s are not built into this program for %s, as those of the "
                  "solver that is chosen for a problem named in KILN_EMBED_PROBLEMS would be",
                  key, wish->database_id);
        return;
    }
    if (covers) {
        kiln_fail(err, code,
                  "the kernels of %.120s are not built into this program for %s: name the problem "
                  "in KILN_EMBED_PROBLEMS and %s",
                  key, wish->database_id, way);
        return;
    }
    name_built_in(e, names);
    kiln_fail(err, is_lasting ? KILN_UNSUPPORTED : why.code,
              "nothing is built into this program for %s (%.40s), so not the kernels of %.80s; "
              "built in: %.80s. Name the device in KILN_DEVICE_TARGETS and %s",
              wish->database_id, wish->target->text, key, names, way);
}

/* ---- each item's digest, once ---- */

struct item_task {
    struct task task; /* first member */
    struct engine *engine;
    struct engine_item_check check;
    bool is_done;
};

static void check_work(struct task *task)
{
    struct item_task *t = (struct item_task *)task;
    t->is_done = engine_item_check_step(&t->check);
}

static void tell_damage(struct engine *e, const struct engine_item *item)
{
    char text[256];
    snprintf(text, sizeof(text),
             "'%s', which is built into this program, is not what was built in: it is used no "
             "more; install the program anew",
             item->name);
    engine_forget_hot(e);
    event_report(e, "built_in_damaged", text);
}

static void check_done(struct task *task)
{
    struct item_task *t = (struct item_task *)task;
    struct engine *e = t->engine;
    engine_task_ended(e);
    if (!t->is_done && !e->draining) {
        engine_run(e, LANE_TUNING, &t->task);
        return;
    }
    e->checking_item = false;
    if (t->is_done && engine_item_is_damaged(t->check.item))
        tell_damage(e, t->check.item);
    free(t);
}

void built_in_tick(struct engine *e)
{
    struct engine_item_check check;
    if (e->checking_item || e->draining || !engine_item_check_begin(e->data, &check))
        return;
    struct item_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    *t = (struct item_task){ .task = { .work = check_work, .done = check_done },
                             .engine = e,
                             .check = check };
    e->checking_item = true;
    engine_run(e, LANE_TUNING, &t->task);
}

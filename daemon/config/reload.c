/* SPDX-License-Identifier: MIT */
#include "daemon/config/reload.h"

#include "common/log/log.h"
#include "daemon/config/config_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct reload_task {
    struct task task;
    struct reload *reload;
    struct config *fresh;
    struct peer_groups groups;
    enum kiln_code rc;
    struct kiln_err err;
};

static void task_destroy(struct reload_task *t)
{
    if (t)
        free(t->fresh);
    free(t);
}

static void on_work_queue(struct task *task)
{
    struct reload_task *t = (struct reload_task *)task;
    const struct reload_parts *p = &t->reload->parts;
    t->rc = config_load(p->argc, p->argv, (const char *const *)environ, t->fresh, &t->err);
    if (!t->rc)
        t->rc = config_check(t->fresh, &t->err);
    if (!t->rc)
        t->rc = peer_groups_find(config_text(t->fresh, CONFIG_publish_group), &t->groups, &t->err);
}

static bool is_default(const struct config_entry *entry)
{
    return strcmp(entry->origin, "default") == 0;
}

static bool is_same(const struct config_entry *a, const struct config_entry *b)
{
    return a->value.number == b->value.number && strcmp(a->value.text, b->value.text) == 0;
}

static bool was_changed(const struct reload *r, enum config_key key)
{
    const struct config_entry *before = &r->started->entries[key], *now = &r->fresh->entries[key];
    return !is_same(before, now) && !(is_default(before) && is_default(now));
}

static void list_waiting(const struct reload *r, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int key = 0; key < CONFIG_KEYS && used < size; key++) {
        if (r->waits[key])
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     config_table[key].key);
    }
}

static void take_over(struct reload *r)
{
    for (int key = 0; key < CONFIG_KEYS; key++) {
        r->waits[key] = false;
        if (config_table[key].applies == SETTING_NOW)
            r->parts.config->entries[key] = r->fresh->entries[key];
        else
            r->waits[key] = was_changed(r, (enum config_key)key);
    }
}

static void say_reloaded(const struct reload *r)
{
    char waiting[512];
    list_waiting(r, waiting, sizeof(waiting));
    log_event(LOG_EVENT_reloaded, NULL, "the configuration was read again%s",
              waiting[0] ? "" : ": all settings are in effect");
    if (waiting[0])
        log_event(LOG_EVENT_reload_waits, NULL,
                  "these settings have changed and wait for a restart: %s", waiting);
}

static void finish_reload(struct reload *r, struct reload_task *t)
{
    if (!t->rc)
        t->rc = r->parts.apply(r, t->fresh, &t->groups, &t->err);
    r->refused = t->rc ? t->err : KILN_ERR_INIT;
    if (t->rc) {
        log_event(LOG_EVENT_reload_refused, NULL,
                  "the new configuration is invalid, and all settings are unchanged: %s",
                  t->err.text);
        return;
    }
    free(r->fresh);
    r->fresh = t->fresh;
    t->fresh = NULL;
    take_over(r);
    say_reloaded(r);
}

static void on_loop(struct task *task)
{
    struct reload_task *t = (struct reload_task *)task;
    struct reload *r = t->reload;
    finish_reload(r, t);
    r->task = NULL;
    r->parts.ended(r, t->rc ? "the new configuration is invalid: kilnctl doctor says why" : "");
    task_destroy(t);
    if (r->again)
        reload_begin(r);
}

void reload_begin(struct reload *r)
{
    r->again = r->task != NULL;
    if (r->task)
        return;
    struct reload_task *t = calloc(1, sizeof(*t));
    if (t)
        t->fresh = calloc(1, sizeof(*t->fresh));
    if (!t || !t->fresh) {
        task_destroy(t);
        (void)kiln_fail(&r->refused, KILN_NO_MEMORY,
                        "cannot read the configuration: out of memory");
        log_event(LOG_EVENT_reload_refused, NULL, "%s", r->refused.text);
        return;
    }
    t->task = (struct task){ .work = on_work_queue, .done = on_loop, .uid = getuid() };
    t->reload = r;
    t->err = KILN_ERR_INIT;
    r->task = t;
    r->parts.begins(r);
    work_queues_run(r->parts.work_queues, WORK_QUEUE_READ, &t->task);
}

void reload_cancel(struct reload *r) { r->again = false; }

bool reload_is_under_way(const struct reload *r) { return r->task != NULL; }

const struct config_entry *reload_waiting(const struct reload *r, enum config_key key)
{
    return r->waits[key] ? &r->fresh->entries[key] : NULL;
}

const char *reload_refused(const struct reload *r) { return r->refused.text; }

enum kiln_code reload_init(struct reload *r, const struct reload_parts *parts, struct kiln_err *err)
{
    *r = (struct reload){ .parts = *parts,
                          .refused = KILN_ERR_INIT,
                          .started = malloc(sizeof(*r->started)) };
    if (!r->started)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read the configuration: out of memory");
    *r->started = *parts->config;
    return KILN_OK;
}

void reload_done(struct reload *r)
{
    free(r->started);
    free(r->fresh);
    *r = (struct reload){ 0 };
}

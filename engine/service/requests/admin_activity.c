/* SPDX-License-Identifier: MIT */
/* The request activity. To answer it, kilnd reads no file, so clients may send it every second. */
#include "common/base/clock.h"
#include "engine/service/requests/admin.h"

#include <stdio.h>

#define COMPILES_MAX 1024 /* the largest value of the setting 'workers' */
#define USERS_MAX 256
#define NOBODY ((uid_t)-1) /* uid of the describe job, which belongs to no user */

struct user_line {
    uid_t uid;
    uint64_t running, interactive, prefetch;
};

struct activity {
    uid_t caller_uid;
    bool is_admin;
    uint64_t now_ns;
    struct json *compiles;
    struct user_line users[USERS_MAX];
    unsigned user_count;
    struct user_line others;
};

static bool may_know(const struct activity *a, uid_t uid)
{
    return a->is_admin || uid == a->caller_uid;
}

static struct user_line *line_of(struct activity *a, uid_t uid)
{
    if (!may_know(a, uid))
        return &a->others;
    for (unsigned i = 0; i < a->user_count; i++) {
        if (a->users[i].uid == uid)
            return &a->users[i];
    }
    if (a->user_count == USERS_MAX)
        return &a->others;
    a->users[a->user_count] = (struct user_line){ .uid = uid };
    return &a->users[a->user_count++];
}

static void add_running(void *context, const struct compile_order *order)
{
    static const char *const kinds[] = {
        [COMPILE_KERNEL] = "kernel", [COMPILE_PROBE] = "probe", [COMPILE_DESCRIBE] = "describe"
    };
    struct activity *a = context;
    const struct compile_job *job = &order->task.job;
    if (order->uid != NOBODY)
        line_of(a, order->uid)->running++;
    if (json_count(a->compiles) >= COMPILES_MAX)
        return;
    struct json *j = json_object();
    json_set_text(j, "kind", kinds[job->kind]);
    json_set_bytes(j, "program", job->program);
    json_set_bytes(j, "target", job->target);
    json_set_bytes(j, "toolchain", job->toolchain);
    json_set_number(j, "age_s", (double)(a->now_ns - order->started_ns) / 1e9);
    json_set_number(j, "waited_s", (double)(order->started_ns - order->queued_ns) / 1e9);
    json_set_bool(j, "prefetch", order->priority == PRIORITY_PREFETCH);
    if (order->uid != NOBODY && may_know(a, order->uid))
        json_set_u64(j, "uid", order->uid);
    json_append(a->compiles, j);
}

static void add_waiting(void *context, uid_t uid, enum priority priority, unsigned waiting)
{
    struct activity *a = context;
    if (uid == NOBODY)
        return;
    struct user_line *line = line_of(a, uid);
    *(priority == PRIORITY_PREFETCH ? &line->prefetch : &line->interactive) += waiting;
}

static void set_counts(struct json *j, const struct user_line *line)
{
    json_set_u64(j, "running", line->running);
    json_set_u64(j, "waiting", line->interactive + line->prefetch);
    json_set_u64(j, "prefetch", line->prefetch);
}

static struct json *users_to_json(const struct activity *a)
{
    struct json *users = json_array();
    for (unsigned i = 0; i < a->user_count; i++) {
        struct json *j = json_object();
        json_set_u64(j, "uid", a->users[i].uid);
        set_counts(j, &a->users[i]);
        json_append(users, j);
    }
    return users;
}

enum kiln_code handle_activity(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, admin_no_members, &question, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *answer = json_object();
    struct activity a = { .caller_uid = caller->uid,
                          .is_admin = caller->role == ROLE_ADMIN,
                          .now_ns = clock_monotonic_ns(),
                          .compiles = json_set_array(answer, "compiles") };
    compile_queue_each_running(e->queue, add_running, &a);
    compile_queue_each_user(e->queue, add_waiting, &a);
    json_set(answer, "users", users_to_json(&a));
    struct json *others = json_object();
    set_counts(others, &a.others);
    json_set(answer, "others", others);
    json_set_u64(answer, "slots", e->executor->ops->compile_slots(e->executor));
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}

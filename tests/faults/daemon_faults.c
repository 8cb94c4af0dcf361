/* SPDX-License-Identifier: MIT */
/* Faults in the real programs: kilnd, its compiler and its transfer, and a client of the library.
 */
#include "tests/faults/scene.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define AT_ONCE 12u
#define BATCH 12u
/* An installed package has one for each thread that reads, an imported database one. */
#define FILES_MORE 8u

struct daemon_operation {
    const char *program; /* that is struck */
    /* What is struck. */
    bool (*act)(struct scene *s); /* whether it succeeded */
    bool starts;                  /* kilnd's start is what is struck */
    unsigned more_files;          /* that stay open after it: a package, an index */
};

/* ---- what is done ---- */

static bool fetch_new(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    bool came = scene_fetch(s, client, ++s->kernel);
    kiln_client_close(client);
    return came;
}

static bool fetch_warm(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    bool came = scene_fetch(s, client, 1); /* in the answer */
    came &= scene_fetch(s, client, 2);     /* by descriptor */
    kiln_client_close(client);
    return came;
}

static bool fetch_batch(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    bool came = scene_fetch_batch(s, client, BATCH);
    kiln_client_close(client);
    return came;
}

static bool put_records(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    bool put = scene_put(s, client, 0);
    put &= scene_put(s, client, 1);
    kiln_client_close(client);
    return put;
}

static bool with_file(struct scene *s, const char *group, const char *verb, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", s->files, name);
    const char *const words[] = { group, verb, path, NULL };
    return scene_asks(s, words);
}

static bool install(struct scene *s) { return with_file(s, "pkg", "install", "gfx90a68.kdb"); }
static bool import_cache(struct scene *s)
{
    return with_file(s, "kernel", "import", "gfx90a68.ukdb");
}
static bool import_records(struct scene *s)
{
    return with_file(s, "db", "import", "gfx90a68.HIP.fdb.txt");
}

static bool merge_records(struct scene *s)
{
    return with_file(s, "db", "merge", "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt");
}

static bool promote(struct scene *s)
{
    static const char *const words[] = { "db", "promote", "--uid", "0", NULL };
    return scene_asks(s, words);
}

static bool collect(struct scene *s)
{
    static const char *const words[] = { "gc", "--yes", NULL };
    return scene_asks(s, words);
}

static bool clear(struct scene *s)
{
    static const char *const words[] = { "clear", "--all", "--yes", NULL };
    return scene_asks(s, words);
}

static bool ask_for_status(struct scene *s)
{
    static const char *const words[] = { "status", "--json", NULL };
    return scene_asks(s, words);
}

static bool stop(struct scene *s)
{
    kill(s->daemon.pid, SIGTERM);
    scene_reap(s);
    return true;
}

/* ---- a place ---- */

static bool is_deadly(const struct fault_case *c)
{
    return c->kind->action == FAULT_KILL || c->kind->action == FAULT_TEAR;
}

static void strike_start(const struct fault_case *c, unsigned at, struct scene *s)
{
    fault_case_plan(c, at, s->plan);
    s->resting_files = 0; /* of the one before */
    fault_plan_arm(s->plan);
    bool serves = scene_try_start(s);
    bool struck = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    if (!struck)
        assert_true(serves);
    if (serves) {
        scene_serves_kernels(s);
        scene_is_sound(s);
        scene_stop(s);
    }
    scene_survives(s);
    fault_case_next(c, s->plan, struck);
}

/* What every program has to take: no more than a delay. */
static bool is_harmless(const struct fault_kind *kind)
{
    return kind->action == FAULT_SHORT || kind->error == EINTR;
}

/* A client that is struck is this process, or where it is killed a child. */
static bool act_as_client(const struct fault_case *c, const struct daemon_operation *o,
                          struct scene *s)
{
    if (!is_deadly(c)) {
        fault_plan_obey(s->plan);
        bool done = o->act(s);
        fault_plan_obey(NULL);
        return done;
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fault_plan_obey(s->plan);
        o->act(s);
        _exit(0);
    }
    int status = wait_program(child);
    assert_true(status == 0 || status == 128 + SIGKILL);
    for (unsigned i = 0; i < SCENE_RECORDS; i++)
        s->tried[i] = s->version + 1; /* it may have put as many */
    s->version += 2;
    s->kernel += BATCH;
    return status == 0;
}

struct attempt {
    struct scene *scene;
    const struct daemon_operation *operation;
};

/* After a fault that lasted, kilnd waits a while before it tries again what failed. */
static bool succeeds(void *context)
{
    const struct attempt *a = context;
    return a->operation->act(a->scene);
}

/* True: the next one may follow in the same kilnd. */
static bool strike(const struct fault_case *c, const struct daemon_operation *o, unsigned at,
                   struct scene *s)
{
    fault_case_plan(c, at, s->plan);
    fault_plan_arm(s->plan);
    bool done = *o->program ? o->act(s) : act_as_client(c, o, s);
    scene_settle(s);
    bool struck = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    struct attempt attempt = { s, o };
    bool may_fail = struck && !is_harmless(c->kind);
    if (!done && !may_fail && (struck || !wait_until(succeeds, &attempt)))
        fail_msg("it fails without a fault that could: '%s', '%s'", s->why, s->result.output);
    /* A child of kilnd's that was not yet another program is none of it. */
    if (struck && is_deadly(c) && s->plan->pid == s->daemon.pid)
        scene_reap(s);
    if (s->daemon.pid)
        scene_is_sound(s);
    return fault_case_next(c, s->plan, struck) && s->daemon.pid;
}

static void run(const struct fault_case *c)
{
    const struct daemon_operation *o = c->operation->context;
    static struct scene s;
    scene_open(&s, c, o->program);
    if (o->starts) {
        strike_start(c, c->first, &s);
        scene_close(&s);
        return;
    }
    scene_start(&s, o->more_files);
    unsigned at = c->first;
    while (strike(c, o, at, &s))
        at += c->every;
    if (s.daemon.pid) {
        scene_serves(&s);
        scene_stop(&s);
    }
    scene_survives(&s);
    scene_close(&s);
}

static void run_full_start(const struct fault_case *c)
{
    static struct scene s;
    scene_open(&s, c, "kilnd");
    scene_start(&s, 0);
    install(&s);
    import_records(&s);
    scene_stop(&s);
    strike_start(c, c->first, &s);
    scene_close(&s);
}

#define DAEMON(program, act) \
    &(const struct daemon_operation) { program, act, false, FILES_MORE }
#define SERVER_KINDS \
    (KINDS_OF_MEMORY | KINDS_OF_FILES | KINDS_OF_SOCKETS | KINDS_OF_DEATH | BIT(KIND_PROCESS))
#define SERVER(label, act)                                                      \
    {                                                                           \
        .name = (label), .kinds = SERVER_KINDS, .at_once = AT_ONCE, .run = run, \
        .context = DAEMON("kilnd", act)                                         \
    }
#define HELPER(label, program, act)                                             \
    {                                                                           \
        .name = (label), .kinds = SERVER_KINDS, .at_once = AT_ONCE, .run = run, \
        .context = DAEMON(program, act)                                         \
    }

#define CLIENT_KINDS \
    (KINDS_OF_MEMORY | KINDS_OF_SOCKETS | BIT(KIND_MAP) | BIT(KIND_DESCRIPTOR) | BIT(KIND_KILL))
#define CLIENT(label, act)                                                      \
    {                                                                           \
        .name = (label), .kinds = CLIENT_KINDS, .at_once = AT_ONCE, .run = run, \
        .context = DAEMON("", act)                                              \
    }

static const struct daemon_operation first_start = { "kilnd", NULL, true, 0 };
static const struct operation operations[] = {
    { .name = "start-empty", .kinds = SERVER_KINDS, .run = run, .context = &first_start },
    { .name = "start-full", .kinds = SERVER_KINDS, .run = run_full_start },
    SERVER("fetch-cold", fetch_new),
    SERVER("fetch-warm", fetch_warm),
    SERVER("fetch-batch", fetch_batch),
    SERVER("tuning-record", put_records),
    SERVER("tuning-import-file", import_records),
    SERVER("tuning-merge-file", merge_records),
    SERVER("tuning-promote-all", promote),
    SERVER("package-install", install),
    SERVER("cache-import", import_cache),
    SERVER("gc", collect),
    SERVER("clear", clear),
    SERVER("status", ask_for_status),
    SERVER("stop", stop),
    HELPER("transfer", "kiln-transfer", install),
    HELPER("compiler", "kiln-compiler", fetch_new),
    CLIENT("client-fetch-cold", fetch_new),
    CLIENT("client-fetch-warm", fetch_warm),
    CLIENT("client-fetch-batch", fetch_batch),
    CLIENT("client-tuning-record", put_records),
    { .name = NULL },
};

int main(int argc, char **argv) { return fault_cases_main(argc, argv, operations); }

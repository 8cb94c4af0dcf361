/* SPDX-License-Identifier: MIT */
#include "tests/faults/scene.h"
#include "tests/support/service_manager.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define AT_ONCE 12u
#define BATCH 12u
#define LISTED 60u
struct daemon_operation {
    const char *program;
    bool (*act)(struct scene *s);
    bool ends;                        /* whether |act| makes kilnd exit */
    bool (*prepare)(struct scene *s); /* called before each place; may be NULL */
};

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
    bool came = scene_fetch(s, client, 1); /* a small object, whose bytes are in the reply */
    came &= scene_fetch(s, client, 2);     /* a large object, which is sent as a descriptor */
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

static bool tune_problem(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    bool tuned = scene_tune(s, client);
    kiln_client_close(client);
    return tuned;
}

static bool with_file(struct scene *s, const char *group, const char *verb, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", s->files, name);
    const char *const words[] = { group, verb, path, NULL };
    return scene_asks(s, words);
}

static bool install_package(struct scene *s)
{
    return with_file(s, "pkg", "install", "gfx90a68.kdb");
}
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

static bool promote_records(struct scene *s)
{
    static const char *const words[] = { "db", "promote", "--uid", "0", NULL };
    return scene_asks(s, words);
}

static bool collect_garbage(struct scene *s)
{
    static const char *const words[] = { "gc", "--yes", NULL };
    return scene_asks(s, words);
}

static bool clear_cache(struct scene *s)
{
    static const char *const words[] = { "clear", "--all", "--yes", NULL };
    return scene_asks(s, words);
}

static bool have_kernels(struct scene *s)
{
    scene_warm(s);
    return true;
}

static bool ask_for_status(struct scene *s)
{
    static const char *const words[] = { "status", "--json", NULL };
    return scene_asks(s, words);
}

/* Lists all kernels with kilnctl. Fails the test if the number of kernels differs from that in the
 * previous list. */
static bool list_kernels(struct scene *s)
{
    static const char *const words[] = { "kernel", "ls", "--json", NULL };
    if (!scene_asks(s, words))
        return false;
    KILN_AUTO(json) struct json *answer = result_json(&s->result);
    size_t count = json_count(json_get(answer, "kernels"));
    if (s->listed && count != s->listed)
        fail_msg("kilnctl lists %zu of %zu kernels", count, s->listed);
    s->listed = count;
    return true;
}

static bool have_a_long_list(struct scene *s)
{
    if (s->listed >= LISTED)
        return true;
    struct kiln_client *client = scene_client(s);
    bool came = scene_fetch_batch(s, client, LISTED);
    kiln_client_close(client);
    scene_settle(s);
    s->listed = 0;
    return came && list_kernels(s) && s->listed >= LISTED;
}

static bool stop_kilnd(struct scene *s)
{
    kill(s->daemon.pid, SIGTERM);
    scene_reap(s);
    return true;
}

/* After an injected fault, kilnd may have failed to open its tuning database. Even so, kilnd must
 * serve kernels. */
static void serves_after_start(const struct fault_case *c, struct scene *s, bool injected)
{
    if (injected && !fault_is_harmless(c->kind))
        scene_serves_kernels(s);
    else
        scene_serves(s);
    scene_is_sound(s);
    scene_stop(s);
}

static void strike_start(const struct fault_case *c, unsigned at, struct scene *s)
{
    fault_case_plan(c, at, s->plan);
    s->knows_rest = false;
    fault_plan_arm(s->plan);
    bool serves = scene_try_start(s);
    bool injected = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    if (!serves && (!injected || fault_is_harmless(c->kind)))
        fail_msg("kilnd does not start without a fault that could keep it from it");
    if (serves)
        serves_after_start(c, s, injected);
    scene_survives(s);
    fault_case_next(c, s->plan, injected);
}

/* Runs the operation in this process or, if the fault may stop kilnd from answering, in a separate
 * process that can be killed. */
static bool run_operation(const struct fault_case *c, const struct daemon_operation *o,
                          struct scene *s)
{
    bool is_client = !*o->program;
    bool deadly = fault_is_deadly(c->kind);
    if (o->ends) /* kilnd ends, and only its parent (this process) can wait for it */
        return o->act(s);
    if (deadly || (c->kind->onwards && !is_client))
        return scene_act_apart(s, o->act, is_client);
    fault_plan_obey(is_client ? s->plan : NULL);
    bool done = o->act(s);
    fault_plan_obey(NULL);
    return done;
}

struct attempt {
    struct scene *scene;
    const struct daemon_operation *operation;
};

/* Returns whether the operation succeeds. holds_in_time calls this function repeatedly, because
 * after a lasting fault, kilnd retries failed work only after a while. */
static bool operation_succeeds(void *context)
{
    const struct attempt *a = context;
    return a->operation->act(a->scene);
}

/* Injects the fault at place |at|. Returns true if there is a next place and kilnd still runs. */
static bool inject_fault(const struct fault_case *c, const struct daemon_operation *o, unsigned at,
                         struct scene *s)
{
    if (o->prepare) {
        assert_true(o->prepare(s));
        scene_settle(s);
    }
    fault_case_plan(c, at, s->plan);
    fault_plan_arm(s->plan);
    bool done = run_operation(c, o, s);
    scene_settle(s);
    bool injected = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    struct attempt attempt = { s, o };
    bool may_fail = injected && !fault_is_harmless(c->kind);
    if (!done && !may_fail && (injected || !holds_in_time(operation_succeeds, &attempt)))
        fail_msg("the operation fails without a reason: '%s', '%s'", s->why, s->result.output);
    /* Reaps kilnd only if the fault killed kilnd itself. The fault may also have killed a child
     * that kilnd forked and that had not called execve yet. */
    if (injected && fault_is_deadly(c->kind) && s->plan->pid == s->daemon.pid)
        scene_reap(s);
    if (s->daemon.pid)
        scene_is_sound(s);
    return fault_case_next(c, s->plan, injected) && s->daemon.pid;
}

/* Puts the scene into shared memory, because a separate process may record there what kilnd
 * acknowledged. */
static struct scene *open_scene(const struct fault_case *c, const char *program)
{
    struct scene *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);
    scene_open(s, c, program);
    return s;
}

static void run_operation_case(const struct fault_case *c)
{
    const struct daemon_operation *o = c->operation->context;
    struct scene *s = open_scene(c, o->program);
    scene_start(s);
    /* kilnd opens some descriptors at the first operation and keeps them; this is not a leak */
    if (!o->ends) {
        assert_true(o->act(s));
        scene_settle(s);
        scene_rest(s);
    }
    unsigned at = c->first;
    while (inject_fault(c, o, at, s))
        at += c->every;
    if (s->daemon.pid) {
        scene_serves(s);
        scene_stop(s);
    }
    scene_survives(s);
    scene_close(s);
}

static void run_first_start(const struct fault_case *c)
{
    struct scene *s = open_scene(c, "kilnd");
    strike_start(c, c->first, s);
    scene_close(s);
}

static void run_full_start(const struct fault_case *c)
{
    struct scene *s = open_scene(c, "kilnd");
    scene_start(s);
    install_package(s);
    import_records(s);
    scene_stop(s);
    strike_start(c, c->first, s);
    scene_close(s);
}

/* Restarts kilnd. The old kilnd passes its listening socket to the service manager, which passes it
 * to the new kilnd. Faults are injected into both processes. */
static void inject_into_restart(const struct fault_case *c, unsigned at, struct scene *s,
                                struct service_manager *manager)
{
    fault_case_plan(c, at, s->plan);
    fault_plan_arm(s->plan);
    kill(s->daemon.pid, SIGTERM);
    scene_reap(s);
    service_manager_settle(manager);
    bool serves = scene_try_start(s);
    bool injected = fault_plan_disarm(s->plan);
    snprintf(c->report->where, sizeof(c->report->where), "%s", s->plan->where);
    if (!serves && (!injected || fault_is_harmless(c->kind)))
        fail_msg("kilnd does not start without a fault that could keep it from it");
    if (serves)
        serves_after_start(c, s, injected);
    fault_case_next(c, s->plan, injected);
}

static void run_restart(const struct fault_case *c)
{
    static struct service_manager manager;
    struct scene *s = open_scene(c, "kilnd");
    for (unsigned i = 0; i < DAEMON_ARGUMENTS_MAX - 2; i++) {
        if (s->daemon.arguments[i])
            continue;
        s->daemon.arguments[i] = "--descriptor-store";
        s->daemon.arguments[i + 1] = "on";
        break;
    }
    service_manager_open(&manager, &s->daemon, /* with_socket= */ false);
    scene_start(s);
    inject_into_restart(c, c->first, s, &manager);
    service_manager_close(&manager);
    scene_survives(s);
    scene_close(s);
}

#define DAEMON(program, run_operation) \
    &(const struct daemon_operation) { program, run_operation, false, NULL }
#define SERVER_KINDS \
    (KINDS_OF_MEMORY | KINDS_OF_FILES | KINDS_OF_SOCKETS | KINDS_OF_DEATH | BIT(KIND_PROCESS))
#define SERVER_OF(label, operation)                                                            \
    {                                                                                          \
        .name = (label), .kinds = SERVER_KINDS, .at_once = AT_ONCE, .run = run_operation_case, \
        .context = (operation)                                                                 \
    }
#define SERVER(label, run_operation)                                                           \
    {                                                                                          \
        .name = (label), .kinds = SERVER_KINDS, .at_once = AT_ONCE, .run = run_operation_case, \
        .context = DAEMON("kilnd", run_operation)                                              \
    }
#define HELPER(label, program, run_operation)                                                  \
    {                                                                                          \
        .name = (label), .kinds = SERVER_KINDS, .at_once = AT_ONCE, .run = run_operation_case, \
        .context = DAEMON(program, run_operation)                                              \
    }

#define CLIENT_KINDS                                                                              \
    (KINDS_OF_MEMORY | KINDS_OF_SOCKETS | BIT(KIND_MAP) | BIT(KIND_DESCRIPTOR) | BIT(KIND_KILL) | \
     BIT(KIND_STEP))
#define CLIENT(label, run_operation)                                                           \
    {                                                                                          \
        .name = (label), .kinds = CLIENT_KINDS, .at_once = AT_ONCE, .run = run_operation_case, \
        .context = DAEMON("", run_operation)                                                   \
    }

static const struct daemon_operation stopping = { "kilnd", stop_kilnd, true, NULL };
static const struct daemon_operation clearing = { "kilnd", clear_cache, false, have_kernels };
static const struct daemon_operation listing = { "kilnctl", list_kernels, false, have_a_long_list };
static const struct daemon_operation promoting = { "kilnd", promote_records, false, put_records };
static const struct operation operations[] = {
    { .name = "start-empty", .kinds = SERVER_KINDS, .run = run_first_start },
    { .name = "start-full", .kinds = SERVER_KINDS, .run = run_full_start },
    { .name = "restart", .kinds = SERVER_KINDS, .run = run_restart },
    SERVER("fetch-cold", fetch_new),
    SERVER("fetch-warm", fetch_warm),
    SERVER("fetch-batch", fetch_batch),
    SERVER("prefetch", scene_prefetch),
    SERVER("tuning-record", put_records),
    SERVER("tuning-lease", tune_problem),
    SERVER("tuning-import-file", import_records),
    SERVER("tuning-merge-file", merge_records),
    SERVER_OF("tuning-promote-all", &promoting),
    SERVER("package-install", install_package),
    SERVER("cache-import", import_cache),
    SERVER("gc", collect_garbage),
    SERVER_OF("clear", &clearing),
    SERVER("status", ask_for_status),
    SERVER_OF("stop", &stopping),
    HELPER("transfer", "kiln-transfer", install_package),
    HELPER("compiler", "kiln-compiler", fetch_new),
    CLIENT("client-fetch-cold", fetch_new),
    CLIENT("client-fetch-warm", fetch_warm),
    CLIENT("client-fetch-batch", fetch_batch),
    CLIENT("client-tuning-record", put_records),
    CLIENT("client-tuning-lease", tune_problem),
    { .name = "kilnctl",
      .kinds = CLIENT_KINDS & ~KINDS_OF_DEATH,
      .at_once = AT_ONCE,
      .run = run_operation_case,
      .context = &listing },
    { .name = NULL },
};

int main(int argc, char **argv) { return fault_cases_main(argc, argv, operations); }

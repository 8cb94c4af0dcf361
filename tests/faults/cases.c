/* SPDX-License-Identifier: MIT */
#include "tests/faults/cases.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limit of a case. Most cases take less than a second, but much longer with sanitizers on a
 * loaded machine. */
#define CASE_SECONDS 300
#define NO_PLACE 0u

const struct fault_kind fault_kinds[FAULT_KINDS] = {
    [KIND_MEMORY] = { "memory", FAULT_MEMORY, FAULT_FAIL, ENOMEM, false, NULL },
    [KIND_MEMORY_ON] = { "memory-on", FAULT_MEMORY, FAULT_FAIL, ENOMEM, true, NULL },
    [KIND_FULL] = { "full", FAULT_WRITE, FAULT_FAIL, ENOSPC, false, NULL },
    [KIND_FULL_ON] = { "full-on", FAULT_WRITE, FAULT_FAIL, ENOSPC, true, NULL },
    [KIND_WRITE] = { "write", FAULT_WRITE, FAULT_FAIL, EIO, false, NULL },
    [KIND_WRITE_SHORT] = { "write-short", FAULT_WRITE, FAULT_SHORT, 0, false, NULL },
    [KIND_SYNC] = { "sync", FAULT_SYNC, FAULT_FAIL, EIO, false, NULL },
    [KIND_READ] = { "read", FAULT_READ, FAULT_FAIL, EIO, false, NULL },
    [KIND_READ_SHORT] = { "read-short", FAULT_READ, FAULT_SHORT, 0, false, NULL },
    [KIND_MAP] = { "map", FAULT_MAP, FAULT_FAIL, ENOMEM, false, NULL },
    [KIND_NAME] = { "name", FAULT_NAME, FAULT_FAIL, EIO, false, NULL },
    [KIND_DESCRIPTOR] = { "descriptor", FAULT_DESCRIPTOR, FAULT_FAIL, EMFILE, false, NULL },
    [KIND_DESCRIPTOR_ON] = { "descriptor-on", FAULT_DESCRIPTOR, FAULT_FAIL, EMFILE, true, NULL },
    [KIND_MEMFD] = { "memfd", FAULT_MEMFD, FAULT_FAIL, ENOMEM, false, NULL },
    [KIND_RESET] = { "reset", FAULT_SEND | FAULT_RECEIVE, FAULT_FAIL, ECONNRESET, false, NULL },
    [KIND_INTERRUPTED] = { "interrupted",
                           FAULT_SEND | FAULT_RECEIVE | FAULT_WAIT | FAULT_READ | FAULT_WRITE,
                           FAULT_FAIL, EINTR, false, NULL },
    [KIND_SOCKET_SHORT] = { "socket-short", FAULT_SEND | FAULT_RECEIVE, FAULT_SHORT, 0, false,
                            NULL },
    [KIND_CONNECT] = { "connect", FAULT_CONNECT, FAULT_FAIL, ENFILE, false, NULL },
    [KIND_PROCESS] = { "process", FAULT_PROCESS, FAULT_FAIL, EAGAIN, false, NULL },
    [KIND_KILL] = { "kill", FAULT_STEPS, FAULT_KILL, 0, false, NULL },
    [KIND_POWER] = { "power", 0, FAULT_KILL, 0, false, NULL },
    [KIND_STEP] = { "step", FAULT_STEPS, FAULT_KILL, 0, false, NULL },
    [KIND_TEAR] = { "tear", FAULT_WRITE, FAULT_TEAR, 0, false, NULL },
};

bool fault_is_harmless(const struct fault_kind *kind)
{
    return kind->action == FAULT_SHORT || kind->error == EINTR;
}

bool fault_is_deadly(const struct fault_kind *kind)
{
    return (kind->calls && kind->action == FAULT_KILL) || kind->action == FAULT_TEAR;
}

void fault_case_plan(const struct fault_case *c, unsigned at, struct fault_plan *plan)
{
    const struct fault_kind *k = c->kind;
    plan->calls = k->calls;
    plan->action = k->action;
    plan->error = k->error;
    plan->onwards = k->onwards;
    plan->first = at;
    plan->step[0] = '\0';
    plan->notes_steps = k == &fault_kinds[KIND_STEP] && at == NO_PLACE;
    if (plan->notes_steps)
        plan->step_count = 0;
    if (k == &fault_kinds[KIND_STEP] && at != NO_PLACE) {
        plan->first = 1;
        snprintf(plan->step, sizeof(plan->step), "%s", c->report->steps[at - 1]);
    }
    snprintf(plan->path, sizeof(plan->path), "%s", k->path ? k->path : "");
    snprintf(plan->without, sizeof(plan->without), "%s", c->without ? c->without : "");
    c->report->at = at;
    snprintf(c->report->where, sizeof(c->report->where), "nothing yet");
}

bool fault_case_next(const struct fault_case *c, const struct fault_plan *plan, bool injected)
{
    struct case_report *r = c->report;
    snprintf(r->where, sizeof(r->where), "%s", injected ? plan->where : "nothing");
    if (plan->notes_steps) {
        r->step_count = plan->step_count;
        memcpy(r->steps, plan->steps, sizeof(r->steps));
    }
    r->tried += injected;
    r->passed = !injected;
    return injected && r->tried < c->count;
}

struct case_options {
    unsigned every; /* try every n-th place */
    /* like |every|, but for faults of allocations, of which an operation makes thousands; 0 means
     * the value of |every| */
    unsigned memory;
    /* maximum number of places to try for each operation and fault; 0 means no limit */
    unsigned most;
    /* After this time, no further case of the same operation and fault starts. 0 means no limit. */
    unsigned seconds;
    unsigned from; /* number of the first place to try; 0: |seed| selects it */
    unsigned seed; /* selects the first place, from 1 to |every|, for each operation and fault */
    /* "operation", "operation:fault" or ":fault", separated by commas; NULL means all */
    const char *only;
    /* calls from the library whose path contains this text are not counted; may be NULL */
    const char *without;
    bool keep_going;
    bool keep; /* keep directories of lost cases */
    bool must_inject;
};

struct case_counts {
    unsigned tried, lost;
};

static void print_lost_case(const struct fault_case *c, int status, int output)
{
    char text[4096];
    ssize_t got = pread(output, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    fprintf(stderr, "LOST %s:%s at %u, %s: ", c->operation->name, c->kind->name, c->report->at,
            c->report->where);
    if (WIFSIGNALED(status))
        fprintf(stderr, "ended by %s", strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "status %d", WEXITSTATUS(status));
    fprintf(stderr, "\n%s\n", text);
}

static void survive_case(void **state)
{
    const struct fault_case *c = *state;
    c->operation->run(c);
}

static void run_child(const struct fault_case *c, int output)
{
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    alarm(CASE_SECONDS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(survive_case, (void *)(uintptr_t)c),
    };
    exit(cmocka_run_group_tests_name(c->operation->name, tests, NULL, NULL));
}

static bool run_case(const struct fault_case *c, bool keep)
{
    int output = memfd_create("output", MFD_CLOEXEC);
    if (output < 0)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_child(c, output);
    if (child < 0)
        abort();
    int status = await_process(child, "a case to end", 2 * CASE_SECONDS);
    kill(-child, SIGKILL); /* processes that the case left behind */
    bool survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!survived)
        print_lost_case(c, status, output);
    if (!survived && *c->report->directory && !keep)
        fs_remove_tree(AT_FDCWD, c->report->directory);
    close(output);
    return survived;
}

static void print_counts(const struct fault_case *c, const struct case_options *w,
                         const struct case_counts *case_counts)
{
    printf("{\"operation\":\"%s%s%s\",\"fault\":\"%s\",\"every\":%u,\"tried\":%u,"
           "\"survived\":%u,\"lost\":%u,\"passed\":%s}\n",
           c->operation->name, c->without ? " without " : "", c->without ? c->without : "",
           c->kind->name, w->every, case_counts->tried, case_counts->tried - case_counts->lost,
           case_counts->lost, c->report->passed ? "true" : "false");
    fflush(stdout);
}

static void try_places(struct fault_case *c, const struct case_options *w,
                       struct case_counts *case_counts)
{
    struct case_report *report = c->report;
    unsigned at_once = c->operation->at_once;
    bool one = fault_is_deadly(c->kind) || !at_once;
    uint64_t end = clock_monotonic_ns() + w->seconds * UINT64_C(1000000000);
    while ((!w->most || case_counts->tried < w->most) &&
           (!w->seconds || clock_monotonic_ns() < end)) {
        *report = (struct case_report){ .tried = 0 };
        c->count = one ? 1 : at_once;
        if (w->most && c->count > w->most - case_counts->tried)
            c->count = w->most - case_counts->tried;
        bool survived = run_case(c, w->keep);
        case_counts->tried += report->tried + (survived ? 0 : 1);
        case_counts->lost += survived ? 0 : 1;
        if ((survived && report->passed) || (!survived && !w->keep_going))
            return;
        c->first = report->at + w->every;
    }
}

/* Runs the operation once without faults to find the names of its steps (crash points). Then runs
 * one case for each step, which kills the process at the first call with the step's name. A step
 * that does not occur again in its case is skipped, because steps may differ a little from run to
 * run. */
static void try_steps(struct fault_case *c, const struct case_options *w,
                      struct case_counts *case_counts)
{
    struct case_report *report = c->report;
    *report = (struct case_report){ .tried = 0 };
    c->count = 1;
    c->first = NO_PLACE;
    if (!run_case(c, w->keep)) {
        case_counts->tried = case_counts->lost = 1;
        return;
    }
    for (unsigned at = w->from ? w->from : 1; at <= report->step_count; at++) {
        if (w->most && case_counts->tried == w->most)
            return;
        c->first = at;
        report->tried = 0;
        report->directory[0] = '\0';
        bool survived = run_case(c, w->keep);
        case_counts->tried += survived ? report->tried : 1;
        case_counts->lost += survived ? 0 : 1;
        if (!survived && !w->keep_going)
            return;
    }
    report->passed = true;
}

/* Returns --from or, with --seed, a number from 1 to |every| that depends on the seed. Runs with
 * different seeds try different places if |every| is above 1. */
static unsigned first_place(const struct case_options *w, const char *operation, const char *kind,
                            unsigned every)
{
    if (w->from)
        return w->from;
    uint64_t hash = bytes_hash(bytes_of_text(operation), w->seed);
    return 1 + (unsigned)(bytes_hash(bytes_of_text(kind), hash) % every);
}

static unsigned run_kind(const struct operation *operation, const struct fault_kind *kind,
                         const struct case_options *w, struct case_report *report)
{
    struct case_options case_options = *w;
    struct fault_case c = { .operation = operation,
                            .kind = kind,
                            .every = w->every,
                            .without = w->without,
                            .report = report };
    struct case_counts case_counts = { 0, 0 };
    if (kind->calls == FAULT_MEMORY && w->memory)
        case_options.every = c.every = w->memory;
    c.first = first_place(w, operation->name, kind->name, c.every);
    if (kind == &fault_kinds[KIND_STEP]) {
        case_options.every = 1;
        try_steps(&c, &case_options, &case_counts);
    } else {
        try_places(&c, &case_options, &case_counts);
    }
    print_counts(&c, &case_options, &case_counts);
    if (!w->must_inject || case_counts.tried > 0)
        return case_counts.lost;
    fprintf(stderr, "IDLE %s:%s: nothing was struck\n", operation->name, kind->name);
    return 1;
}

/* |wanted| is "operation", "operation:fault" or ":fault", has |size| bytes, and need not end with
 * NUL. */
static bool is_selected(const char *wanted, size_t size, const char *operation, const char *kind)
{
    const char *colon = memchr(wanted, ':', size);
    size_t named = colon ? (size_t)(colon - wanted) : size;
    if (named && (strlen(operation) != named || strncmp(operation, wanted, named) != 0))
        return false;
    size_t rest = colon ? size - named - 1 : 0;
    return !colon || (strlen(kind) == rest && strncmp(kind, colon + 1, rest) == 0);
}

static bool is_wanted(const struct case_options *w, const char *operation, const char *kind)
{
    const char *at = w->only;
    while (at) {
        size_t size = strcspn(at, ",");
        if (is_selected(at, size, operation, kind))
            return true;
        at = at[size] ? at + size + 1 : NULL;
    }
    return !w->only;
}

static bool all_are_known(const char *only, const struct operation *operations)
{
    for (const char *at = only; at; at = *at ? at + 1 : NULL) {
        size_t size = strcspn(at, ",");
        bool is_known = false;
        for (const struct operation *o = operations; o->name; o++)
            for (unsigned k = 0; k < FAULT_KINDS; k++)
                is_known |=
                    o->kinds & BIT(k) && is_selected(at, size, o->name, fault_kinds[k].name);
        if (!is_known) {
            fprintf(stderr, "--only: there is no '%.*s'; --list prints all\n", (int)size, at);
            return false;
        }
        at += size;
    }
    return true;
}

static int print_usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--every N] [--memory-every N] [--from N | --seed N] [--most N] "
            "[--seconds N] [--only OPERATION[:FAULT],...] [--without LIBRARY] [--go-on] [--keep] "
            "[--must-strike] [--list]\n",
            program);
    return 2;
}

static int list_operations(const struct operation *operations)
{
    for (const struct operation *o = operations; o->name; o++)
        for (unsigned k = 0; k < FAULT_KINDS; k++)
            if (o->kinds & BIT(k))
                printf("%s:%s\n", o->name, fault_kinds[k].name);
    return 0;
}

static unsigned number_of(const char *text)
{
    unsigned long number = strtoul(text, NULL, 10);
    return number > 0 && number < 1000000000 ? (unsigned)number : 1;
}

int fault_cases_main(int argc, char **argv, const struct operation *operations)
{
    static const struct option known[] = {
        { "every", required_argument, NULL, 'e' },
        { "memory-every", required_argument, NULL, 'a' },
        { "from", required_argument, NULL, 'f' },
        { "most", required_argument, NULL, 'm' },
        { "seconds", required_argument, NULL, 't' },
        { "only", required_argument, NULL, 'o' },
        { "without", required_argument, NULL, 'w' },
        { "go-on", no_argument, NULL, 'g' },
        { "list", no_argument, NULL, 'l' },
        { "keep", no_argument, NULL, 'k' },
        { "must-strike", no_argument, NULL, 's' },
        { "seed", required_argument, NULL, 'r' },
        { NULL, 0, NULL, 0 },
    };
    struct case_options w = { .every = 1, .from = 1 };
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (o) {
        case 'e': w.every = number_of(optarg); break;
        case 'a': w.memory = number_of(optarg); break;
        case 'f': w.from = number_of(optarg); break;
        case 'r':
            w.from = 0;
            w.seed = number_of(optarg);
            break;
        case 'm': w.most = number_of(optarg); break;
        case 't': w.seconds = number_of(optarg); break;
        case 'o': w.only = optarg; break;
        case 'w': w.without = optarg; break;
        case 'g': w.keep_going = true; break;
        case 'k': w.keep = true; break;
        case 's': w.must_inject = true; break;
        case 'l': return list_operations(operations);
        default: return print_usage(argv[0]);
        }
    }
    if (!all_are_known(w.only, operations))
        return 2;
    struct case_report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return 1;
    unsigned lost = 0;
    for (const struct operation *o = operations; o->name; o++)
        for (unsigned k = 0; k < FAULT_KINDS; k++)
            if (o->kinds & BIT(k) && is_wanted(&w, o->name, fault_kinds[k].name))
                lost += run_kind(o, &fault_kinds[k], &w, report);
    return lost ? 1 : 0;
}

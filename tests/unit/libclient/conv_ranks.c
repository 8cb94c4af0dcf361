/* SPDX-License-Identifier: MIT */
/* Eight processes with the same problem share its tune. The fake kilnd has the real table of
 * leases, one record of each solver, and a counter. */
#include "engine/tuning/lease.h"
#include "tests/support/child.h"
#include "tests/support/shell.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 8u
#define SPACE 64u
#define BEST "11,1"
#define SPACE_SOLVER "ConvTuned"

struct fixture {
    struct conv_fixture conv;
    struct lease_table *leases;
    struct conv_solver solvers[2]; /* with their records */
    char best[32];
    /* the first requests for shares, which are answered when every rank has sent one */
    struct fake_request asked[RANKS];
    struct problem problem;
    unsigned asked_count, rank_count;
    bool is_full;     /* the disk is, so kilnd records nothing */
    bool kills_first; /* the first rank is killed when it has a share */
    struct kiln_err err;
};

/* ---- the fake kilnd ---- */

static struct fixture *fixture_of(const struct fake_request *rq) { return rq->daemon->context; }

/* A connection's descriptor identifies the holder. */
static const void *holder_of(const struct fake_request *rq)
{
    return (const void *)(uintptr_t)(rq->peer + 1);
}

static void record(struct fixture *f, const char *params, double ms)
{
    struct conv_solver *s = &f->solvers[0];
    if (s->best && s->best_ms <= ms)
        return;
    snprintf(f->best, sizeof(f->best), "%s", params);
    s->best = f->best;
    s->best_ms = ms;
}

static void reply_leased(const struct fake_request *rq, const struct lease_answer *answer)
{
    const struct message_leased m = { .state = (uint8_t)answer->state,
                                      .lease = answer->lease,
                                      .first = answer->first,
                                      .count = answer->count,
                                      .best_params = bytes_of_text(answer->best.params) };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    message_leased_write(&body, &m);
    fake_reply(rq, MESSAGE_leased, 0, buffer_view(&body));
}

static struct lease_answer take_share(struct fixture *f, const struct fake_request *rq,
                                      const char *solver, const struct message_tuning_lease *m)
{
    struct lease_answer answer;
    const struct lease_request request = { .uid = 1000,
                                           .database_id = "gfx90a68",
                                           .problem = &f->problem,
                                           .solver = solver,
                                           .candidates = m->candidates,
                                           .share = m->flags & LEASE_SHARE,
                                           .more = m->flags & LEASE_MORE };
    must(lease_ask(f->leases, holder_of(rq), &request, &answer, &f->err), f->err);
    return answer;
}

static void grant(struct fixture *f, const struct fake_request *rq, const char *solver,
                  const struct message_tuning_lease *m)
{
    const struct lease_answer answer = take_share(f, rq, solver, m);
    reply_leased(rq, &answer);
}

static void kill_holder(struct fixture *f, const struct fake_request *rq)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    assert_int_equal(getsockopt(rq->peer, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
    kill(peer.pid, SIGKILL);
    lease_leave(f->leases, holder_of(rq)); /* as when kilnd notices the end of a connection */
}

/* Every rank waits for its first share. Answers all of them. */
static void grant_all(struct fixture *f, const struct message_tuning_lease *m)
{
    if (f->kills_first) {
        (void)take_share(f, &f->asked[0], SPACE_SOLVER, m);
        kill_holder(f, &f->asked[0]);
    }
    for (unsigned i = f->kills_first; i < f->rank_count; i++)
        grant(f, &f->asked[i], SPACE_SOLVER, m);
}

static bool has_asked(const struct fixture *f, int peer)
{
    for (unsigned i = 0; i < f->asked_count; i++) {
        if (f->asked[i].peer == peer)
            return true;
    }
    return false;
}

static void answer_lease(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_tuning_lease m = message_tuning_lease_read(&r);
    f->problem = m.problem;
    if (m.candidates == 0 || f->asked_count == f->rank_count) {
        grant(f, rq, m.candidates ? SPACE_SOLVER : "find", &m);
        return;
    }
    if (!has_asked(f, rq->peer))
        f->asked[f->asked_count++] = *rq;
    if (f->asked_count == f->rank_count)
        grant_all(f, &m);
}

static void answer_report(struct fixture *f, const struct fake_request *rq)
{
    char params[32];
    struct reader r = reader_of(rq->body);
    const struct message_tuning_report m = message_tuning_report_read(&r);
    struct lease_report report = { .lease = m.lease, .first = m.first };
    struct lease_answer answer;
    snprintf(params, sizeof(params), "%.*s", (int)m.params.size, (const char *)m.params.data);
    report.best.params = params;
    memcpy(&report.best.median_ms, &m.median_ms, sizeof(m.median_ms));
    must(lease_report(f->leases, holder_of(rq), &report, &answer, &f->err), f->err);
    if (answer.state == LEASE_DONE && answer.best.params[0])
        record(f, answer.best.params, answer.best.median_ms);
    reply_leased(rq, &answer);
    if (answer.state == LEASE_DONE) {
        lease_finish(f->leases, answer.lease);
        ++*f->conv.counter;
    }
}

static void answer_put(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_tuning_put m = message_tuning_put_read(&r);
    struct reader entries = reader_of(m.entries);
    const struct message_tuning_entry e = message_tuning_entry_read(&entries);
    struct conv_solver *s = &f->solvers[bytes_equal_text(e.solver, SPACE_SOLVER) ? 0 : 1];
    const struct message_recorded recorded = { .count = m.count };
    char params[32];
    double ms;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 100);
    memcpy(&ms, &e.median_ms, sizeof(ms));
    snprintf(params, sizeof(params), "%.*s", (int)e.params.size, (const char *)e.params.data);
    if (m.kind == TUNING_PERF)
        record(f, params, ms);
    else if (!(s->find_ms > 0) || ms < s->find_ms)
        s->find_ms = ms;
    message_recorded_write(&body, &recorded);
    fake_reply(rq, MESSAGE_recorded, 0, buffer_view(&body));
    ++*f->conv.counter;
}

static void answer_get(const struct fixture *f, const struct fake_request *rq)
{
    char value[64];
    struct fake_tuned tuned = { .count = 0 };
    struct message_tuning_answer a = { .code = KILN_NOT_FOUND };
    snprintf(value, sizeof(value), SPACE_SOLVER ":%s", f->best);
    if (f->best[0])
        a = fake_tuning_answer(0, value);
    fake_tuned_add(&tuned, &a);
    fake_tuned_reply(&tuned, rq, 0);
    buffer_done(&tuned.answers);
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = fixture_of(rq);
    if (f->is_full &&
        (rq->header.type == MESSAGE_tuning_put || rq->header.type == MESSAGE_tuning_report)) {
        fake_reply_error(rq, KILN_FULL, "the disk is full", NULL);
        return;
    }
    switch (rq->header.type) {
    case MESSAGE_tuning_lease: answer_lease(f, rq); break;
    case MESSAGE_tuning_report: answer_report(f, rq); break;
    case MESSAGE_tuning_put: answer_put(f, rq); break;
    case MESSAGE_tuning_get: answer_get(f, rq); break;
    default: conv_answer(rq);
    }
}

/* ---- the ranks ---- */

SET_UP(set_up)
{
    struct conv_fixture *c = &f->conv;
    memcpy(f->solvers, conv_tunable, sizeof(f->solvers));
    conv_open(c);
    must(lease_table_create(&f->leases, &f->err), f->err);
    CONV_USE(c, f->solvers);
    c->space = SPACE;
    f->rank_count = RANKS;
    c->options.mode = KILN_FIND_SOON;
    c->options.budget_ms = CONV_WHOLE_TUNE_MS;
    c->options.journal = test_directory();
    c->daemon.handle = answer;
    conv_offer_counter(c, 1);
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "1000"); /* without rests */
}

TEAR_DOWN(tear_down) { lease_table_destroy(f->leases); }

FIXTURE(ranks, set_up, tear_down);

static bool has_best(void *context)
{
    struct conv_fixture *c = context;
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    return kiln_conv_plan_refresh(c->client, c->result, &refreshed, &c->err) == KILN_E_OK &&
           refreshed.is_tuned &&
           strcmp(kiln_plan_config(kiln_conv_result_plan(c->result)), BEST) == 0;
}

static pid_t start_rank(struct conv_fixture *c)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    c->client = fake_client(&c->daemon);
    c->device = made_device_open();
    _exit(conv_find(c) == KILN_E_OK && holds_in_time(has_best, c) ? 0 : 1);
}

static bool is_tuned(void *context)
{
    struct conv_fixture *c = context;
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    must(kiln_conv_plan_refresh(c->client, c->result, &refreshed, &c->err), c->err);
    return refreshed.is_tuned;
}

TEST_F(ranks, a_rank_alone_has_the_best_plan_when_its_problem_is_tuned)
{
    f->rank_count = 1;
    must(conv_find(&f->conv), f->conv.err);
    wait_until("the end of tuning", is_tuned, &f->conv);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->conv.result)), BEST);
}

TEST_F(ranks, a_rank_takes_its_own_result_if_nothing_can_be_recorded)
{
    f->rank_count = 1;
    f->is_full = true;
    must(conv_find(&f->conv), f->conv.err);
    wait_until("the end of tuning", is_tuned, &f->conv);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->conv.result)), BEST);
}

TEST_F(ranks, a_generic_plan_is_replaced_by_a_tuned_config)
{
    static const struct conv_solver generic = { .name = "ConvGeneric", .kernel = "right 1.5" };
    f->rank_count = 1;
    f->conv.generic = &generic;
    must(conv_find(&f->conv), f->conv.err);
    wait_until("the end of tuning", is_tuned, &f->conv);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->conv.result)), BEST);
}

/* Here, no other plan can be compiled until another process has tuned the problem. The generic plan
 * is the fastest one, but it is a stand-in, whose time nothing compares. */
TEST_F(ranks, a_generic_plan_is_replaced_by_what_another_process_measured)
{
    static const struct conv_solver generic = { .name = "ConvGeneric", .kernel = "right 0.1" };
    static const struct conv_solver faster[] = {
        { .name = SPACE_SOLVER,
          .kernel = "right 2.1",
          .find_ms = 2.1,
          .best = BEST,
          .best_ms = 0.25,
          .has_space = true },
        { .name = "ConvDirectNaive", .kernel = "right 4", .find_ms = 4 },
    };
    static const struct conv_solver uncompiled[] = {
        { .name = SPACE_SOLVER, .has_space = true },
        { .name = "ConvDirectNaive" },
    };
    struct conv_fixture *c = &f->conv;
    f->rank_count = 1;
    c->generic = &generic;
    CONV_SWITCH(c, uncompiled);
    must(conv_find(c), c->err);
    wait_until("the end of tuning", is_tuned, c);
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(c->result)), "ConvGeneric");
    CONV_SWITCH(c, faster);
    ++*c->counter;
    wait_until("the other process's plan", has_best, c);
}

static unsigned count_lines(const char *text, const char *line)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, line)); at++)
        count++;
    return count;
}

struct ended {
    pid_t pid;
    int status;
};

static void run_ranks(struct fixture *f, struct ended ret_ranks[RANKS])
{
    for (unsigned i = 0; i < RANKS; i++)
        ret_ranks[i].pid = start_rank(&f->conv);
    for (unsigned i = 0; i < RANKS; i++)
        ret_ranks[i].status = await_child(ret_ranks[i].pid);
}

/* Returns how many ranks have run a config. */
static unsigned expect_each_config_once(struct fixture *f, const struct ended ranks[RANKS])
{
    char line[16];
    unsigned count = 0;
    KILN_AUTO(mem) char *journals = shell_text(f->conv.options.journal, "cat *.tune");
    for (unsigned i = 0; i < SPACE; i++) {
        snprintf(line, sizeof(line), "\n>\t%u,1\t", i);
        /* The find has measured the heuristic's config. */
        assert_int_equal(count_lines(journals, line), i == 0 ? 2 : 1);
    }
    assert_int_equal(count_lines(journals, "\n>\t-\t"), 1);
    for (unsigned i = 0; i < RANKS; i++) {
        snprintf(line, sizeof(line), ":%d:", (int)ranks[i].pid);
        count += count_lines(journals, line) > 0;
    }
    return count;
}

TEST_F(ranks, eight_ranks_measure_each_config_once_and_end_with_the_same_plan)
{
    struct ended ranks[RANKS];
    run_ranks(f, ranks);
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(ranks[i].status, 0);
    assert_int_equal(expect_each_config_once(f, ranks), RANKS);
}

TEST_F(ranks, the_share_of_a_killed_rank_is_measured_by_the_others)
{
    struct ended ranks[RANKS];
    unsigned killed = 0;
    f->kills_first = true;
    run_ranks(f, ranks);
    for (unsigned i = 0; i < RANKS; i++) {
        killed += ranks[i].status == SIGKILL;
        assert_true(ranks[i].status == 0 || ranks[i].status == SIGKILL);
    }
    assert_int_equal(killed, 1);
    assert_true(expect_each_config_once(f, ranks) >= RANKS - 1);
}

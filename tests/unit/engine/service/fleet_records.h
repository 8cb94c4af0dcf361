/* SPDX-License-Identifier: MIT */
#pragma once

/* One engine plays all hosts of a fleet: it forgets its records and the name of its series between
 * two hosts. */
#include "tests/unit/engine/service/fleet_users.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include "common/base/clock.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_series.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/fleet/fleet_tuning.h"
#include "engine/tuning/tuning_share.h"

#define MINUTE_NS 60000000000u
#define FLEET_ENTRY "\"library\":\"fleet:"

static uint64_t passed_ns, began_s, second;
static uint64_t call_ns; /* time that passes with each reading of the clock, besides 1 ns */

WRAP(uint64_t, clock_monotonic_ns, void)
{
    passed_ns += 1 + call_ns;
    return passed_ns;
}
WRAP(uint64_t, clock_wall_s, void) { return began_s + second; }

SET_UP_OF(set_up, struct fleet_users)
{
    passed_ns = 60 * MINUTE_NS;
    began_s = __real_clock_wall_s();
    second = call_ns = 0;
    make_tree(f);
    users_open(&f->users, /* describe= */ true);
}
FIXTURE_OF(records, struct fleet_users, set_up, NULL);

static inline void put_host(struct fleet_users *f, uint32_t batch, const char *solver,
                            double median_ms)
{
    struct put put = find_put(solver, median_ms);
    put.m.tier = 2;
    put.m.problem = problem_of_batch(batch);
    tuning_put(&f->users, &f->users.publisher, &put);
}

static inline void put_params(struct fleet_users *f, const char *params, double median_ms)
{
    struct put put = perf_put("ConvAsm3x3U", params, median_ms);
    put.m.tier = 2;
    tuning_put(&f->users, &f->users.publisher, &put);
}

static inline struct json *export_tuning(struct fleet_users *f, struct buffer *ret_records)
{
    struct test_caller *admin = &f->users.admin;
    struct json *answer;
    buffer_init(ret_records, 8u << 20);
    test_caller_forget_replies(admin);
    answer = test_caller_ask(admin, MESSAGE_fleet_tuning_export, "{}");
    run_tasks(f);
    if (!answer)
        answer = reply_json(admin, admin->reply_count - 1);
    if (admin->replies[admin->reply_count - 1].object_count)
        reply_object(admin, admin->reply_count - 1, 0, ret_records);
    return answer;
}

static inline uint64_t push_as(struct fleet_users *f, const struct fleet_signer *signer)
{
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = signer };
    BUFFER_AUTO struct buffer records;
    json_destroy(export_tuning(f, &records));
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
    return pushing.added;
}

static inline void remove_records(struct fleet_users *f)
{
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_tuning_remove,
                                 "{\"tier\":\"host\",\"all\":true}"));
    run_tasks(f);
}

static inline void forget_file(struct fleet_users *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", f->users.engine.options.state_directory, name);
    (void)unlink(path);
}

static inline void forget_host(struct fleet_users *f)
{
    remove_records(f);
    forget_file(f, "fleet-series");
    forget_file(f, "fleet-blocks");
}

static inline void become_reader(struct fleet_users *f)
{
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    users_start(&f->users);
    second++;
}

/* Lets enough time pass that the engine reads what has changed. */
static inline void refresh(struct fleet_users *f)
{
    passed_ns += 2 * MINUTE_NS;
    for (int i = 0; i < 4; i++) {
        engine_tick(f->users.engine.engine);
        run_tasks(f);
        serve_all(f);
        run_tasks(f);
    }
}

static inline void want_device(struct fleet_users *f)
{
    (void)tuning_ask(&f->users, &f->users.ann, 0, 0, 1);
    refresh(f);
}

/* Returns kilnd's answer to 'db get' as text. */
static inline char *shown(struct fleet_users *f, uint32_t batch)
{
    char question[256];
    snprintf(question, sizeof(question),
             "{\"problem\":\"conv -n %u -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 "
             "-j 1 -F 1\",\"database_id\":\"" ID "\"}",
             (unsigned)batch);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.admin, MESSAGE_tuning_show, question);
    return json_print(answer, false);
}

static inline void expect_shown(struct fleet_users *f, uint32_t batch, const char *text,
                                bool is_there)
{
    KILN_AUTO(mem) char *all = shown(f, batch);
    if ((strstr(all, text) != NULL) != is_there)
        fail_msg("'%s' %s: %s", text, is_there ? "is missing" : "should not be there", all);
}

/* Adds what a host with this key has measured to the tree, and forgets it. */
static inline void share(struct fleet_users *f, const struct fleet_signer *signer, uint32_t batch,
                         double median_ms)
{
    put_host(f, batch, "SolverA", median_ms);
    push_as(f, signer);
    forget_host(f);
}

static inline void share_and_read(struct fleet_users *f)
{
    share(f, &f->signer, 1, 0.5);
    compact(f);
    become_reader(f);
    want_device(f);
}

/* SPDX-License-Identifier: MIT */
#pragma once

/* A host that builds for a fleet, with a clock that the test advances. The test answers in place of
 * the fleet's store, which has no index. */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/fleet/fleet_record.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/internal.h"
#include "tests/support/entries.h"
#include "tests/support/fleet_keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS 1000000000u

static uint64_t passed_ns = 3600ull * SECOND_NS;

WRAP(uint64_t, clock_monotonic_ns, void) { return ++passed_ns; }

struct host {
    struct users users;
    char key[160], keys[160];
    char loose[FLEET_FILE_NAME_MAX];
    struct buffer record; /* made by make_record */
    struct kiln_err err;
};

static inline struct fleet_access *next_access(struct host *f)
{
    return fake_executor_next_fleet_access(&f->users.engine.executor);
}

static inline void end_access(struct host *f, enum fleet_end end)
{
    assert_non_null(next_access(f));
    fake_executor_fleet_failed(next_access(f), end);
    fake_executor_run_tasks(&f->users.engine.executor);
}

static inline void start_builder(struct host *f, uint64_t lease_ns)
{
    while (next_access(f)) /* the probe of an engine that was just started */
        end_access(f, FLEET_END_FORBIDDEN);
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    f->users.engine.options.fleet_builder = f->key;
    f->users.engine.options.fleet_lease_ns = lease_ns;
    users_start(&f->users);
}

static inline void free_record(void *f) { buffer_done(&((struct host *)f)->record); }

SET_UP_OF(host_set_up, struct host)
{
    struct fleet_signer signer;
    const char *directory = test_directory();
    snprintf(f->key, sizeof(f->key), "%s/builder.key", directory);
    snprintf(f->keys, sizeof(f->keys), "%s/keys", directory);
    buffer_init(&f->record, FLEET_RECORD_MAX);
    test_at_end(free_record, f);
    assert_int_equal(mkdir(f->keys, 0700), 0);
    must(manifest_keygen(directory, "builder", &f->err), f->err);
    must(fleet_signer_read(f->key, &signer, &f->err), f->err);
    fleet_test_trust(f->keys, &signer, &(struct fleet_test_key){ "builder", "*", false });
    users_open(&f->users, /* describe= */ true);
    start_builder(f, 0);
}

static inline bool is_for(const struct fleet_access *access, const char *directory)
{
    return access && strncmp(access->name, directory, strlen(directory)) == 0;
}

static inline void pass_time(struct host *f, unsigned seconds)
{
    passed_ns += (uint64_t)seconds * SECOND_NS;
    engine_tick(f->users.engine.engine);
    fake_executor_run_tasks(&f->users.engine.executor);
    while (is_for(next_access(f), "v1/i/"))
        end_access(f, FLEET_END_ABSENT);
}

static inline void probe(struct host *f, enum fleet_end second)
{
    char name[FLEET_FILE_NAME_MAX];
    pass_time(f, 1);
    assert_true(is_for(next_access(f), "v1/l/probe/") && next_access(f)->is_put);
    snprintf(name, sizeof(name), "%s", next_access(f)->name);
    end_access(f, FLEET_END_DONE);
    assert_string_equal(next_access(f)->name, name);
    end_access(f, second);
}

static inline void expect_leases(struct host *f, const char *state)
{
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    assert_string_equal(json_get_text(json_get(status, "fleet"), "leases", ""), state);
}

/* Fetches |program|. If the engine asks for the fleet's index, the answer is that there is none. */
static inline void fetch_as(struct host *f, struct test_caller *caller, const char *program)
{
    test_caller_forget_replies(caller);
    fetch_program(caller, 7, program);
    if (is_for(next_access(f), "v1/i/"))
        end_access(f, FLEET_END_ABSENT);
}

static inline void fetch(struct host *f, const char *program)
{
    fetch_as(f, &f->users.ann, program);
}

static inline bool is_compiling(const struct host *f)
{
    return !list_is_empty(&f->users.engine.executor.compiles);
}

static inline uint64_t count(struct host *f, const char *result)
{
    char name[80];
    snprintf(name, sizeof(name), "kiln_fleet_leases_total{result=\"%s\"}", result);
    return test_caller_metric(&f->users.admin, name);
}

static inline void lose_lease(struct host *f, const char *program)
{
    fetch(f, program);
    assert_true(is_for(next_access(f), "v1/l/") && next_access(f)->is_put);
    end_access(f, FLEET_END_EXISTS);
    assert_true(is_for(next_access(f), "v1/k/") && !next_access(f)->is_put);
    assert_false(is_compiling(f));
}

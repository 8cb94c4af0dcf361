/* SPDX-License-Identifier: MIT */
#pragma once

/* A kilnd with a fleet. The test answers kilnd's requests for files from a tree in a directory. */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/clock.h"
#include "engine/fleet/fleet_compact.h"
#include "engine/fleet/fleet_directory.h"
#include "engine/fleet/fleet_index.h"
#include "engine/fleet/fleet_push.h"
#include "engine/fleet/fleet_tree.h"
#include "tests/support/fleet_keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fleet_users {
    struct users users;
    char keys[128], tree[128];
    struct fleet_signer signer;
    int root;
    struct kiln_err err;
};

static inline void compact(struct fleet_users *f)
{
    struct fleet_trust *trust = NULL;
    must(fleet_trust_read(f->keys, &trust, &f->err), f->err);
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_compaction compaction = { .store = &directory.store,
                                           .trust = trust,
                                           .signer = &f->signer,
                                           .now = clock_wall_s(),
                                           .pack_max = FLEET_PACK_MAX };
    must(fleet_compact(&compaction, &f->err), f->err);
    assert_int_equal(compaction.problems, 0);
    fleet_trust_destroy(trust);
}

static inline void push_kernels(struct fleet_users *f)
{
    struct test_caller *admin = &f->users.admin;
    struct fleet_directory directory = fleet_directory_of(f->root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = &f->signer };
    BUFFER_AUTO struct buffer records;
    buffer_init(&records, 1u << 20);
    json_destroy(test_caller_ask(admin, MESSAGE_fleet_export, "{}"));
    reply_object(admin, 0, 0, &records);
    must(fleet_push(&pushing, records.data, records.size, &f->err), f->err);
    compact(f);
}

static inline void close_root(void *f) { close(((struct fleet_users *)f)->root); }

/* Makes an empty tree, and a directory with one trusted key. */
static inline void make_tree(struct fleet_users *f)
{
    const char *directory = test_directory();
    snprintf(f->keys, sizeof(f->keys), "%s/fleet-keys", directory);
    snprintf(f->tree, sizeof(f->tree), "%s/tree", directory);
    assert_int_equal(mkdir(f->keys, 0700), 0);
    assert_int_equal(mkdir(f->tree, 0700), 0);
    must(fleet_tree_open(f->tree, &f->root, &f->err), f->err);
    test_at_end(close_root, f);
    f->signer = fleet_test_signer(1);
    fleet_test_trust(f->keys, &f->signer, &(struct fleet_test_key){ "builder", "*", true });
}

#define CLANG                                                                 \
    "{\"toolchains\":[{\"name\":\"clang\",\"version\":\"1\",\"path\":\"/x\"," \
    "\"family\":\"amdgpu\",\"identity\":"                                     \
    "\"1111111111111111111111111111111111111111111111111111111111111111\"}]}"

/* Makes a tree with the kernels of a plan for gfx90a:xnack-. The engine's own store has none. */
static inline void fill_amd_tree(struct fleet_users *f)
{
    struct amd_object object = amd_object(AMD_XNACK_OFF, "xnack-");
    struct message_plan m = { .problem = small_problem(8),
                              .target = bytes_of_text("gfx90a:xnack-") };
    make_tree(f);
    users_open(&f->users, /* describe= */ false);
    engine_fixture_describe_as(&f->users.engine, CLANG);
    send_plan(&f->users.ann, 1, &m);
    finish_compiles(&f->users, bytes_of(object.bytes, sizeof(object.bytes)));
    push_kernels(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
}

static inline struct fleet_access *next_get(struct fleet_users *f)
{
    return fake_executor_next_fleet_access(&f->users.engine.executor);
}

static inline unsigned count_gets(const struct fleet_users *f)
{
    return f->users.engine.executor.fleet_accesses_handed_over;
}

static inline void run_tasks(struct fleet_users *f)
{
    fake_executor_run_tasks(&f->users.engine.executor);
}

/* Answers the engine's next request to the fleet with a file of |f->root|, as kiln-transfer
 * does. */
static inline void serve_one(struct fleet_users *f)
{
    struct fleet_access *get = next_get(f);
    BUFFER_AUTO struct buffer content;
    assert_non_null(get);
    buffer_init(&content, FLEET_INDEX_MAX);
    if (fleet_tree_read(f->root, get->name, &content, &f->err)) {
        fake_executor_fleet_failed(get, FLEET_END_ABSENT);
    } else if (get->size == 0) {
        fake_executor_fleet_got(get, buffer_view(&content));
    } else {
        assert_true(get->offset + get->size <= content.size);
        fake_executor_fleet_got(get, bytes_of(content.data + get->offset, (size_t)get->size));
    }
    run_tasks(f);
}

static inline void serve_all(struct fleet_users *f)
{
    while (next_get(f))
        serve_one(f);
}

static inline void restart_with_fleet(struct fleet_users *f)
{
    users_stop(&f->users);
    f->users.engine.options.has_fleet = true;
    f->users.engine.options.fleet_keys = f->keys;
    users_start(&f->users);
}

static inline void fill_tree(struct fleet_users *f)
{
    compile_program(&f->users.ann, "a.cl");
    compile_program(&f->users.ann, "b.cl");
    push_kernels(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
}

/* An engine with a fleet. The fleet's store has the kernels "a.cl" and "b.cl", but the engine's
 * own store does not. */
SET_UP_OF(fleet_set_up, struct fleet_users)
{
    make_tree(f);
    users_open(&f->users, /* describe= */ true);
    fill_tree(f);
    restart_with_fleet(f);
}
FIXTURE_OF(fleet, struct fleet_users, fleet_set_up, NULL);

static inline void fetch_cold(struct fleet_users *f, const char *program)
{
    test_caller_forget_replies(&f->users.ann);
    fetch_program(&f->users.ann, 7, program);
}

static inline struct json *ask_status(struct fleet_users *f)
{
    return test_caller_ask(&f->users.ann, MESSAGE_status, NULL);
}

static inline void expect_tier(struct fleet_users *f, enum tier tier)
{
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(last_result(&f->users.ann).tier, tier);
}

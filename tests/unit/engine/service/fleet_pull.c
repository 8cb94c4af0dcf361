/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_users.h"

#include "common/base/clock.h"
#include "engine/service/fleet/fleet_parts.h"

#include <string.h>

static uint64_t passed_ns = FLEET_POINTER_NS;

WRAP(uint64_t, clock_monotonic_ns, void) { return ++passed_ns; }

static const struct json *pull_of(const struct json *status)
{
    return json_get(json_get(status, "fleet"), "pull");
}

static void expect_pull(struct fleet_users *f, const char *state, uint64_t present,
                        uint64_t fetched)
{
    KILN_AUTO(json) struct json *status = ask_status(f);
    assert_string_equal(json_get_text(pull_of(status), "state", ""), state);
    assert_int_equal(json_get_u64(pull_of(status), "present", 99), present);
    assert_int_equal(json_get_u64(pull_of(status), "fetched", 99), fetched);
}

static void pull(struct fleet_users *f, const char *question)
{
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_fleet_pull, question));
    for (int i = 0; i < 10; i++) {
        engine_tick(f->users.engine.engine);
        run_tasks(f);
        serve_all(f);
    }
}

TEST_F(fleet, a_pull_copies_all_kernels_of_a_target)
{
    pull(f, "{\"targets\":[\"" FIXTURE_TARGET "\"]}");
    expect_pull(f, "done", 0, 2);
    unsigned before = count_gets(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    expect_tier(f, TIER_DISK);
    assert_int_equal(count_gets(f), before);
}

TEST_F(fleet, a_pull_goes_on_as_soon_as_the_index_is_there)
{
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_fleet_pull,
                                 "{\"targets\":[\"" FIXTURE_TARGET "\"]}"));
    run_tasks(f);
    serve_all(f);
    expect_pull(f, "done", 0, 2);
}

TEST_F(fleet, a_pull_leaves_out_kernels_that_are_stored)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    pull(f, "{\"used\":true}");
    expect_pull(f, "done", 1, 1);
}

TEST_F(fleet, a_pull_uses_the_newest_index)
{
    fetch_cold(f, "new.cl");
    serve_all(f);
    finish_compile(&f->users, "object");
    push_kernels(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    passed_ns += 100 * FLEET_POINTER_NS; /* no job used the index meanwhile */
    pull(f, "{\"used\":true}");
    expect_pull(f, "done", 0, 3);
}

TEST_F(fleet, a_pull_ends_at_its_limit)
{
    pull(f, "{\"targets\":[\"" FIXTURE_TARGET "\"],\"bytes_max\":1}");
    expect_pull(f, "limit", 0, 0);
}

TEST_F(fleet, a_pull_ends_when_the_store_fails)
{
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_fleet_pull,
                                 "{\"targets\":[\"" FIXTURE_TARGET "\"]}"));
    test_caller_refused(&f->users.admin, MESSAGE_fleet_pull, "{}", KILN_BUSY, "another pull");
    fake_executor_fleet_failed(next_get(f), FLEET_END_UNREACHABLE);
    engine_tick(f->users.engine.engine);
    expect_pull(f, "failed", 0, 0);
}

/* SPDX-License-Identifier: MIT */
/* For which devices a host reads tuning records of the fleet, and when; and exports of its own. */
#include "tests/unit/engine/service/fleet_records.h"

/* Otherwise the export that ends last would forget the blocks of the other. */
TEST_F(records, only_one_export_runs_at_a_time)
{
    struct test_caller *admin = &f->users.admin;
    put_host(f, 1, "SolverA", 0.5);
    put_params(f, "1,2", 0.5);
    test_caller_forget_replies(admin);
    call_ns = 30000000; /* so that the export needs several steps */
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 6, bytes_of_text("{}"));
    assert_true(fake_executor_run_task(&f->users.engine.executor));
    assert_int_equal(admin->reply_count, 0);
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 7, bytes_of_text("{}"));
    assert_int_equal(admin->reply_count, 1);
    assert_reply_refuses(admin, 0, KILN_BUSY, "try again");
    call_ns = 0;
    run_tasks(f);
    assert_int_equal(admin->reply_count, 2);
    assert_int_equal(admin->replies[1].object_count, 1);
    assert_int_equal(push_as(f, &f->signer), 1);
}

TEST_F(records, an_export_that_is_cancelled_permits_another)
{
    struct test_caller *admin = &f->users.admin;
    put_host(f, 1, "SolverA", 0.5);
    test_caller_send(admin, MESSAGE_fleet_tuning_export, 6, bytes_of_text("{}"));
    test_caller_cancel(admin, 6);
    run_tasks(f);
    assert_int_equal(push_as(f, &f->signer), 1);
}

TEST_F(records, a_host_with_too_many_devices_names_the_command_that_helps)
{
    char id[32];
    for (unsigned units = 65; units < 65 + 257; units++) {
        struct put put = find_put("SolverA", 0.5);
        snprintf(id, sizeof(id), "gfx90a%x", units);
        put.m.tier = 2;
        put.m.database_id = bytes_of_text(id);
        tuning_put(&f->users, &f->users.publisher, &put);
    }
    test_caller_refused(&f->users.admin, MESSAGE_fleet_tuning_export, "{}", KILN_FULL,
                        "kilnctl db rm --tier host --db-id ID");
}

static unsigned count_refreshes(struct fleet_users *f, unsigned minutes)
{
    unsigned before = count_gets(f);
    for (unsigned i = 0; i < minutes; i++) {
        passed_ns += MINUTE_NS;
        engine_tick(f->users.engine.engine);
        run_tasks(f);
        serve_all(f);
        run_tasks(f);
    }
    return count_gets(f) - before;
}

/* A fleet may have thousands of idle hosts. */
TEST_F(records, the_index_of_an_idle_device_is_seldom_refreshed)
{
    share_and_read(f);
    assert_true(count_refreshes(f, 7) >= 3);
    (void)count_refreshes(f, 20);
    unsigned count = count_refreshes(f, 60);
    assert_true(count >= 2 && count <= 6);
    want_device(f);
    assert_true(count_refreshes(f, 7) >= 3);
}

TEST_F(records, an_idle_host_takes_new_records)
{
    share_and_read(f);
    (void)count_refreshes(f, 30);
    share(f, &f->signer, 2, 0.25);
    compact(f);
    (void)count_refreshes(f, 30);
    expect_shown(f, 2, "SolverA", true);
}

static unsigned count_devices(struct fleet_users *f, const char *database_id, bool *ret_has)
{
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    const struct json *list = json_get(json_get(status, "fleet"), "tuning");
    *ret_has = false;
    for (const struct json *j = json_first(list); j; j = json_next(j))
        *ret_has |= strcmp(json_get_text(j, "database_id", ""), database_id) == 0;
    return (unsigned)json_count(list);
}

TEST_F(records, a_device_without_records_makes_space_after_a_minute)
{
    char id[DATABASE_ID_MAX];
    bool has;
    become_reader(f);
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX + 1; i++) {
        snprintf(id, sizeof(id), "gfx906_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    assert_int_equal(count_devices(f, id, &has), FLEET_DEVICES_MAX);
    assert_false(has);
    passed_ns += MINUTE_NS;
    fleet_records_want(f->users.engine.engine, id);
    assert_int_equal(count_devices(f, id, &has), FLEET_DEVICES_MAX);
    assert_true(has);
}

TEST_F(records, the_hosts_own_gpu_makes_space_and_keeps_it)
{
    static const char properties[] = "cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\n"
                                     "gfx_target_version 90010\nvendor_id 4098\n"
                                     "device_id 29711\nunique_id 81985529216486895\n";
    char id[DATABASE_ID_MAX], path[512];
    bool has;
    snprintf(path, sizeof(path), "%s/1", f->users.engine.gpus);
    must(fs_make_directories(path, &f->err), f->err);
    strcat(path, "/properties");
    must(fs_replace_file(path, bytes_of_text(properties), 0644, &f->err), f->err);
    become_reader(f);
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX; i++) {
        snprintf(id, sizeof(id), "gfx906_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    assert_int_equal(count_devices(f, "gfx90a68", &has), FLEET_DEVICES_MAX);
    assert_true(has);
    passed_ns += MINUTE_NS;
    for (unsigned i = 1; i <= FLEET_DEVICES_MAX; i++) {
        snprintf(id, sizeof(id), "gfx908_%u", i);
        fleet_records_want(f->users.engine.engine, id);
    }
    assert_int_equal(count_devices(f, "gfx90a68", &has), FLEET_DEVICES_MAX);
    assert_true(has);
    serve_all(f);
}

/* SPDX-License-Identifier: MIT */
/* An engine without a directory, whose packages are built into the program. */
#include "tests/support/built_in_item.h"
#include "tests/unit/engine/service/kernel_files.h"

#include "engine/tuning/tuning_index.h"

#include <stdio.h>
#include <string.h>

#define MI210 "gfx90a68"

#define LIST_MAX 20
/* ELF flag that turns gfx90a's machine number into one that no machine has */
#define OTHER_MACHINE 0x40u

struct fixture {
    struct engine_fixture engine;
    struct test_caller caller;
    /* the names under which a plan for small_problem() looks in packages */
    struct program_names names;
    struct amd_object object;
    struct image image;
    struct engine_item item;
    struct engine_data data;
    struct engine_item list[LIST_MAX];
    struct image index[2];
};

/* Makes |f->item| a package with the kernel of small_problem(). |flags| are the ELF flags of its
 * object. */
static void make_item(struct fixture *f, unsigned flags)
{
    char path[128];
    f->object = amd_object(flags, "built in");
    const struct kernel_row row = { .name = (const char *)f->names.name.data,
                                    .args = (const char *)f->names.args.data,
                                    .content = (const char *)f->object.bytes,
                                    .size = sizeof(f->object.bytes) };
    snprintf(path, sizeof(path), "%s/%x.kdb", f->engine.directory, flags);
    write_kernel_file(path, &row, 1);
    f->item = built_in_item(&f->image, ENGINE_ITEM_PACKAGE, MI210 ".kdb", path);
    f->data = (struct engine_data){ .items = &f->item, .count = 1 };
}

static void take_directories_away(struct fixture *f)
{
    struct engine_options *o = &f->engine.options;
    o->data = &f->data;
    o->cache_directory = o->state_directory = o->package_directory = NULL;
    o->store_mode = KERNEL_STORE_OFF;
    f->engine.executor.slots = 0;
}

SET_UP(setup)
{
    struct problem problem = small_problem(8);
    engine_fixture_open(&f->engine, false);
    engine_fixture_stop(&f->engine);
    program_names_find(&problem, "gfx90a", NULL, &f->names);
    make_item(f, AMD_XNACK_EITHER);
    take_directories_away(f);
    engine_fixture_start(&f->engine, /* describe= */ false);
    test_caller_connect(&f->caller, &f->engine, 1000, ROLE_ADMIN);
}

TEAR_DOWN(teardown)
{
    test_caller_leave(&f->caller);
    /* must stop before |item| is freed, because it uses the item's images */
    engine_fixture_stop(&f->engine);
    program_names_done(&f->names);
}

FIXTURE(built_in, setup, teardown);

static void plan_by(struct fixture *f, const char *solver, const char *target, const char *id,
                    uint32_t channels)
{
    struct message_plan m = { .problem = small_problem(channels),
                              .inline_limit = 1000,
                              .target = bytes_of_text(target),
                              .database_id = bytes_of_text(id),
                              .solver = bytes_of_text(solver) };
    send_plan(&f->caller, 8, &m);
}

static void plan_again(struct fixture *f, const char *target, const char *id, uint32_t channels)
{
    plan_by(f, "", target, id, channels);
}

static void ask_plan(struct fixture *f, const char *target, const char *id, uint32_t channels)
{
    test_caller_forget_replies(&f->caller);
    plan_again(f, target, id, channels);
}

TEST_F(built_in, a_plan_is_served_from_built_in_data)
{
    ask_plan(f, "gfx90a", MI210, 8);
    struct message_result o = planned_result(&f->caller, 0);
    assert_int_equal(o.tier, TIER_PACKAGE);
    assert_true(bytes_equal(o.content, bytes_of(f->object.bytes, sizeof(f->object.bytes))));
    ask_plan(f, "gfx90a", MI210, 8);
    assert_int_equal(planned_result(&f->caller, 0).tier, TIER_HOT);
}

TEST_F(built_in, a_plan_without_built_in_kernels_fails_with_advice)
{
    ask_plan(f, "gfx90a", MI210, 16);
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "16-8-8-3x3-16-6-6-");
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, " for " MI210);
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "KILN_EMBED_PROBLEMS");
}

TEST_F(built_in, a_plan_that_names_another_solver_than_the_built_in_one_fails)
{
    test_caller_forget_replies(&f->caller);
    plan_by(f, "ConvDirectNaive", "gfx90a", MI210, 16);
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "ConvDirectNaive");
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "KILN_EMBED_PROBLEMS");
}

TEST_F(built_in, a_plan_for_a_device_without_built_in_data_fails)
{
    ask_plan(f, "gfx1030", "gfx1030_36", 8);
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "gfx1030_36 (gfx1030)");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, MI210 " (kernels)");
}

static void make_index(struct fixture *f, enum tuning_kind kind, struct engine_item *item)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    struct digest digest;
    char path[128];
    snprintf(path, sizeof(path), "%s/%u.kti", f->engine.directory, (unsigned)kind);
    if (!f->index[kind].size) {
        must(tuning_index_builder_create(kind, &builder, &f->engine.err), f->engine.err);
        must(tuning_index_builder_write(builder, path, &digest, &f->engine.err), f->engine.err);
    }
    *item = built_in_item(&f->index[kind], ENGINE_ITEM_TUNING, item->name, path);
}

static void close_engine(struct fixture *f)
{
    test_caller_leave(&f->caller);
    engine_fixture_stop(&f->engine);
}

static void open_engine(struct fixture *f)
{
    engine_fixture_start(&f->engine, /* describe= */ false);
    test_caller_connect(&f->caller, &f->engine, 1000, ROLE_ADMIN);
}

/* Opens an engine with a built-in item for each of |names|. If the name is that of a tuning
 * database, the item is an empty index, and otherwise the package |f->item|. */
static void open_with_list(struct fixture *f, const char *const *names, size_t count)
{
    close_engine(f);
    for (size_t i = 0; i < count; i++) {
        f->list[i] = f->item;
        f->list[i].name = names[i];
        if (strstr(names[i], ".txt"))
            make_index(f, strstr(names[i], ".fdb.") ? TUNING_FIND : TUNING_PERF, &f->list[i]);
    }
    f->data = (struct engine_data){ .items = f->list, .count = count };
    open_engine(f);
}

TEST_F(built_in, a_plan_for_a_device_with_only_databases_names_them)
{
    static const char *const names[] = { "gfx906_60.HIP.fdb.txt", "gfx906_60.db.txt", MI210 ".kdb",
                                         "gfx90878.HIP.fdb.txt" };
    open_with_list(f, names, 4);
    ask_plan(f, "gfx906:sramecc+:xnack-", "gfx906_60", 8);
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "gfx906:sramecc+:xnack-");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "(FindDb, PerfDb)");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, MI210 " (kernels)");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "gfx90878 (FindDb)");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "KILN_DEVICE_TARGETS");
}

TEST_F(built_in, a_long_list_of_built_in_devices_is_cut_and_counted)
{
    static char texts[LIST_MAX][24];
    const char *names[LIST_MAX];
    for (unsigned i = 0; i < LIST_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "gfx906_%u.kdb", i + 10);
        names[i] = texts[i];
    }
    open_with_list(f, names, LIST_MAX);
    ask_plan(f, "gfx1030", "gfx1030_36", 8);
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "gfx906_10 (kernels)");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "14 more");
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "KILN_EMBED_COMPILE=on");
}

/* Opens an engine that can compile, as with KILN_EMBED_COMPILE=on. It does not know its
 * toolchains yet. */
static void open_with_compilers(struct fixture *f)
{
    close_engine(f);
    f->engine.executor.slots = 1;
    open_engine(f);
}

TEST_F(built_in, a_plan_waits_until_the_compilers_are_known)
{
    open_with_compilers(f);
    ask_plan(f, "gfx90a", MI210, 8);
    plan_again(f, "gfx1030", "gfx1030_36", 8);
    assert_int_equal(f->caller.reply_count, 0);
    engine_fixture_describe_as(&f->engine, "{\"toolchains\":[]}");
    assert_int_equal(f->caller.reply_count, 2);
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "nothing is");
    assert_int_equal(planned_result(&f->caller, 1).tier, TIER_PACKAGE);
}

TEST(built_in, a_built_in_items_digest_is_checked_once_and_damage_reported)
{
    struct fixture *f = *state;
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->item.state, ITEM_UNUSED);
    f->item.digest.bytes[0] ^= 1;
    ask_plan(f, "gfx90a", MI210, 8);
    assert_int_equal(planned_result(&f->caller, 0).tier, TIER_PACKAGE);

    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->item.state, ITEM_DAMAGED);
    assert_says(engine_fixture_reported(&f->engine, "built_in_damaged"), MI210 ".kdb");
    ask_plan(f, "gfx90a", MI210, 8);
    assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "damaged");
}

TEST_F(built_in, requests_that_write_files_are_refused_without_a_directory)
{
    static const struct {
        enum message_type type;
        const char *question;
    } asked[] = {
        { MESSAGE_package_build, "{\"target\":\"gfx90a\"}" },
        { MESSAGE_package_install, "{\"url\":\"file:///x.kdb\"}" },
        { MESSAGE_kernel_import, "{}" },
        { MESSAGE_kernel_export, "{}" },
        { MESSAGE_tuning_import, "{}" },
        { MESSAGE_tuning_export, "{}" },
        { MESSAGE_tuning_backup, "{}" },
    };
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        test_caller_refused(&f->caller, asked[i].type, asked[i].question, KILN_UNSUPPORTED,
                            "directory");
    test_caller_refused(&f->caller, MESSAGE_package_remove, "{\"name\":\"" MI210 ".kdb\"}",
                        KILN_UNSUPPORTED, "built");
    test_caller_refused(&f->caller, MESSAGE_gc, "{}", KILN_UNAVAILABLE, "directory");
}

TEST_F(built_in, built_in_records_are_found_without_a_directory)
{
    close_engine(f);
    f->engine.options.data = NULL;
    open_engine(f);
    struct json *status = test_caller_ask(&f->caller, MESSAGE_status, "{}");
    assert_true(json_get_bool(json_get(status, "tuning"), "available", false));
    json_destroy(status);
    struct json *stats = test_caller_ask(&f->caller, MESSAGE_tuning_stats, "{}");
    assert_non_null(json_get(stats, "system"));
    json_destroy(stats);
}

TEST_F(built_in, a_built_in_package_is_listed_and_verified_like_an_installed_one)
{
    struct json *list = test_caller_ask(&f->caller, MESSAGE_package_list, "{}");
    assert_string_equal(json_get_text(json_first(json_get(list, "packages")), "name", ""),
                        MI210 ".kdb");
    json_destroy(list);
    struct json *report =
        test_caller_ask(&f->caller, MESSAGE_package_verify, "{\"name\":\"" MI210 ".kdb\"}");
    assert_int_equal(json_get_u64(report, "good", 0), 1);
    json_destroy(report);
}

TEST(built_in, a_built_in_package_too_damaged_to_open_is_a_miss)
{
    static const size_t places[] = { 0, 20, 100 };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        close_engine(f);
        f->item.state = ITEM_UNUSED;
        f->image.bytes[places[i]] ^= 0xff;
        open_engine(f);
        ask_plan(f, "gfx90a", MI210, 8);
        assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "'" MI210 ".kdb'");
        assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "damaged");
        f->image.bytes[places[i]] ^= 0xff;
    }
    close_engine(f);
    f->item.state = ITEM_UNUSED;
    unsigned long whole = f->image.size;
    f->image.size = 50;
    open_engine(f);
    assert_int_equal(f->item.state, ITEM_DAMAGED);
    assert_says(engine_fixture_reported(&f->engine, "built_in_damaged"), MI210 ".kdb");
    struct json *status = test_caller_ask(&f->caller, MESSAGE_status, "{}");
    assert_string_equal(json_as_text(json_first(json_get(status, "built_in_damaged")), ""),
                        MI210 ".kdb");
    json_destroy(status);
    f->image.size = whole;
}

/* Unpacking a kernel checks its digest at once. The digest of the whole package is checked
 * later. */
TEST_F(built_in, a_damaged_built_in_kernel_is_reported)
{
    close_engine(f);
    uint8_t *object =
        memmem(f->image.bytes, f->image.size, f->object.bytes, sizeof(f->object.bytes));
    assert_non_null(object);
    object[100] ^= 0xff;
    open_engine(f);
    for (int i = 0; i < 2; i++) {
        ask_plan(f, "gfx90a", MI210, 8);
        assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "damaged");
    }
    ask_plan(f, "gfx1030", "gfx1030_36", 8);
    assert_reply_refuses(&f->caller, 0, KILN_UNSUPPORTED, "nothing is");
}

/* The kernel for the wrong arch was built into the program. A message about damage would advise a
 * reinstallation, which would not help. */
TEST_F(built_in, a_built_in_kernel_for_another_arch_is_not_called_damaged)
{
    close_engine(f);
    make_item(f, AMD_XNACK_EITHER | OTHER_MACHINE);
    open_engine(f);
    for (int i = 0; i < 2; i++) {
        ask_plan(f, "gfx90a", MI210, 8);
        assert_reply_refuses(&f->caller, 0, KILN_NOT_FOUND, "KILN_EMBED_PROBLEMS");
    }
    assert_says(engine_fixture_reported(&f->engine, "quarantined"), MI210 ".kdb");
}

TEST_F(built_in, an_invalid_built_in_package_is_reported_at_opening)
{
    struct engine *other = NULL;
    f->image.bytes[0] ^= 0xff;
    f->item.digest = sha256_of(bytes_of(f->image.bytes, f->image.size));
    assert_int_equal(engine_open(&f->engine.options, &other, &f->engine.err), KILN_CORRUPT);
    assert_says(f->engine.err.text, "built in");
    f->image.bytes[0] ^= 0xff;
}

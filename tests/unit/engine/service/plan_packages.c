/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#define MI210 "gfx90a68"

/* The names under which a plan for small_problem() looks in packages. */
static struct program_names small_names;

SET_UP_OF(setup, struct users)
{
    struct problem problem = small_problem(8);
    users_open(f, /* describe= */ false);
    program_names_find(&problem, "gfx90a", NULL, &small_names);
}

TEAR_DOWN_OF(teardown, struct users) { program_names_done(&small_names); }

FIXTURE_OF(plan, struct users, setup, teardown);

static void describe_clang(struct users *f)
{
    engine_fixture_describe_as(
        &f->engine,
        "{\"toolchains\":[{\"name\":\"clang\",\"version\":\"1\",\"path\":\"/x\",\"family\":\"amdgpu"
        "\",\"identity\":"
        "\"aaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbb\"}]}");
}

static void answer_probe(struct users *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->engine.executor);
    assert_non_null(task);
    assert_int_equal(task->job.kind, COMPILE_PROBE);
    finish_compile(f, "object");
}

static void put_content(struct users *f, const char *file_name, struct bytes content)
{
    const struct kernel_row row = { .name = (const char *)small_names.name.data,
                                    .args = (const char *)small_names.args.data,
                                    .content = (const char *)content.data,
                                    .size = content.size };
    put_package(&f->engine, file_name, &row, 1);
    engine_fixture_rescan(&f->engine);
}

static struct amd_object put_kernel(struct users *f, const char *file_name)
{
    struct amd_object object = amd_object(AMD_XNACK_EITHER, "from the package");
    put_content(f, file_name, bytes_of(object.bytes, sizeof(object.bytes)));
    return object;
}

static struct message_plan plan_for(const char *database_id)
{
    return (struct message_plan){ .problem = small_problem(8),
                                  .inline_limit = 1000,
                                  .target = bytes_of_text("gfx90a"),
                                  .database_id = bytes_of_text(database_id) };
}

static void ask_plan(struct test_caller *c, const struct message_plan *m)
{
    test_caller_forget_replies(c);
    send_plan(c, 8, m);
}

static void fetch_small_source(struct test_caller *c)
{
    const struct solution_program *p = &small_names.program;
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, 1u << 20);
    for (uint32_t i = 0; i < p->header_count; i++) {
        struct message_header h = { .name = bytes_of_text(p->header_names[i]),
                                    .text = p->header_texts[i] };
        message_header_write(&headers, &h);
    }
    struct message_fetch_source m = {
        .target = bytes_of_text("gfx90a"),
        .program = bytes_of_text(p->name),
        .options = bytes_of_text(p->options),
        .source = p->source,
        .header_count = p->header_count,
        .headers = buffer_view(&headers),
    };
    SEND_MESSAGE(c, fetch_source, 9, &m);
}

static bool is_compiling(struct users *f)
{
    const struct compile_task *task = fake_executor_next_compile(&f->engine.executor);
    return task && task->job.kind == COMPILE_KERNEL;
}

TEST_F(plan, without_a_compiler_a_plan_is_served_wholly_from_a_package)
{
    engine_fixture_describe(&f->engine);
    struct amd_object object = put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);

    struct message_result o = planned_result(&f->ann, 0);
    assert_int_equal(o.tier, TIER_PACKAGE);
    assert_true(bytes_equal(o.content, bytes_of(object.bytes, sizeof(object.bytes))));
    struct reader r = reader_of(f->ann.replies[0].body);
    assert_true(bytes_equal_text(message_planned_read(&r).toolchain, "package"));
    ask_plan(&f->bob, &m);
    assert_int_equal(planned_result(&f->bob, 0).tier, TIER_HOT);
    assert_int_equal(users_stat(f, "compiles"), 0);
    assert_int_equal(f->engine.executor.compiles_handed_over, 1);
}

TEST_F(plan, with_compilers_switched_off_a_plan_is_served_from_a_package)
{
    users_stop(f);
    f->engine.executor.slots = 0;
    users_start_as(f, /* toolchains= */ NULL);
    struct message_plan m = plan_for(MI210);
    ask_plan(&f->ann, &m);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "'workers'");

    put_kernel(f, "gfx90a68.kdb");
    ask_plan(&f->ann, &m);

    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

TEST_F(plan, a_plan_without_a_database_id_uses_packages_of_the_arch)
{
    engine_fixture_describe(&f->engine);
    put_kernel(f, "gfx90a.kdb");
    struct message_plan m = plan_for("");

    ask_plan(&f->ann, &m);

    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
}

TEST_F(plan, a_plan_without_package_and_compiler_says_why_not_to_compile)
{
    engine_fixture_describe(&f->engine);
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);

    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "gfx90a");
}

TEST_F(plan, a_package_without_the_kernel_leads_to_the_same_message)
{
    engine_fixture_describe(&f->engine);
    const struct kernel_row other = TEXT_KERNEL("other.o", " -mcpu=gfx90a", "another kernel");
    put_package(&f->engine, "gfx90a68.kdb", &other, 1);
    engine_fixture_rescan(&f->engine);
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);

    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "no package");
    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "gfx90a: ");
}

TEST_F(plan, a_damaged_package_row_counts_as_missing)
{
    engine_fixture_describe(&f->engine);
    put_kernel(f, "gfx90a68.kdb");
    flip_bit(package_path(&f->engine, "gfx90a68.kdb"), bytes_of_text("from the package"));
    engine_fixture_rescan(&f->engine);
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);

    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "no package");
    assert_int_equal(users_stat(f, "quarantined"), 1);
}

TEST_F(plan, an_invalid_database_id_is_refused)
{
    engine_fixture_describe(&f->engine);
    struct message_plan m = plan_for("mi210");

    ask_plan(&f->ann, &m);

    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
}

TEST_F(plan, a_plan_that_may_use_no_cache_uses_no_package)
{
    engine_fixture_describe(&f->engine);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    m.flags = FETCH_NO_CACHE;

    ask_plan(&f->ann, &m);

    assert_int_equal(reply_error(&f->ann, 0).code, KILN_UNSUPPORTED);
}

TEST_F(plan, an_object_for_another_arch_is_damage)
{
    engine_fixture_describe(&f->engine);
    put_content(f, "gfx90a68.kdb", bytes_of_text("no code object at all"));
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);

    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "no package");
    assert_int_equal(users_stat(f, "quarantined"), 1);
    assert_says(engine_fixture_reported(&f->engine, "quarantined"), "ELF");
    ask_plan(&f->ann, &m);
    assert_int_equal(users_stat(f, "quarantined"), 1);
}

/* Makes an object with an ELF header like those of NVRTC up to CUDA 12. */
static void make_cubin(unsigned sm, uint8_t cubin[AMD_OBJECT_MAX])
{
    struct amd_object o = amd_object(0, "a cubin from the package");
    Elf64_Ehdr header;
    memcpy(&header, o.bytes, sizeof(header));
    header.e_machine = 190; /* EM_CUDA */
    header.e_flags = sm;
    header.e_ident[EI_ABIVERSION] = 7;
    memcpy(o.bytes, &header, sizeof(header));
    memcpy(cubin, o.bytes, sizeof(o.bytes));
}

static void put_kilns_package(struct users *f, const char *file_name,
                              const struct program_names *names, struct bytes raw)
{
    struct kiln_err err = KILN_ERR_INIT;
    char path[120];
    snprintf(path, sizeof(path), "%s/made.kpkg", f->engine.directory);
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    const struct package_entry entry = {
        .name = bytes_of_text((const char *)names->name.data),
        .args = bytes_of_text((const char *)names->args.data),
        .raw = raw,
        .target = bytes_of_text("sm_90"),
        .toolchain = bytes_of_text("nvrtc"),
        .program = bytes_of_text(names->program.name),
        .options = bytes_of_text(names->program.options),
        .source = names->program.source,
    };
    must(package_writer_create(path, PACKAGE_KILN, &writer, &err), err);
    must(package_writer_add(writer, &entry, &err), err);
    must(package_writer_finish(writer, &err), err);
    assert_int_equal(rename(path, package_path(&f->engine, file_name)), 0);
    engine_fixture_rescan(&f->engine);
}

TEST_F(plan, a_plan_for_nvidia_is_served_from_kilns_own_package)
{
    const struct problem problem = small_problem(8);
    struct program_names names;
    uint8_t cubin[AMD_OBJECT_MAX];
    engine_fixture_describe(&f->engine);
    make_cubin(90, cubin);
    program_names_find(&problem, "sm_90", NULL, &names);
    put_kilns_package(f, "sm_90.kpkg", &names, bytes_of(cubin, sizeof(cubin)));
    program_names_done(&names);
    struct message_plan m = plan_for("");
    m.target = bytes_of_text("sm_90");

    ask_plan(&f->ann, &m);

    struct message_result o = planned_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_OK);
    assert_int_equal(o.tier, TIER_PACKAGE);
    assert_true(bytes_equal(o.content, bytes_of(cubin, sizeof(cubin))));
    m.database_id = bytes_of_text("sm_90");
    ask_plan(&f->ann, &m);
    assert_int_equal(planned_result(&f->ann, 0).code, KILN_OK);
    m.target = bytes_of_text("sm_80");
    m.database_id = (struct bytes){ 0 };
    ask_plan(&f->ann, &m);
    assert_int_not_equal(reply_error(&f->ann, 0).code, KILN_OK);
}

TEST_F(plan, an_object_for_other_features_is_a_miss_and_no_damage)
{
    engine_fixture_describe(&f->engine);
    struct amd_object object = amd_object(AMD_XNACK_ON, "for xnack+ alone");
    put_content(f, "gfx90a68.kdb", bytes_of(object.bytes, sizeof(object.bytes)));
    struct message_plan m = plan_for(MI210);

    m.target = bytes_of_text("gfx90a:xnack-");
    ask_plan(&f->ann, &m);
    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "no package");
    m.target = bytes_of_text("gfx90a:xnack+");
    ask_plan(&f->ann, &m);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);

    m.target = bytes_of_text("gfx90a:xnack-");
    ask_plan(&f->bob, &m);
    assert_int_equal(reply_error(&f->bob, 0).code, KILN_UNSUPPORTED);
    assert_int_equal(users_stat(f, "quarantined"), 0);
}

TEST_F(plan, an_object_for_either_state_of_a_feature_serves_both)
{
    engine_fixture_describe(&f->engine);
    put_kernel(f, "gfx90a68.kdb");
    static const char *const targets[] = { "gfx90a", "gfx90a:xnack-", "gfx90a:xnack+" };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct message_plan m = plan_for(MI210);
        m.target = bytes_of_text(targets[i]);
        ask_plan(&f->ann, &m);
        assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    }
}

/* Compiles the generic kernel, by a plan for another problem. */
static void store_generic(struct users *f, struct bytes object)
{
    struct message_plan m = plan_for(MI210);
    m.problem = small_problem(7);
    m.solver = bytes_of_text("ConvGeneric");
    describe_clang(f);
    ask_plan(&f->ann, &m);
    answer_probe(f);
    finish_compiles(f, object);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_COMPILED);
}

/* Both requests look for the kernels by name, too, and at the same time. */
TEST_F(plan, a_generic_plan_does_not_join_the_look_up_before_a_compile)
{
    struct amd_object object = amd_object(AMD_XNACK_EITHER, "compiled");
    struct message_plan m = plan_for(MI210);
    store_generic(f, bytes_of(object.bytes, sizeof(object.bytes)));
    put_one(f, "gfx90a68.kdb", "other.o", "another kernel");
    test_caller_forget_replies(&f->ann);

    SEND_MESSAGE(&f->bob, plan, 8, &m);
    m.flags = PLAN_GENERIC;
    SEND_MESSAGE(&f->ann, plan, 8, &m);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(planned_result(&f->ann, 0).code, KILN_OK);
    struct reader r = reader_of(f->ann.replies[0].body);
    assert_int_equal(message_planned_read(&r).source, PLAN_SOURCE_GENERIC);
    assert_int_equal(f->bob.reply_count, 0);
    finish_compiles(f, bytes_of(object.bytes, sizeof(object.bytes)));
    assert_int_equal(planned_result(&f->bob, 0).tier, TIER_COMPILED);
}

TEST_F(plan, without_a_compiler_generic_kernels_of_a_package_are_used)
{
    struct amd_object object = amd_object(AMD_XNACK_EITHER, "from the package");
    struct message_plan m = plan_for(MI210);
    engine_fixture_describe(&f->engine);
    program_names_done(&small_names);
    program_names_find_of(&m.problem, "gfx90a", "ConvGeneric", &small_names);
    put_content(f, "gfx90a68.kdb", bytes_of(object.bytes, sizeof(object.bytes)));
    m.problem.in.h = 9;
    ask_plan(&f->ann, &m);
    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "no package");

    m.flags = PLAN_GENERIC;
    ask_plan(&f->ann, &m);

    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    struct reader r = reader_of(f->ann.replies[0].body);
    assert_int_equal(message_planned_read(&r).source, PLAN_SOURCE_GENERIC);
}

TEST_F(plan, a_package_is_used_before_a_compiler)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);

    ask_plan(&f->ann, &m);
    answer_probe(f);

    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    assert_int_equal(users_stat(f, "compiles"), 0);
    ask_plan(&f->ann, &m);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_HOT);
}

TEST_F(plan, a_kernel_that_the_package_lacks_is_compiled)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    m.problem = small_problem(16);

    ask_plan(&f->ann, &m);
    answer_probe(f);

    assert_int_equal(f->ann.reply_count, 0);
    assert_true(is_compiling(f));
}

TEST_F(plan, a_forced_toolchain_uses_no_package)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    m.toolchain = bytes_of_text("clang");

    ask_plan(&f->ann, &m);
    answer_probe(f);

    assert_true(is_compiling(f));
    assert_int_equal(f->ann.reply_count, 0);
}

TEST_F(plan, a_plan_that_may_use_no_package_is_compiled)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    ask_plan(&f->ann, &m);
    answer_probe(f);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    m.flags = PLAN_NO_PACKAGES;

    ask_plan(&f->ann, &m);

    assert_true(is_compiling(f));
    assert_int_equal(f->ann.reply_count, 0);
}

TEST_F(plan, without_a_compiler_a_plan_that_may_use_no_package_is_refused)
{
    engine_fixture_describe(&f->engine);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    m.flags = PLAN_NO_PACKAGES;

    ask_plan(&f->ann, &m);

    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "gfx90a");
}

/* kilnd does not know the sources of a package's kernels, so these kernels only answer requests
 * by name. */
TEST_F(plan, a_package_object_does_not_answer_a_fetch_by_source)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    ask_plan(&f->ann, &m);
    answer_probe(f);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);

    test_caller_forget_replies(&f->bob);
    fetch_small_source(&f->bob);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->bob.reply_count, 0);
    assert_true(is_compiling(f));
}

TEST_F(plan, a_hot_package_object_does_not_answer_a_plan_with_forced_toolchain)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    ask_plan(&f->ann, &m);
    answer_probe(f);
    m.toolchain = bytes_of_text("clang");

    ask_plan(&f->ann, &m);

    assert_true(is_compiling(f));
    assert_int_equal(f->ann.reply_count, 0);
}

TEST_F(plan, a_package_object_does_not_answer_a_forced_plan_that_joins)
{
    describe_clang(f);
    put_kernel(f, "gfx90a68.kdb");
    struct message_plan m = plan_for(MI210);
    /* makes the engine learn that clang works for the target */
    m.toolchain = bytes_of_text("clang");
    ask_plan(&f->bob, &m);
    answer_probe(f);
    fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, "not now", NULL);
    test_caller_forget_replies(&f->bob);
    m.toolchain = bytes_of_text("");
    ask_plan(&f->ann, &m);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    unlink(package_path(&f->engine, "gfx90a68.kdb"));
    engine_fixture_rescan(&f->engine);
    put_kernel(f, "gfx90a68.kdb");
    test_caller_forget_replies(&f->ann);

    SEND_MESSAGE(&f->ann, plan, 1, &m);
    fetch_small_source(&f->bob);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    assert_int_equal(f->bob.reply_count, 0);
    assert_true(is_compiling(f));
}

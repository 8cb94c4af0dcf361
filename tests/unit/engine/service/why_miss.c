/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "engine/store/kernel_name.h"
#include "tests/support/failing_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -F 1"
#define PROBLEM_QUESTION "{\"problem\":\"" LINE "\",\"target\":\"" FIXTURE_TARGET "\"}"
#define OPENCL                                                                      \
    "{\"name\":\"opencl\",\"version\":\"1\",\"path\":\"/x\",\"family\":\"opencl\"," \
    "\"only_target\":\"" FIXTURE_TARGET "\",\"identity\":\""
#define CLANG                                                                      \
    "{\"name\":\"clang\",\"version\":\"1\",\"path\":\"/x\",\"family\":\"amdgpu\"," \
    "\"identity\":\""
#define ONE "1111111111111111111111111111111111111111111111111111111111111111\"}"
#define TWO "2222222222222222222222222222222222222222222222222222222222222222\"}"

SET_UP_OF(setup, struct users)
{
    users_open(f, /* describe= */ false);
    engine_fixture_describe_as(&f->engine, "{\"toolchains\":[" OPENCL ONE "," CLANG ONE "]}");
}

FIXTURE_OF(why, struct users, setup, NULL);

static void upgrade(struct users *f, const char *toolchains)
{
    users_stop(f);
    users_start_as(f, toolchains);
}

static struct digest compile_plan(struct users *f, uint32_t channels, const char *target,
                                  struct bytes object)
{
    struct message_plan m = { .problem = small_problem(channels), .target = bytes_of_text(target) };
    test_caller_forget_replies(&f->ann);
    send_plan(&f->ann, 1, &m);
    finish_compiles(f, object);
    return planned_result(&f->ann, 0).key;
}

static struct digest plan_opencl(struct users *f, uint32_t channels)
{
    return compile_plan(f, channels, FIXTURE_TARGET, bytes_of_text("object"));
}

static void fetch_variant(struct users *f, const char *source, const char *header)
{
    struct problem problem = small_problem(8);
    struct program_names names;
    program_names_find(&problem, FIXTURE_TARGET, NULL, &names);
    const struct solution_program *p = &names.program;
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, 1u << 20);
    struct message_header h = { .name = bytes_of_text(p->header_names[0]),
                                .text = header ? bytes_of_text(header) : p->header_texts[0] };
    message_header_write(&headers, &h);
    struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                      .program = bytes_of_text(p->name),
                                      .options = bytes_of_text(p->options),
                                      .source = source ? bytes_of_text(source) : p->source,
                                      .header_count = 1,
                                      .headers = buffer_view(&headers) };
    SEND_MESSAGE(&f->ann, fetch_source, 2, &m);
    fake_executor_run_tasks(&f->engine.executor);
    finish_compiles(f, bytes_of_text("object"));
    program_names_done(&names);
}

static struct json *ask_why(struct test_caller *c, const char *question)
{
    struct json *answer = test_caller_ask(c, MESSAGE_why_miss, question);
    assert_non_null(json_get(answer, "key"));
    return answer;
}

static struct json *ask_of_target(struct users *f, struct test_caller *c, const char *question)
{
    test_caller_forget_replies(c);
    test_caller_send(c, MESSAGE_why_miss, 4, bytes_of_text(question));
    assert_int_equal(c->reply_count, 0);
    finish_compiles(f, bytes_of_text("object"));
    return reply_json(c, 0);
}

static struct json *ask_key(struct test_caller *c, const struct digest *key)
{
    char hex[DIGEST_HEX_SIZE], question[100];
    digest_to_hex(key, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    return ask_why(c, question);
}

static const struct json *only_difference(const struct json *answer, const char *part)
{
    const struct json *nearest = json_first(json_get(answer, "nearest"));
    assert_non_null(nearest);
    const struct json *different = json_get(nearest, "different");
    KILN_AUTO(mem) char *all = json_print(different, false);
    if (json_count(different) != 1)
        fail_msg("not only '%s' differs: %s", part, all);
    assert_string_equal(json_get_text(json_first(different), "part", ""), part);
    return json_first(different);
}

TEST_F(why, why_miss_reports_a_stored_kernel_as_found)
{
    struct digest key = plan_opencl(f, 8);
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&key, hex);
    assert_string_equal(json_get_text(answer, "key", ""), hex);
    assert_true(json_get_bool(answer, "found", false));
    assert_says(json_get_text(answer, "message", ""), "hit");
}

TEST_F(why, why_miss_finds_nothing_near_in_an_empty_store)
{
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    assert_false(json_get_bool(answer, "found", true));
    assert_int_equal(json_count(json_get(answer, "nearest")), 0);
    assert_says(json_get_text(answer, "message", ""), "nothing similar");
}

TEST_F(why, why_miss_names_a_different_option_only)
{
    plan_opencl(f, 16);
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    const struct json *d = only_difference(answer, "options");
    assert_says(json_get_text(d, "wanted", ""), "-DKILN_C=8");
    assert_says(json_get_text(d, "there", ""), "-DKILN_C=16");
    assert_null(strstr(json_get_text(d, "there", ""), "-DKILN_FILTER_H"));
    assert_says(json_get_text(answer, "message", ""), "nearest");
}

TEST_F(why, why_miss_names_an_upgraded_toolchain)
{
    plan_opencl(f, 8);
    upgrade(f, "{\"toolchains\":[" OPENCL TWO "]}");
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    const struct json *d = only_difference(answer, "toolchain version");
    assert_string_equal(json_get_text(d, "wanted", ""), "1 (222222222222)");
    assert_says(json_get_text(d, "there", ""), "111111111111");
}

TEST_F(why, why_miss_names_an_edited_source)
{
    fetch_variant(f, "kernel void edited() {}", NULL);
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    only_difference(answer, "source");
}

TEST_F(why, why_miss_names_an_edited_header)
{
    fetch_variant(f, NULL, "#define EDITED 1");
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    only_difference(answer, "headers");
}

TEST_F(why, why_miss_names_different_target_features)
{
    struct amd_object object = amd_object(AMD_XNACK_OFF, "xnack-");
    compile_plan(f, 8, "gfx90a:xnack-", bytes_of(object.bytes, sizeof(object.bytes)));
    static const char question[] = "{\"problem\":\"" LINE "\",\"target\":\"gfx90a:xnack+\","
                                   "\"toolchain\":\"clang\"}";
    KILN_AUTO(json) struct json *answer = ask_of_target(f, &f->ann, question);
    const struct json *d = only_difference(answer, "features");
    assert_string_equal(json_get_text(d, "wanted", ""), ":xnack+");
    assert_string_equal(json_get_text(d, "there", ""), ":xnack-");
}

TEST_F(why, why_miss_names_a_different_arch_as_target)
{
    struct amd_object object = amd_object(0, "gfx90a");
    compile_plan(f, 8, "gfx90a", bytes_of(object.bytes, sizeof(object.bytes)));
    static const char question[] = "{\"problem\":\"" LINE "\",\"target\":\"gfx942\","
                                   "\"toolchain\":\"clang\"}";
    KILN_AUTO(json) struct json *answer = ask_of_target(f, &f->ann, question);
    const struct json *d = only_difference(answer, "target");
    assert_string_equal(json_get_text(d, "wanted", ""), "gfx942");
    assert_string_equal(json_get_text(d, "there", ""), "gfx90a");
}

TEST_F(why, why_miss_waits_until_the_toolchain_is_known)
{
    static const char question[] = "{\"problem\":\"" LINE "\",\"target\":\"gfx90a\"}";
    test_caller_send(&f->ann, MESSAGE_why_miss, 4, bytes_of_text(question));
    assert_int_equal(f->ann.reply_count, 0);
    finish_compiles(f, bytes_of_text("object"));
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_false(json_get_bool(answer, "found", true));
}

TEST_F(why, why_miss_finds_a_stored_key_and_its_nearest)
{
    struct digest key = plan_opencl(f, 8);
    plan_opencl(f, 16);
    KILN_AUTO(json) struct json *answer = ask_key(&f->ann, &key);
    assert_true(json_get_bool(answer, "found", false));
    only_difference(answer, "options");
}

TEST_F(why, why_miss_knows_nothing_of_an_unknown_key)
{
    struct digest key = { { 1, 2, 3 } };
    plan_opencl(f, 8);
    KILN_AUTO(json) struct json *answer = ask_key(&f->ann, &key);
    assert_false(json_get_bool(answer, "found", true));
    assert_int_equal(json_count(json_get(answer, "nearest")), 0);
    assert_says(json_get_text(answer, "message", ""), "problem");
}

static void import_kernel(struct users *f, const char *file_name)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", " -mcpu=gfx906", "the object");
    char path[100];
    snprintf(path, sizeof(path), "%s/user.ukdb", f->engine.directory);
    unlink(path);
    write_kernel_file(path, &row, 1);
    const int file = open_copy(path);
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_kernel_import, "{}", &file, 1);
    fake_executor_transfer(&f->engine.executor, path, file_name, "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->ann, 0));
}

static struct digest named_key(const char *id)
{
    return kernel_name_key(1000, bytes_of_text(id), bytes_of_text("conv.o"),
                           bytes_of_text(" -mcpu=gfx906"));
}

static const struct json *find_part(const struct json *list, const char *part)
{
    const struct json *d = json_first(list);
    while (d && strcmp(json_get_text(d, "part", ""), part) != 0)
        d = json_next(d);
    return d;
}

TEST_F(why, why_miss_names_different_compute_units)
{
    import_kernel(f, "gfx906_60.ukdb");
    import_kernel(f, "gfx906_64.ukdb");
    struct digest key = named_key("gfx906_60");
    KILN_AUTO(json) struct json *answer = ask_key(&f->ann, &key);
    const struct json *nearest = json_first(json_get(answer, "nearest"));
    const struct json *d = find_part(json_get(nearest, "different"), "compute units");
    assert_non_null(d);
    assert_string_equal(json_get_text(d, "wanted", ""), "gfx906_60");
    assert_string_equal(json_get_text(d, "there", ""), "gfx906_64");
}

TEST_F(why, why_miss_hides_private_imports_of_others)
{
    import_kernel(f, "gfx906_60.ukdb");
    import_kernel(f, "gfx906_64.ukdb");
    struct digest key = named_key("gfx906_60");
    KILN_AUTO(json) struct json *answer = ask_key(&f->bob, &key);
    assert_false(json_get_bool(answer, "found", true));
    assert_int_equal(json_count(json_get(answer, "nearest")), 0);
}

static void put_small_problem(struct users *f, const char *file_name, unsigned features)
{
    struct problem problem = small_problem(8);
    struct program_names names;
    struct amd_object object = amd_object(features, "of a package");
    program_names_find(&problem, "gfx90a", NULL, &names);
    const struct kernel_row row = { .name = (const char *)names.name.data,
                                    .args = (const char *)names.args.data,
                                    .content = (const char *)object.bytes,
                                    .size = sizeof(object.bytes) };
    put_package(&f->engine, file_name, &row, 1);
    engine_fixture_rescan(&f->engine);
    program_names_done(&names);
}

static struct json *ask_mi210(struct users *f, const char *more)
{
    char question[400];
    snprintf(question, sizeof(question),
             "{\"problem\":\"" LINE "\",\"target\":\"gfx90a\",\"database_id\":\"gfx90a68\"%s}",
             more);
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_why_miss, 4, bytes_of_text(question));
    finish_compiles(f, bytes_of_text("object"));
    fake_executor_run_tasks(&f->engine.executor);
    return reply_json(&f->ann, f->ann.reply_count - 1);
}

TEST_F(why, why_miss_reports_a_package_kernel_as_found)
{
    put_small_problem(f, "gfx90a68.kdb", AMD_XNACK_EITHER);
    KILN_AUTO(json) struct json *answer = ask_mi210(f, "");
    assert_true(json_get_bool(answer, "found", false));
    assert_string_equal(json_get_text(answer, "tier", ""), "package");
    assert_says(json_get_text(answer, "message", ""), "gfx90a68.kdb");

    KILN_AUTO(json) struct json *forced = ask_mi210(f, ",\"toolchain\":\"clang\"");
    /* A plan that names its toolchain does not use packages. */
    assert_false(json_get_bool(forced, "found", true));
}

TEST_F(why, why_miss_does_not_find_a_kernel_of_other_compute_units)
{
    put_small_problem(f, "gfx90a6e.kdb", AMD_XNACK_EITHER);
    KILN_AUTO(json) struct json *answer = ask_mi210(f, "");
    assert_false(json_get_bool(answer, "found", true));
    assert_null(json_get(answer, "tier"));
    assert_says(json_get_text(answer, "message", ""), "gfx90a6e.kdb");
    const struct json *d = only_difference(answer, "compute units");
    assert_string_equal(json_get_text(d, "wanted", ""), "gfx90a68");
    assert_string_equal(json_get_text(d, "there", ""), "gfx90a6e");
    assert_string_equal(json_get_text(json_first(json_get(answer, "nearest")), "package", ""),
                        "gfx90a6e.kdb");
}

TEST_F(why, why_miss_without_a_compiler_looks_into_packages_of_the_arch)
{
    put_small_problem(f, "gfx90a6e.kdb", AMD_XNACK_EITHER);
    upgrade(f, "{\"toolchains\":[]}");
    engine_fixture_rescan(&f->engine);
    KILN_AUTO(json) struct json *answer = ask_mi210(f, "");
    assert_false(json_get_bool(answer, "found", true));
    assert_says(json_get_text(answer, "message", ""), "gfx90a6e.kdb");
}

#define NAMED(id, name) \
    "{\"database_id\":\"" id "\",\"name\":\"" name "\",\"args\":\" -mcpu=gfx906\"}"

TEST_F(why, why_miss_finds_an_imported_kernel_by_name)
{
    import_kernel(f, "gfx906_60.ukdb");
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, NAMED("gfx906_60", "conv.o"));
    assert_true(json_get_bool(answer, "found", false));
    assert_string_equal(json_get_text(answer, "tier", ""), "disk");
    KILN_AUTO(json) struct json *others = ask_why(&f->bob, NAMED("gfx906_60", "conv.o"));
    assert_false(json_get_bool(others, "found", true));
    assert_int_equal(json_count(json_get(others, "nearest")), 0);
}

TEST_F(why, why_miss_finds_a_package_kernel_by_name)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", " -mcpu=gfx906", "the object");
    put_package(&f->engine, "gfx906_60.kdb", &row, 1);
    engine_fixture_rescan(&f->engine);
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, NAMED("gfx906_60", "conv.o"));
    assert_string_equal(json_get_text(answer, "tier", ""), "package");
    KILN_AUTO(json) struct json *elsewhere = ask_why(&f->ann, NAMED("gfx906_64", "conv.o"));
    assert_false(json_get_bool(elsewhere, "found", true));
    assert_string_equal(json_get_text(only_difference(elsewhere, "compute units"), "there", ""),
                        "gfx906_60");
}

TEST_F(why, why_miss_compares_named_kernels_by_their_names)
{
    import_kernel(f, "gfx906_60.ukdb");
    plan_opencl(f, 8); /* this kernel has a source, but no name that could be compared */
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, NAMED("gfx906_64", "conv.o"));
    assert_int_equal(json_count(json_get(answer, "nearest")), 1);
    only_difference(answer, "compute units");
    KILN_AUTO(json) struct json *version = ask_why(&f->ann, NAMED("gfx906_60@3.2", "conv.o"));
    assert_string_equal(json_get_text(only_difference(version, "MIOpen version"), "wanted", ""),
                        "3.2");
    KILN_AUTO(json) struct json *name = ask_why(&f->ann, NAMED("gfx906_60", "conv2.o"));
    only_difference(name, "program");
}

TEST_F(why, why_miss_compares_no_name_that_memory_did_not_suffice_for)
{
    bool failed = true;
    import_kernel(f, "gfx906_60.ukdb");
    for (unsigned nth = 1; failed; nth++) {
        test_caller_forget_replies(&f->ann);
        fail_call("realloc", nth, ENOMEM);
        test_caller_send(&f->ann, MESSAGE_why_miss, 4, bytes_of_text(NAMED("gfx906_64", "conv.o")));
        fake_executor_run_tasks(&f->engine.executor);
        failed = calls_failed();
        /* If the answer is empty, the allocation that failed was not the engine's, but that of the
         * test's copy of the answer. */
        if (f->ann.replies[0].body.size == 0)
            continue;
        if (f->ann.replies[0].type == MESSAGE_error) {
            assert_reply_refuses(&f->ann, 0, KILN_NO_MEMORY, "");
            continue;
        }
        KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
        only_difference(answer, "compute units");
    }
}

TEST_F(why, why_miss_names_a_missing_compiler_and_package_kernel)
{
    const struct kernel_row other = TEXT_KERNEL("conv.o", " -mcpu=gfx90a", "the object");
    put_package(&f->engine, "gfx90a68.kdb", &other, 1);
    upgrade(f, "{\"toolchains\":[" OPENCL ONE "]}");
    engine_fixture_rescan(&f->engine);
    KILN_AUTO(json) struct json *answer = ask_mi210(f, "");
    assert_false(json_get_bool(answer, "found", true));
    assert_says(json_get_text(answer, "message", ""), "compiled");
}

TEST_F(why, why_miss_ignores_compute_units_of_a_compiled_kernel)
{
    plan_opencl(f, 16);
    KILN_AUTO(json)
    struct json *answer = ask_why(&f->ann, "{\"problem\":\"" LINE "\",\"target\":\"" FIXTURE_TARGET
                                           "\",\"database_id\":\"gfx90a68\"}");
    only_difference(answer, "options");
}

TEST_F(why, why_miss_names_the_compute_units_of_an_import)
{
    import_kernel(f, "gfx906_60.ukdb");
    KILN_AUTO(json)
    struct json *answer = ask_why(&f->ann, "{\"problem\":\"" LINE "\",\"target\":\"" FIXTURE_TARGET
                                           "\",\"database_id\":\"gfx906_64\"}");
    const struct json *nearest = json_first(json_get(answer, "nearest"));
    const struct json *d = find_part(json_get(nearest, "different"), "compute units");
    assert_non_null(d);
    assert_string_equal(json_get_text(d, "wanted", ""), "gfx906_64");
}

static const char *tier_of_fetch(const struct test_caller *c)
{
    struct message_result result = last_result(c);
    return result.code == KILN_OK ? tier_name((enum tier)result.tier) : "none";
}

static const char *tier_of_answer(const struct json *answer)
{
    const char *tier = json_get_text(answer, "tier", "none");
    assert_int_equal(json_get_bool(answer, "found", false), strcmp(tier, "none") != 0);
    return tier;
}

/* Checks that why_miss and a fetch find the key in |tier|, or nowhere if |tier| is "none". */
static void assert_key_is_in(struct users *f, struct test_caller *c, const struct digest *key,
                             const char *tier)
{
    const struct message_fetch m = { .key = *key };
    KILN_AUTO(json) struct json *answer = ask_key(c, key);
    assert_string_equal(tier_of_answer(answer), tier);
    SEND_MESSAGE(c, fetch, 5, &m);
    fake_executor_run_tasks(&f->engine.executor);
    assert_string_equal(tier_of_fetch(c), tier);
}

static void assert_name_is_in(struct test_caller *c, const char *tier)
{
    KILN_AUTO(json) struct json *answer = ask_why(c, NAMED("gfx906_60", "conv.o"));
    assert_string_equal(tier_of_answer(answer), tier);
    test_caller_fetch_name(c, "gfx906_60", "conv.o", " -mcpu=gfx906");
    assert_string_equal(tier_of_fetch(c), tier);
}

TEST_F(why, why_miss_and_fetch_by_key_find_the_same_tier)
{
    const struct digest unknown = { { 1, 2, 3 } };
    struct digest key = plan_opencl(f, 8);
    assert_key_is_in(f, &f->ann, &key, "hot");
    upgrade(f, "{\"toolchains\":[" OPENCL ONE "]}");
    assert_key_is_in(f, &f->ann, &key, "disk");
    assert_key_is_in(f, &f->bob, &key, "hot");
    assert_key_is_in(f, &f->ann, &unknown, "none");
}

TEST_F(why, why_miss_finds_a_kernel_that_only_the_hot_set_has)
{
    f->engine.options.store_mode = KERNEL_STORE_OFF;
    upgrade(f, "{\"toolchains\":[" OPENCL ONE "]}");
    struct digest key = plan_opencl(f, 8);
    assert_key_is_in(f, &f->ann, &key, "hot");
    KILN_AUTO(json) struct json *answer = ask_why(&f->ann, PROBLEM_QUESTION);
    assert_string_equal(tier_of_answer(answer), "hot");
}

TEST_F(why, why_miss_and_fetch_by_name_find_the_same_tier)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", " -mcpu=gfx906", "the object");
    assert_name_is_in(&f->ann, "none");
    put_package(&f->engine, "gfx906_60.kdb", &row, 1);
    engine_fixture_rescan(&f->engine);
    assert_name_is_in(&f->ann, "package");
    assert_name_is_in(&f->ann, "hot");
    import_kernel(f, "gfx906_60.ukdb");
    assert_name_is_in(&f->ann, "disk");
    assert_name_is_in(&f->ann, "hot");
}

TEST_F(why, why_miss_hides_a_hot_private_kernel_of_another_user_as_fetch_does)
{
    struct digest key = named_key("gfx906_60");
    import_kernel(f, "gfx906_60.ukdb");
    assert_name_is_in(&f->ann, "disk");
    assert_key_is_in(f, &f->ann, &key, "hot");
    assert_key_is_in(f, &f->bob, &key, "none");
}

TEST_F(why, why_miss_finds_a_hot_kernel_of_a_package_as_a_plan_does)
{
    put_small_problem(f, "gfx90a68.kdb", AMD_XNACK_EITHER);
    KILN_AUTO(json) struct json *cold = ask_mi210(f, "");
    assert_string_equal(tier_of_answer(cold), "package");
    struct message_plan m = { .problem = small_problem(8),
                              .target = bytes_of_text("gfx90a"),
                              .database_id = bytes_of_text("gfx90a68") };
    test_caller_forget_replies(&f->ann);
    send_plan(&f->ann, 1, &m);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(planned_result(&f->ann, 0).tier, TIER_PACKAGE);
    KILN_AUTO(json) struct json *hot = ask_mi210(f, "");
    assert_string_equal(tier_of_answer(hot), "hot");
}

TEST_F(why, why_miss_neither_promotes_nor_counts_a_hot_kernel)
{
    f->engine.options.hot_limit_count = 2;
    upgrade(f, "{\"toolchains\":[" OPENCL ONE "]}");
    struct digest oldest = plan_opencl(f, 8);
    plan_opencl(f, 16);
    uint64_t hits = users_stat(f, "hits.hot");
    KILN_AUTO(json) struct json *answer = ask_key(&f->ann, &oldest);
    assert_string_equal(tier_of_answer(answer), "hot");
    assert_int_equal(users_stat(f, "hits.hot"), hits);
    plan_opencl(f, 24);
    assert_key_is_in(f, &f->ann, &oldest, "disk");
}

TEST_F(why, invalid_why_miss_questions_are_refused)
{
    static const struct {
        const char *question;
        enum kiln_code code;
        const char *says;
    } bad[] = {
        { "{}", KILN_INVALID, "a key" },
        { "{\"key\":\"ab\",\"problem\":\"conv\"}", KILN_INVALID, "a key" },
        { "{\"key\":\"abc\"}", KILN_INVALID, "'abc'" },
        { "{\"name\":\"conv.o\"}", KILN_INVALID, "database id" },
        { "{\"name\":\"conv.o\",\"key\":\"ab\"}", KILN_INVALID, "name" },
        { "{\"problem\":\"conv -n\",\"target\":\"" FIXTURE_TARGET "\"}", KILN_INVALID,
          "batchsize" },
        { "{\"problem\":\"" LINE "\"}", KILN_INVALID, "target" },
        { "{\"problem\":\"" LINE "\",\"target\":\"" FIXTURE_TARGET "\",\"toolchain\":\"gcc\"}",
          KILN_NOT_FOUND, "gcc" },
        { "{\"problem\":\"" LINE "\",\"target\":\"" FIXTURE_TARGET "\",\"database_id\":\"mi210\"}",
          KILN_INVALID, "mi210" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        test_caller_refused(&f->ann, MESSAGE_why_miss, bad[i].question, bad[i].code, bad[i].says);
    test_caller_refused(&f->ann, MESSAGE_why_miss,
                        "{\"problem\":\"# a comment\",\"target\":\"" FIXTURE_TARGET "\"}",
                        KILN_INVALID, "problem");
}

TEST_F(why, why_miss_of_a_client_that_left_leaves_nothing)
{
    test_caller_send(&f->ann, MESSAGE_why_miss, 4, bytes_of_text(PROBLEM_QUESTION));
    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
}

/* kernel_list and why_miss may each read many private kernels of other users. Only one such scan
 * runs at a time. */
TEST_F(why, why_miss_waits_for_a_scan_of_the_store)
{
    const unsigned *tasks = f->engine.executor.tasks_of, before = tasks[WORK_QUEUE_READ];
    test_caller_send(&f->bob, MESSAGE_kernel_list, 1, bytes_of_text(""));
    test_caller_send(&f->ann, MESSAGE_why_miss, 2, bytes_of_text(PROBLEM_QUESTION));
    assert_int_equal(tasks[WORK_QUEUE_READ], before + 1);
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->bob, 0));
    json_destroy(reply_json(&f->ann, 0));
}

TEST_F(why, why_miss_counts_as_an_administrative_request)
{
    struct test_caller again;
    const struct bytes question = bytes_of_text(PROBLEM_QUESTION);
    for (uint64_t i = 0; i < 3; i++)
        test_caller_send(&f->ann, MESSAGE_why_miss, i, question);
    test_caller_send(&f->ann, MESSAGE_stats, 4, bytes_of_text(""));
    test_caller_connect(&again, &f->engine, 1000, ROLE_USE);
    test_caller_forget_replies(&again);

    test_caller_send(&again, MESSAGE_why_miss, 5, question);

    assert_reply_refuses(&again, 0, KILN_BUSY, "user 1000");
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_forget_replies(&again);
    test_caller_send(&again, MESSAGE_why_miss, 6, question);
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&again, 0));
    test_caller_leave(&again);
}

/* SPDX-License-Identifier: MIT */
#include "libclient/client.h"

#include "common/base/fs.h"
#include "tests/support/shell.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    struct fake_daemon daemon;
    const char *home;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_plan_options options;
    enum kiln_code refused; /* the code of the next answers, or KILN_OK */
    char text[65536];       /* concatenated contents of all trace files, in any order */
    unsigned files;
};

static void answer_plan(struct fake_request *rq)
{
    BUFFER_AUTO struct buffer arguments, kernels, objects, body;
    const struct digest key = fake_key(7);
    const struct message_plan_argument argument = { .kind = ARGUMENT_Y };
    struct message_result object = fake_inline_result(0, &key, bytes_of_text("object"));
    buffer_init(&arguments, 1000);
    buffer_init(&kernels, 1000);
    buffer_init(&objects, 1000);
    buffer_init(&body, 4000);
    message_plan_argument_write(&arguments, &argument);
    const struct message_plan_kernel kernel = { .name = bytes_of_text("conv"),
                                                .grid_x = 1,
                                                .grid_y = 1,
                                                .grid_z = 1,
                                                .group_x = 64,
                                                .group_y = 1,
                                                .group_z = 1,
                                                .argument_count = 1,
                                                .arguments = buffer_view(&arguments) };
    message_plan_kernel_write(&kernels, &kernel);
    object.tier = TIER_COMPILED;
    object.spent_ns = 5000000;
    message_result_write(&objects, &object);
    const struct message_planned planned = { .solver = bytes_of_text("Naive"),
                                             .config = bytes_of_text(""),
                                             .source = PLAN_SOURCE_HEURISTIC,
                                             .toolchain = bytes_of_text("clang"),
                                             .toolchain_identity = bytes_of_text("clang 15"),
                                             .kernel_count = 1,
                                             .object_count = 1,
                                             .kernels = buffer_view(&kernels),
                                             .objects = buffer_view(&objects) };
    message_planned_write(&body, &planned);
    fake_reply(rq, MESSAGE_planned, 0, buffer_view(&body));
}

static void answer_kernel(struct fake_request *rq)
{
    struct fake_results results = { 0 };
    struct reader r = reader_of(rq->body);
    struct digest key = fake_key(3);
    if (rq->header.type == MESSAGE_fetch)
        key = message_fetch_read(&r).key;
    struct message_result result = fake_inline_result(0, &key, bytes_of_text("object"));
    result.tier = TIER_DISK;
    fake_result_add(&results, &result);
    fake_results_reply(&results, rq, 0, NULL, 0);
}

static void answer(struct fake_request *rq)
{
    const struct fixture *f = rq->daemon->context;
    if (f->refused)
        fake_reply_error(rq, f->refused, "the fake says no", NULL);
    else if (rq->header.type == MESSAGE_plan)
        answer_plan(rq);
    else
        answer_kernel(rq);
}

static void serve(struct fixture *f, const char *job)
{
    test_setenv("KILN_TRACE", job);
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

SET_UP(set_up)
{
    *f = (struct fixture){
        .problem = public_test_problem(1),
        .options = { .size = sizeof(f->options), .target = "gfx90a", .database_id = "gfx90a68" }
    };
    f->home = test_directory();
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    test_setenv("SLURM_JOB_NAME", NULL);
}

FIXTURE(trace, set_up, NULL);

static void plan(struct fixture *f)
{
    struct kiln_plan *got = NULL;
    if (kiln_plan_get(f->client, &f->problem, &f->options, &got, &f->err) == KILN_OK)
        kiln_plan_unref(got);
}

static void fetch(struct kiln_client *client, unsigned seed)
{
    struct kiln_error err = { 0 };
    char hex[DIGEST_HEX_SIZE];
    const struct digest key = fake_key(seed);
    struct kiln_kernel *kernel = NULL;
    digest_to_hex(&key, hex);
    if (kiln_kernel_fetch(client, hex, 0, &kernel, &err) == KILN_OK)
        kiln_kernel_unref(kernel);
}

static void read_traces(struct fixture *f, const char *job)
{
    char path[512];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces/%s", f->home, job);
    DIR *entries = opendir(path);
    f->text[0] = '\0';
    f->files = 0;
    for (const struct dirent *e; entries && (e = readdir(entries));) {
        char file[800];
        if (e->d_name[0] == '.')
            continue;
        BUFFER_AUTO struct buffer text;
        buffer_init(&text, sizeof(f->text));
        snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        must(fs_read_file(file, sizeof(f->text) - 1, &text, &err), err);
        memcpy(f->text, text.data, text.size);
        f->text[text.size] = '\0';
        f->files++;
    }
    if (entries)
        closedir(entries);
}

static unsigned count(const struct fixture *f, const char *word)
{
    unsigned found = 0;
    for (const char *at = f->text; (at = strstr(at, word)); at++)
        found++;
    return found;
}

TEST_F(trace, without_the_variable_nothing_is_written)
{
    serve(f, NULL);
    assert_null(f->client->trace);
    plan(f);
    fetch(f->client, 1);
    read_traces(f, "");
    assert_int_equal(f->files, 0);
}

TEST_F(trace, a_process_that_uses_nothing_writes_no_file)
{
    serve(f, "net");
    assert_non_null(f->client->trace);
    read_traces(f, "net");
    assert_int_equal(f->files, 0);
}

TEST_F(trace, a_plan_is_noted_once_with_its_object)
{
    char hex[DIGEST_HEX_SIZE], object[128];
    const struct digest key = fake_key(7);
    digest_to_hex(&key, hex);
    snprintf(object, sizeof(object), "\nobject compiled 5000 %s\n", hex);
    serve(f, "net");
    plan(f);
    plan(f);
    read_traces(f, "net");
    assert_int_equal(f->files, 1);
    assert_int_equal(count(f, "\nplan "), 1);
    assert_says(f->text, " compiled gfx90a gfx90a68 - - conv ");
    assert_says(f->text, object);
    assert_says(f->text, "libkiln ");
}

/* For example, the thread that looks for better plans requests each solver's plan, and the job goes
 * on meanwhile. */
TEST_F(trace, the_job_does_not_wait_for_plans_with_the_priority_of_a_prefetch)
{
    unsigned long long wanted = 0, waited = 1;
    serve(f, "net");
    f->options.priority = KILN_PREFETCH;
    plan(f);
    read_traces(f, "net");
    const char *line = strstr(f->text, "\nplan ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " plan %llu %llu compiled", &wanted, &waited), 2);
    assert_int_equal(waited, 0);
    assert_int_equal(count(f, "\nobject compiled"), 1);
}

TEST_F(trace, other_users_can_neither_list_nor_read_a_trace)
{
    char directory[256];
    serve(f, "net");
    mode_t before = umask(0);
    plan(f);
    umask(before);
    snprintf(directory, sizeof(directory), "%.200s/.cache/kiln/traces", f->home);
    KILN_AUTO(mem) char *modes = shell_text(directory, "stat -c %%a net net/*.trace");
    assert_string_equal(modes, "700\n600\n");
}

TEST_F(trace, a_solver_is_noted_only_if_the_program_asked_for_it)
{
    serve(f, "net");
    f->options.solver = "Naive";
    plan(f);
    read_traces(f, "net");
    assert_says(f->text, " compiled gfx90a gfx90a68 - Naive conv ");
}

TEST_F(trace, a_kernel_is_noted_at_its_first_use_only)
{
    serve(f, "net");
    fetch(f->client, 1);
    fetch(f->client, 2);
    fetch(f->client, 1);
    read_traces(f, "net");
    assert_int_equal(count(f, "\nkernel "), 2);
    assert_says(f->text, " disk 0 - ");
}

TEST_F(trace, a_failure_and_the_first_use_after_it_are_noted)
{
    serve(f, "net");
    f->refused = KILN_NOT_FOUND;
    fetch(f->client, 1);
    fetch(f->client, 1);
    f->refused = KILN_OK;
    fetch(f->client, 1);
    read_traces(f, "net");
    assert_int_equal(count(f, "\nkernel "), 2);
    assert_int_equal(count(f, " failed "), 1);
    assert_int_equal(count(f, " disk "), 1);
}

TEST_F(trace, a_prefetch_and_a_search_for_a_config_are_not_noted)
{
    serve(f, "net");
    f->options.solver = "Naive";
    f->options.config = "8,4";
    plan(f);
    f->options.config = NULL;
    f->options.no_objects = 1;
    plan(f);
    read_traces(f, "net");
    assert_int_equal(f->files, 0);
}

static int count_kernel(void *context, size_t index, struct kiln_kernel *kernel,
                        const struct kiln_error *err)
{
    (void)index, (void)err;
    *(unsigned *)context += kernel != NULL;
    return 0;
}

TEST_F(trace, kernels_of_a_batch_are_noted)
{
    char hex[DIGEST_HEX_SIZE];
    const struct digest key = fake_key(3);
    unsigned got = 0;
    const char *keys[1] = { hex };
    const struct kiln_kernel_batch batch = {
        .size = sizeof(batch), .keys = keys, .count = 1, .ready = count_kernel, .context = &got
    };
    digest_to_hex(&key, hex);
    serve(f, "net");
    must(kiln_kernel_fetch_batch(f->client, &batch, &f->err), f->err);
    assert_int_equal(got, 1);
    read_traces(f, "net");
    assert_says(f->text, hex);
    assert_int_equal(count(f, "\nkernel "), 1);
}

TEST_F(trace, the_name_can_come_from_slurm)
{
    test_setenv("SLURM_JOB_NAME", "train gpt/2");
    serve(f, "on");
    fetch(f->client, 1);
    read_traces(f, "train_gpt_2");
    assert_int_equal(f->files, 1);
}

TEST_F(trace, a_directory_that_cannot_be_made_costs_the_trace_and_nothing_else)
{
    char path[512];
    struct kiln_err err = KILN_ERR_INIT;
    struct kiln_kernel *kernel = NULL;
    char hex[DIGEST_HEX_SIZE];
    const struct digest key = fake_key(1);
    snprintf(path, sizeof(path), "%s/.cache/kiln", f->home);
    must(fs_make_directories(path, &err), err);
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces", f->home);
    must(fs_replace_file(path, bytes_of_text("not a directory"), 0600, &err), err);
    serve(f, "net");
    digest_to_hex(&key, hex);
    must(kiln_kernel_fetch(f->client, hex, 0, &kernel, &f->err), f->err);
    kiln_kernel_unref(kernel);
    fetch(f->client, 2);
}

static void *use_many(void *context)
{
    const struct fixture *f = context;
    for (unsigned i = 0; i < 40; i++)
        fetch(f->client, i);
    return NULL;
}

TEST_F(trace, threads_that_use_the_same_kernels_write_whole_lines)
{
    pthread_t threads[4];
    struct trace_line line;
    serve(f, "net");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_many, f), 0);
    for (size_t i = 0; i < 4; i++)
        await_thread(threads[i], NULL);
    read_traces(f, "net");
    char *rest = f->text, *text = strsep(&rest, "\n");
    assert_string_equal(text, TRACE_FIRST_LINE);
    unsigned kernels = 0;
    while ((text = strsep(&rest, "\n")) && *text) {
        assert_int_equal(trace_line_parse(bytes_of_text(text), &line), TRACE_VALID);
        kernels += line.kind == TRACE_KERNEL;
    }
    assert_int_equal(kernels, 40);
}

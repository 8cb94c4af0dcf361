/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/pool_fixture.h"
#include "tests/unit/daemon/loop_fixture.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

char last_answer[256];
struct sandbox_report handshake;
unsigned warmups;
int refusal;
enum compile_end warmup_end;
uint8_t warmup_toolchain;

/* Returns the order that tells the fake worker what to do. A job's program is this order. A warm-up
 * has no program, so its toolchain selects the order. */
static struct bytes order_of(const struct compile_job *job)
{
    if (job->program.size > 0)
        return job->program;
    assert_int_equal(job->kind, COMPILE_PROBE);
    assert_int_equal(job->origin, COMPILE_OF_KILN);
    assert_true(bytes_equal_text(job->target, "gfx942"));
    assert_true(job->target_works);
    warmup_toolchain = job->toolchain_id.bytes[0];
    warmups++;
    if (bytes_equal_text(job->toolchain, "breaks"))
        return bytes_of_text("crash");
    return bytes_of_text(bytes_equal_text(job->toolchain, "hangs") ? "hang" : "prepare");
}

enum kiln_code worker_send_job(int socket_fd, const struct compile_job *job,
                               struct worker_files *ret_files, struct kiln_err *err)
{
    if (refusal)
        return kiln_fail_errno(err, refusal, "cannot make an anonymous file");
    struct worker_files files = { memfd_create("object", MFD_CLOEXEC),
                                  memfd_create("log", MFD_CLOEXEC) };
    static const char said[] = "LLVM ERROR: out of memory\n";
    if (bytes_equal_text(job->source, "eats memory"))
        assert_int_equal(write(files.log_fd, said, sizeof(said)), sizeof(said));
    struct bytes order = order_of(job);
    if (send(socket_fd, order.data, order.size, MSG_NOSIGNAL) < 0) {
        close(files.object_fd);
        close(files.log_fd);
        return kiln_fail(err, KILN_UNAVAILABLE, "the compiler process is gone");
    }
    *ret_files = files;
    return KILN_OK;
}

enum kiln_code worker_receive(int socket_fd, enum worker_message *ret_message,
                              struct worker_result *ret_result, struct kiln_err *err)
{
    char answer[sizeof(last_answer)] = "";
    ssize_t got = recv(socket_fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return KILN_BUSY;
    if (got <= 0)
        return KILN_UNAVAILABLE;
    *ret_result = (struct worker_result){ .end = COMPILE_DONE, .sandbox = handshake };
    *ret_message = strcmp(answer, "ready") == 0 ? WORKER_READY : WORKER_RESULT;
    if (*ret_message == WORKER_READY)
        return KILN_OK;
    if (strcmp(answer, "done preparing") == 0)
        ret_result->end = warmup_end;
    else
        memcpy(last_answer, answer, sizeof(last_answer));
    if (strncmp(answer, "done", 4) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "not a message");
}

void worker_collect(struct worker_files *files, enum compile_end end, const char *text,
                    const struct worker_result *result, struct compile_result *ret_result)
{
    close(files->object_fd);
    close(files->log_fd);
    *ret_result = COMPILE_RESULT_INIT;
    ret_result->end = result ? result->end : end;
    if (ret_result->end != COMPILE_DONE)
        kiln_fail(&ret_result->err,
                  ret_result->end == COMPILE_UNAVAILABLE ? KILN_UNAVAILABLE : KILN_COMPILE_FAILED,
                  "%s", text);
}

static void on_done(struct compile_task *task)
{
    struct job *job = (struct job *)(void *)task;
    job->ended = true;
    memcpy(job->answer, last_answer, sizeof(job->answer));
}

struct job job_of(const char *program, enum compile_kind kind)
{
    struct job job = { .task.done = on_done };
    job.task.job.kind = kind;
    job.task.job.origin = COMPILE_OF_KILN;
    job.task.job.toolchain_id.bytes[0] = TOOLCHAIN_ID;
    job.task.job.program = bytes_of_text(program);
    job.task.job.target = bytes_of_text("gfx942");
    job.task.job.toolchain = bytes_of_text("hiprtc");
    return job;
}

struct job kernel(const char *program) { return job_of(program, COMPILE_KERNEL); }

struct job source(const char *program)
{
    struct job job = kernel(program);
    job.task.job.origin = COMPILE_OF_CLIENT;
    job.task.job.target_works = true;
    return job;
}

struct job source_for(const char *program, const char *toolchain)
{
    struct job job = source(program);
    job.task.job.toolchain = bytes_of_text(toolchain);
    return job;
}

void wait_for_job(struct fixture *f, const struct job *job) { LOOP_UNTIL(f->loop, job->ended); }

void wait_for_jobs(struct fixture *f, const struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wait_for_job(f, &jobs[i]);
}

struct compile_result *run_job(struct fixture *f, struct job *job)
{
    pool_compile(f->pool, &job->task);
    wait_for_job(f, job);
    return &job->task.result;
}

void expect_end(struct fixture *f, struct job job, enum compile_end end, const char *says)
{
    const struct compile_result *result = run_job(f, &job);
    assert_int_equal(result->end, end);
    if (end == COMPILE_UNAVAILABLE)
        assert_int_equal(result->err.code, KILN_UNAVAILABLE);
    assert_says(result->err.text, says);
}

void open_pool_fixture(struct fixture *f)
{
    *f = (struct fixture){ .directory = test_empty_directory(), .err = KILN_ERR_INIT };
    unsetenv("FAKE_WORKER");
    warmups = 0;
    refusal = 0;
    warmup_end = COMPILE_DONE;
    handshake = (struct sandbox_report){ .has = LAYERS_ALL, .landlock = 7 };
    f->loop = open_loop();
    f->work_queues = open_work_queues(f->loop, 2);
    f->options = (struct pool_options){
        .loop = f->loop,
        .work_queues = f->work_queues,
        .program = FAKE_WORKER,
        .temp_base = f->directory,
        .workers = 1,
        .limits = { .cpu_s = 77, .memory = 4ull << 30, .output = 1u << 20, .jobs = 100 },
        .timeout_ms = 60000,
        .grace_ms = 3600000,
    };
}

void start_pool(struct fixture *f)
{
    assert_int_equal(pool_create(&f->options, &f->pool, &f->err), KILN_OK);
}

void start_workers(struct fixture *f, unsigned workers)
{
    f->options.workers = workers;
    start_pool(f);
    wait_until_idle(f, workers);
}

void break_workers(const char *manner) { setenv("FAKE_WORKER", manner, 1); }

void wait_until_idle(struct fixture *f, unsigned workers)
{
    LOOP_UNTIL(f->loop, pool_counts(f->pool).idle >= workers);
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

void close_pool(struct fixture *f)
{
    pool_close(f->pool, on_closed, f);
    LOOP_TO_END(f->loop, "the pool to close");
    assert_true(f->closed);
}

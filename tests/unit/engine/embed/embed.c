/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/protocol/messages.h"
#include "engine/data/engine_data.h"
#include "engine/embed/embed.h"
#include "tests/support/child.h"
#include "tests/support/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENT (clock_monotonic_ns() + 60000000000ull) /* a missing reply fails the test */
#define SOON (clock_monotonic_ns() + 20000000ull)
#define PINGS 500
#define CHILD_S 60
#define TARGET "opencl:test"
#define DESCRIPTION                                                               \
    "{\"toolchains\":[{\"name\":\"opencl\",\"version\":\"test\",\"path\":\"/x\"," \
    "\"family\":\"opencl\",\"only_target\":\"" TARGET "\",\"identity\":"          \
    "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}"

struct fake_compiler {
    struct embed_compiler base; /* first member */
    struct compile_result *result;
    const struct compile_job *job;
    int wake_fd;
    atomic_bool may_end, stays_in_begin, is_in_begin;
    unsigned begun, stopped, forgotten;
};

static struct fake_compiler *fake_of(struct embed_compiler *base)
{
    return (struct fake_compiler *)base;
}

static void fake_begin(struct embed_compiler *base, const struct compile_job *job,
                       struct compile_result *result)
{
    struct fake_compiler *c = fake_of(base);
    c->begun++;
    c->job = job;
    c->result = result;
    atomic_store(&c->is_in_begin, true);
    WAIT_FOR(!atomic_load(&c->stays_in_begin));
}

static bool fake_wait(struct embed_compiler *base, uint64_t deadline_ns)
{
    struct fake_compiler *c = fake_of(base);
    struct kiln_err err = KILN_ERR_INIT;
    const char *text = c->job->kind == COMPILE_DESCRIBE ? DESCRIPTION : "object";
    uint64_t count;
    while (!atomic_load(&c->may_end)) {
        struct pollfd polled = { .fd = c->wake_fd, .events = POLLIN };
        if (poll(&polled, 1, 1) > 0 && read(c->wake_fd, &count, sizeof(count)) > 0)
            return false;
        if (clock_monotonic_ns() >= deadline_ns)
            return false;
    }
    *c->result = COMPILE_RESULT_INIT;
    c->result->end = COMPILE_DONE;
    must(fs_memfd("kiln-test", &c->result->object_fd, &err), err);
    must(fs_write_all(c->result->object_fd, bytes_of_text(text), &err), err);
    must(fs_seal(c->result->object_fd, &err), err);
    c->job = NULL;
    return true;
}

static void fake_wake(struct embed_compiler *base)
{
    const uint64_t one = 1;
    (void)!write(fake_of(base)->wake_fd, &one, sizeof(one));
}

static void fake_stop(struct embed_compiler *base)
{
    struct fake_compiler *c = fake_of(base);
    c->stopped++;
    if (!c->job)
        return;
    *c->result = COMPILE_RESULT_INIT;
    c->result->end = COMPILE_UNAVAILABLE;
    kiln_fail(&c->result->err, KILN_UNAVAILABLE, "stopped");
    c->job = NULL;
}

static void fake_forget(struct embed_compiler *base)
{
    struct fake_compiler *c = fake_of(base);
    c->forgotten++;
    c->job = NULL;
}

static const struct embed_compiler_ops fake_ops = { .begin = fake_begin,
                                                    .wait = fake_wait,
                                                    .wake = fake_wake,
                                                    .stop = fake_stop,
                                                    .forget = fake_forget };

struct fixture {
    struct fake_compiler compiler;
    struct embed_setup setup;
    struct transport *t; /* connected; the hello was answered */
    struct kiln_err err;
};

static const struct engine_data no_data;

static void send_request(struct transport *t, enum message_type type, uint64_t id,
                         struct bytes body)
{
    BUFFER_AUTO struct buffer frame;
    struct kiln_err err = KILN_ERR_INIT;
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = (uint16_t)type,
                                         .request_id = id,
                                         .body_size = (uint32_t)body.size };
    frame_header_write(raw, &header);
    buffer_init(&frame, 100000);
    buffer_put(&frame, raw, sizeof(raw));
    buffer_put(&frame, body.data, body.size);
    must(t->ops->send(t, buffer_view(&frame), &err), err);
}

static void send_ping(struct transport *t, uint64_t id, size_t size)
{
    static const uint8_t payload[4096];
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 10000);
    message_ping_write(&body, &(struct message_ping){ .payload = bytes_of(payload, size) });
    send_request(t, MESSAGE_ping, id, buffer_view(&body));
}

static void send_hello(struct transport *t)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    message_hello_write(&body, &(struct message_hello){ .oldest_version = FRAME_VERSION,
                                                        .newest_version = FRAME_VERSION,
                                                        .capabilities = CAPABILITIES_HERE });
    send_request(t, MESSAGE_hello, 1, buffer_view(&body));
}

static void send_fetch(struct transport *t, uint64_t id, const char *program)
{
    const struct message_fetch_source m = { .target = bytes_of_text(TARGET),
                                            .program = bytes_of_text(program),
                                            .source = bytes_of_text("kernel void k() {}") };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 10000);
    message_fetch_source_write(&body, &m);
    send_request(t, MESSAGE_fetch_source, id, buffer_view(&body));
}

static void expect_frame(struct transport *t, enum message_type type, uint64_t id)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct transport_frame frame;
    must(t->ops->receive(t, PATIENT, &frame, &err), err);
    assert_int_equal(frame.header.type, type);
    assert_int_equal(frame.header.request_id, id);
    transport_frame_done(&frame);
}

static struct transport *connect_and_greet(const struct embed_setup *setup)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct transport *t;
    must(embed_connect(setup, &t, &err), err);
    send_hello(t);
    expect_frame(t, MESSAGE_welcome, 1);
    return t;
}

static void open_fixture(struct fixture *f, bool compiles)
{
    f->compiler.base.ops = &fake_ops;
    f->compiler.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->setup =
        (struct embed_setup){ .data = &no_data, .compiler = compiles ? &f->compiler.base : NULL };
    f->t = connect_and_greet(&f->setup);
}

SET_UP(set_up) { open_fixture(f, /* compiles= */ false); }
SET_UP(set_up_compiler) { open_fixture(f, /* compiles= */ true); }

TEAR_DOWN(tear_down)
{
    transport_destroy(f->t);
    close(f->compiler.wake_fd);
}

FIXTURE(compiler, set_up_compiler, tear_down);

FIXTURE(embed, set_up, tear_down);

static atomic_size_t malloc_fails_from; /* bytes; 0: never */
WRAP(void *, malloc, size_t size)
{
    size_t from = atomic_load(&malloc_fails_from);
    return from && size >= from ? NULL : __real_malloc(size);
}

TEST_F(embed, replies_come_in_the_order_of_requests)
{
    for (uint64_t id = 2; id < 12; id++)
        send_ping(f->t, id, id);
    for (uint64_t id = 2; id < 12; id++)
        expect_frame(f->t, MESSAGE_pong, id);
}

TEST_F(embed, a_refused_request_is_answered_and_the_next_one_too)
{
    send_request(f->t, MESSAGE_ping, 2, bytes_of_text("no ping"));
    expect_frame(f->t, MESSAGE_error, 2);
    send_ping(f->t, 3, 0);
    expect_frame(f->t, MESSAGE_pong, 3);
}

TEST_F(embed, a_connection_without_hello_ends_once_the_reason_is_read)
{
    struct transport_frame frame;
    struct transport *t;
    must(embed_connect(&f->setup, &t, &f->err), f->err);
    send_ping(t, 2, 0);
    expect_frame(t, MESSAGE_error, 2);
    assert_int_equal(t->ops->receive(t, PATIENT, &frame, &f->err), KILN_UNAVAILABLE);
    transport_destroy(t);
}

TEST_F(embed, a_frame_with_a_wrong_size_is_refused)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = {
        .version = FRAME_VERSION, .type = MESSAGE_ping, .request_id = 2, .body_size = 10
    };
    frame_header_write(raw, &header);
    assert_int_equal(f->t->ops->send(f->t, bytes_of(raw, sizeof(raw)), &f->err), KILN_INVALID);
    assert_int_equal(f->t->ops->send(f->t, bytes_of(raw, 3), &f->err), KILN_INVALID);
}

TEST_F(embed, no_memory_for_a_reply_is_reported_to_its_reader)
{
    struct transport_frame frame;
    atomic_store(&malloc_fails_from, 4000); /* the request needs less than 4000 bytes */
    send_ping(f->t, 2, 4096);
    atomic_store(&malloc_fails_from, 0);
    assert_int_equal(f->t->ops->receive(f->t, PATIENT, &frame, &f->err), KILN_NO_MEMORY);
    transport_destroy(f->t);
    f->t = connect_and_greet(&f->setup);
}

TEST_F(embed, a_receive_without_a_reply_times_out)
{
    struct transport_frame frame;
    assert_int_equal(f->t->ops->receive(f->t, SOON, &frame, &f->err), KILN_TIMED_OUT);
    send_ping(f->t, 2, 0);
    expect_frame(f->t, MESSAGE_pong, 2);
}

static void *ping_often(void *context)
{
    const struct embed_setup *setup = context;
    struct transport *t = connect_and_greet(setup);
    for (uint64_t id = 2; id < PINGS; id++) {
        send_ping(t, id, id % 100);
        expect_frame(t, MESSAGE_pong, id);
    }
    transport_destroy(t);
    return NULL;
}

TEST_F(embed, two_threads_get_their_own_replies)
{
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, ping_often, &f->setup), 0);
    ping_often(&f->setup);
    await_thread(other, NULL);
}

static atomic_int receiver;

static void *receive_until_stopped(void *context)
{
    struct transport *t = context;
    struct kiln_err err = KILN_ERR_INIT;
    struct transport_frame frame;
    atomic_store(&receiver, gettid());
    return (void *)(intptr_t)t->ops->receive(t, PATIENT, &frame, &err);
}

static void check_stop(struct fixture *f)
{
    pthread_t other;
    void *rc;
    atomic_store(&receiver, 0);
    assert_int_equal(pthread_create(&other, NULL, receive_until_stopped, f->t), 0);
    WAIT_FOR(atomic_load(&receiver));
    await_sleep(atomic_load(&receiver));
    f->t->ops->stop(f->t);
    await_thread(other, &rc);
    assert_int_equal((intptr_t)rc, KILN_UNAVAILABLE);
}

TEST_F(embed, stop_ends_a_receive_of_another_thread) { check_stop(f); }

TEST_F(compiler, stop_ends_a_receive_that_waits_for_the_compiler)
{
    send_fetch(f->t, 2, "k.cl");
    check_stop(f);
}

TEST_F(compiler, other_requests_are_answered_during_a_compile)
{
    pthread_t waits;
    send_fetch(f->t, 2, "k.cl");
    assert_int_equal(pthread_create(&waits, NULL, receive_until_stopped, f->t), 0);
    ping_often(&f->setup);
    f->t->ops->stop(f->t);
    await_thread(waits, NULL);
}

TEST_F(compiler, a_compiled_kernel_comes_as_a_sealed_file)
{
    struct transport_frame frame;
    char content[16] = "";
    atomic_store(&f->compiler.may_end, true);
    send_fetch(f->t, 2, "k.cl");
    must(f->t->ops->receive(f->t, PATIENT, &frame, &f->err), f->err);
    assert_int_equal(frame.header.type, MESSAGE_kernels);
    assert_int_equal(frame.descriptor_count, 1);
    assert_int_equal(pread(frame.descriptors[0], content, sizeof(content), 0), 6);
    assert_string_equal(content, "object");
    assert_true(fcntl(frame.descriptors[0], F_GET_SEALS) & F_SEAL_WRITE);
    assert_true(fcntl(frame.descriptors[0], F_GETFD) & FD_CLOEXEC);
    transport_frame_done(&frame);
    /* two compiles: the probe of the toolchain, and the kernel */
    assert_int_equal(f->compiler.begun, 2);
}

TEST_F(compiler, a_compile_continues_after_a_time_out)
{
    struct transport_frame frame;
    send_fetch(f->t, 2, "k.cl");
    assert_int_equal(f->t->ops->receive(f->t, SOON, &frame, &f->err), KILN_TIMED_OUT);
    atomic_store(&f->compiler.may_end, true);
    expect_frame(f->t, MESSAGE_kernels, 2);
    assert_int_equal(f->compiler.begun, 2);
}

TEST_F(compiler, closing_stops_a_compile_that_has_an_unanswered_request)
{
    struct transport_frame frame;
    send_fetch(f->t, 2, "k.cl");
    assert_int_equal(f->t->ops->receive(f->t, SOON, &frame, &f->err), KILN_TIMED_OUT);
    transport_destroy(f->t);
    assert_true(f->compiler.stopped > 0);
    assert_null(f->compiler.job);
    f->t = connect_and_greet(&f->setup);
}

TEST_F(compiler, closing_drops_unread_replies)
{
    struct transport_frame frame;
    atomic_store(&f->compiler.may_end, true);
    send_fetch(f->t, 2, "k.cl");
    send_fetch(f->t, 3, "other.cl");
    send_ping(f->t, 4, 10);
    must(f->t->ops->receive(f->t, PATIENT, &frame, &f->err), f->err);
    transport_frame_done(&frame);
    transport_destroy(f->t);
    f->t = connect_and_greet(&f->setup);
}

static int wait_status(pid_t child)
{
    int status = await_child(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Uses the engine in a forked child. Returns 0, or the exit status that tells the parent which
 * step failed. */
static int use_in_child(struct fixture *f)
{
    struct transport_frame frame;
    struct transport *t;
    alarm(CHILD_S);
    if (f->t->ops->receive(f->t, PATIENT, &frame, &f->err) != KILN_UNAVAILABLE)
        return 1;
    if (!strstr(f->err.text, "before fork"))
        return 2;
    if (embed_connect(&f->setup, &t, &f->err))
        return 3;
    send_hello(t);
    if (t->ops->receive(t, PATIENT, &frame, &f->err) || frame.header.type != MESSAGE_welcome)
        return 4;
    transport_frame_done(&frame);
    transport_destroy(t);
    transport_destroy(f->t); /* a child only frees the parent's transport */
    return 0;
}

TEST_F(embed, a_forked_child_opens_its_own_engine)
{
    send_ping(f->t, 2, 10);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(f));
    assert_int_equal(wait_status(child), 0);
    expect_frame(f->t, MESSAGE_pong, 2);
}

/* If set, the next pthread_cond_init forks. A forked child calls pthread_cond_init while it
 * replaces the engine that it inherited. */
static struct fixture *forks_in_take_over;
static pid_t grandchild;

int __real_pthread_cond_init(pthread_cond_t *, const pthread_condattr_t *);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    struct fixture *f = forks_in_take_over;
    forks_in_take_over = NULL;
    grandchild = f ? fork() : grandchild;
    if (f && grandchild == 0)
        _exit(use_in_child(f));
    return __real_pthread_cond_init(cond, attributes);
}

static int fork_in_take_over(struct fixture *f)
{
    forks_in_take_over = f;
    int wrong = use_in_child(f);
    return wrong ? wrong : wait_status(grandchild);
}

TEST_F(embed, a_child_that_was_forked_during_a_take_over_opens_its_own_engine)
{
    pid_t child = fork();
    if (child == 0)
        _exit(fork_in_take_over(f));
    assert_int_equal(wait_status(child), 0);
}

TEST_F(compiler, a_forked_child_forgets_its_parents_compiler)
{
    struct transport_frame frame;
    send_fetch(f->t, 2, "k.cl");
    assert_int_equal(f->t->ops->receive(f->t, SOON, &frame, &f->err), KILN_TIMED_OUT);
    pid_t child = fork();
    if (child == 0) {
        int wrong = use_in_child(f);
        _exit(wrong ? wrong : f->compiler.forgotten == 1 ? 0 : 9);
    }
    assert_int_equal(wait_status(child), 0);
    atomic_store(&f->compiler.may_end, true);
    expect_frame(f->t, MESSAGE_kernels, 2);
}

/* Connects, which opens an engine. The engine begins its first compile when it opens. */
static void *open_once(void *context)
{
    struct fixture *f = context;
    f->t = connect_and_greet(&f->setup);
    return NULL;
}

static int connect_in_lost_child(const struct fixture *f)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct transport *t;
    alarm(CHILD_S);
    for (int i = 0; i < 2; i++) {
        if (embed_connect(&f->setup, &t, &err) != KILN_UNAVAILABLE)
            return 1;
        if (!strstr(err.text, "forked"))
            return 2;
    }
    return 0;
}

TEST_F(compiler, a_child_that_was_forked_while_a_thread_was_inside_is_reported)
{
    pthread_t inside;
    transport_destroy(f->t);
    atomic_store(&f->compiler.is_in_begin, false);
    atomic_store(&f->compiler.stays_in_begin, true);
    assert_int_equal(pthread_create(&inside, NULL, open_once, f), 0);
    WAIT_FOR(atomic_load(&f->compiler.is_in_begin));
    pid_t child = fork();
    if (child == 0)
        _exit(connect_in_lost_child(f));
    atomic_store(&f->compiler.stays_in_begin, false);
    await_thread(inside, NULL);
    assert_int_equal(wait_status(child), 0);
    send_ping(f->t, 3, 0);
    expect_frame(f->t, MESSAGE_pong, 3);
}

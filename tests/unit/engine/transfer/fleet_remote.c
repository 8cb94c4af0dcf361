/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/transfer/fleet_remote.h"
#include "engine/transfer/fleet_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_MAX 16
#define NAMES_MAX 128

/* |thread| acts as kiln-transfer: it receives |batch| requests, and then answers them in reverse
 * order. */
struct fixture {
    struct fleet_remote remote;
    int process;
    pthread_t thread;
    unsigned batch;
    void (*answer)(struct fixture *f, const struct fleet_request *request);
    struct fleet_request requests[REQUESTS_MAX];
    unsigned count; /* requests so far */
    char sent[64];  /* the content of the last file that was put */
    struct kiln_err err, thread_err;
};

static void answer(struct fixture *f, struct fleet_answer answer, const char *content)
{
    KILN_AUTO(fd) int fd = -1;
    answer.fd = -1;
    if (content) {
        must(fs_memfd("answer", &fd, &f->thread_err), f->thread_err);
        must(fs_write_all(fd, bytes_of_text(content), &f->thread_err), f->thread_err);
        answer.fd = fd;
    }
    must(fleet_send_answer(f->process, &answer, &f->thread_err), f->thread_err);
}

static enum kiln_code await_request(struct fixture *f, struct fleet_request *ret_request)
{
    struct pollfd readable = { .fd = f->process, .events = POLLIN };
    assert_int_equal(poll(&readable, 1, WAIT_MAX_S * 1000), 1);
    return fleet_receive_request(f->process, ret_request, &f->thread_err);
}

static void take_put(struct fixture *f, struct fleet_request *request)
{
    if (!request->is_put)
        return;
    ssize_t got = fs_read_at(request->fd, f->sent, sizeof(f->sent) - 1, 0);
    f->sent[got > 0 ? got : 0] = '\0';
    close(request->fd);
}

static void *run_process(void *fixture)
{
    struct fixture *f = fixture;
    for (;;) {
        unsigned first = f->count;
        for (unsigned i = 0; i < f->batch; i++) {
            assert_true(f->count < REQUESTS_MAX);
            if (await_request(f, &f->requests[f->count]))
                return NULL;
            take_put(f, &f->requests[f->count++]);
        }
        for (unsigned i = f->count; i > first; i--)
            f->answer(f, &f->requests[i - 1]);
    }
}

static void begin(struct fixture *f, unsigned batch,
                  void (*answers)(struct fixture *f, const struct fleet_request *request))
{
    f->batch = batch;
    f->answer = answers;
    assert_int_equal(pthread_create(&f->thread, NULL, run_process, f), 0);
}

SET_UP(set_up)
{
    struct fleet_setup setup;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->process = pair[1];
    must(fleet_remote_open(pair[0], "http://127.0.0.1/b/t", &f->remote, &f->err), f->err);
    must(fleet_receive_setup(f->process, &setup, &f->err), f->err);
    assert_string_equal(setup.url, "http://127.0.0.1/b/t");
}

TEAR_DOWN(tear_down)
{
    fleet_remote_close(&f->remote);
    if (f->batch)
        await_thread(f->thread, NULL);
    close(f->process);
}

FIXTURE(remote, set_up, tear_down);

static void answer_with_name(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id, .tag = "tag" }, request->name);
}

static void answer_absent(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id, .end = FLEET_END_ABSENT }, NULL);
}

static void answer_exists(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id, .end = FLEET_END_EXISTS }, NULL);
}

static void answer_done(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id }, NULL);
}

static void answer_another_id(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id + 1000 }, "content");
}

/* Answers that the last request succeeded, and that the store failed for the others. */
static void fail_all_but_the_last(struct fixture *f, const struct fleet_request *request)
{
    bool is_last = request == &f->requests[f->count - 1];
    answer(f,
           (struct fleet_answer){ .id = request->id,
                                  .end = is_last ? FLEET_END_DONE : FLEET_END_BROKEN },
           is_last ? "content" : NULL);
}

static void open_files(struct fleet_file *files, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        files[i] = (struct fleet_file){ .offset = 0 };
        snprintf(files[i].name, sizeof(files[i].name), "v1/k/%u", i);
        buffer_init(&files[i].content, 100);
    }
}

static void close_files(struct fleet_file *files, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buffer_done(&files[i].content);
}

static enum kiln_code read_files(struct fixture *f, struct fleet_file *files, unsigned count)
{
    struct fleet_store *store = &f->remote.store;
    open_files(files, count);
    return store->ops->read(store, files, count, &f->err);
}

TEST_F(remote, files_are_requested_together_and_may_come_in_any_order)
{
    struct fleet_file files[3];
    begin(f, 3, answer_with_name);
    for (unsigned round = 0; round < 2; round++) {
        must(read_files(f, files, 3), f->err);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(files[i].rc, KILN_OK);
            assert_true(bytes_equal_text(buffer_view(&files[i].content), files[i].name));
            assert_string_equal(files[i].tag, "tag");
        }
        close_files(files, 3);
    }
}

TEST_F(remote, an_absent_file_does_not_fail_the_others)
{
    struct fleet_file files[2];
    begin(f, 2, answer_absent);
    must(read_files(f, files, 2), f->err);
    assert_int_equal(files[0].rc, KILN_NOT_FOUND);
    close_files(files, 2);
}

TEST_F(remote, after_a_failure_of_the_store_the_next_request_gets_its_own_answer)
{
    struct fleet_file files[3];
    begin(f, 3, fail_all_but_the_last);
    assert_int_equal(read_files(f, files, 3), KILN_IO);
    close_files(files, 3);
    f->answer = answer_with_name;
    must(read_files(f, files, 3), f->err);
    assert_int_equal(files[1].rc, KILN_OK);
    close_files(files, 3);
}

TEST_F(remote, an_answer_that_was_not_asked_for_is_an_error)
{
    struct fleet_file file[1];
    begin(f, 1, answer_another_id);
    assert_int_equal(read_files(f, file, 1), KILN_CORRUPT);
    close_files(file, 1);
}

TEST_F(remote, an_answer_without_a_file_is_an_error_of_the_file)
{
    struct fleet_file file[1];
    begin(f, 1, answer_done);
    must(read_files(f, file, 1), f->err);
    assert_int_equal(file[0].rc, KILN_CORRUPT);
    close_files(file, 1);
}

TEST_F(remote, the_end_of_the_process_is_noticed)
{
    struct fleet_file file[1];
    assert_int_equal(shutdown(f->process, SHUT_RDWR), 0);
    assert_int_not_equal(read_files(f, file, 1), KILN_OK);
    close_files(file, 1);
}

TEST_F(remote, a_file_that_exists_is_added_already)
{
    struct fleet_store *store = &f->remote.store;
    bool added = true;
    begin(f, 1, answer_exists);
    must(store->ops->add(store, "v1/p/00.pack", bytes_of_text("pack"), &added, &f->err), f->err);
    assert_false(added);
    assert_string_equal(f->sent, "pack");
    assert_false(f->requests[0].is_replace);
}

TEST_F(remote, a_pointer_is_replaced_only_if_it_has_its_tag)
{
    struct fleet_store *store = &f->remote.store;
    struct fleet_file pointer = { .name = "v1/i/00/current", .tag = "tag" };
    begin(f, 1, answer_exists);
    assert_int_equal(store->ops->replace(store, &pointer, bytes_of_text("new"), &f->err),
                     KILN_BUSY);
    assert_true(f->requests[0].is_replace);
    assert_string_equal(f->requests[0].tag, "tag");
}

TEST_F(remote, a_pointer_that_did_not_exist_is_added)
{
    struct fleet_store *store = &f->remote.store;
    struct fleet_file pointer = { .name = "v1/i/00/current", .rc = KILN_NOT_FOUND };
    begin(f, 1, answer_done);
    must(store->ops->replace(store, &pointer, bytes_of_text("new"), &f->err), f->err);
    assert_false(f->requests[0].is_replace);
}

static void probe_with(struct fixture *f,
                       void (*answers)(struct fixture *f, const struct fleet_request *request),
                       bool expected)
{
    bool has_conditions = !expected;
    if (f->batch == 0)
        begin(f, 1, answers);
    f->answer = answers;
    must(fleet_remote_probe(&f->remote, &has_conditions, &f->err), f->err);
    assert_int_equal(has_conditions, expected);
}

TEST_F(remote, a_probe_finds_out_whether_the_store_honours_conditions)
{
    probe_with(f, answer_exists, true);
    probe_with(f, answer_absent, true);
    probe_with(f, answer_done, false);
}

static void answer_with_two_pages(struct fixture *f, const struct fleet_request *request)
{
    bool is_first = request->token[0] == '\0';
    struct fleet_answer one = { .id = request->id };
    snprintf(one.token, sizeof(one.token), "%s", is_first ? "next" : "");
    answer(f, one, is_first ? "a 10 1000\nb\n" : "c 7 18446744073709551615\n");
}

static void answer_with_damage(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id }, "a\nunfinished");
}

static enum kiln_code join_names(void *context, const struct fleet_listed *listed,
                                 struct kiln_err *err)
{
    char *names = context, *end = names + strlen(names);
    (void)err;
    if (listed->is_directory)
        snprintf(end, NAMES_MAX - strlen(names), "%s/", listed->name);
    else
        snprintf(end, NAMES_MAX - strlen(names), "%s:%llu:%llu ", listed->name,
                 (unsigned long long)listed->bytes, (unsigned long long)listed->modified);
    return KILN_OK;
}

TEST_F(remote, all_pages_of_a_list_are_read)
{
    struct fleet_store *store = &f->remote.store;
    char names[NAMES_MAX] = "";
    begin(f, 1, answer_with_two_pages);
    must(store->ops->list(store, "v1/k", join_names, names, &f->err), f->err);
    assert_string_equal(names, "a:10:1000 b/c:7:18446744073709551615 ");
    assert_string_equal(f->requests[1].token, "next");
}

TEST_F(remote, a_file_is_deleted)
{
    struct fleet_store *store = &f->remote.store;
    begin(f, 1, answer_done);
    must(store->ops->remove(store, "v1/k/00/00", &f->err), f->err);
    assert_true(f->requests[0].is_remove && !f->requests[0].is_put);
    assert_string_equal(f->requests[0].name, "v1/k/00/00");
    f->answer = answer_absent;
    must(store->ops->remove(store, "v1/k/00/00", &f->err), f->err);
}

static void answer_with_a_bad_size(struct fixture *f, const struct fleet_request *request)
{
    answer(f, (struct fleet_answer){ .id = request->id }, "a 1x 2\n");
}

TEST_F(remote, a_list_with_a_bad_number_is_an_error)
{
    struct fleet_store *store = &f->remote.store;
    char names[NAMES_MAX] = "";
    begin(f, 1, answer_with_a_bad_size);
    assert_int_equal(store->ops->list(store, "v1/k", join_names, names, &f->err), KILN_CORRUPT);
}

TEST_F(remote, a_damaged_list_is_an_error)
{
    struct fleet_store *store = &f->remote.store;
    char names[NAMES_MAX] = "";
    begin(f, 1, answer_with_damage);
    assert_int_equal(store->ops->list(store, "v1/k", join_names, names, &f->err), KILN_CORRUPT);
}

/* SPDX-License-Identifier: MIT */
/* Tests of administrative requests with files and progress reports. After each test, no
 * descriptor may be left open. */
#include "common/base/fs.h"
#include "tests/support/entries.h"
#include "tests/support/hostile_descriptors.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <fcntl.h>
#include <string.h>

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_admin_call call;
    char *json;
    int files[4], ret_files[4];
    size_t ret_file_count;
    unsigned reported;
    /* number of the progress report at which the callback ends the call; 0 means never */
    unsigned enough;
    unsigned descriptors;
    unsigned announced; /* number of files that the last request announced */
    char came[2][32];
    unsigned files_back;
    bool files_with_progress;
    /* a hostile descriptor that comes with the answer to kernel_export; 0 means none */
    int hostile;
};

static void note_files(struct fixture *f, const struct fake_request *rq)
{
    f->announced = rq->header.descriptors;
    for (unsigned i = 0; i < rq->file_count; i++) {
        ssize_t size = pread(rq->files[i], f->came[i], sizeof(f->came[i]) - 1, 0);
        f->came[i][size > 0 ? size : 0] = '\0';
    }
}

static void send_back(struct fake_request *rq, uint16_t flags, const char *json, unsigned count)
{
    int files[8];
    for (unsigned i = 0; i < count; i++)
        files[i] = fake_memfd(bytes_of(&"abcdefgh"[i], 1), true);
    fake_reply_files(rq, MESSAGE_json, flags, bytes_of_text(json),
                     (struct fake_files){ files, count });
    for (unsigned i = 0; i < count; i++)
        close(files[i]);
}

static void work(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    note_files(f, rq);
    for (unsigned i = 0; i < 3; i++)
        send_back(rq, FRAME_MORE, "{\"progress\":{}}", f->files_with_progress ? 1 : 0);
    send_back(rq, 0, "{\"done\":true}", f->files_back);
}

static void answer(struct fake_request *rq)
{
    switch (rq->header.type) {
    case MESSAGE_package_build: work(rq); break;
    case MESSAGE_package_install:
        fake_reply_error(rq, KILN_CORRUPT, "row 7 is damaged", NULL);
        break;
    case MESSAGE_kernel_export:
        if (((struct fixture *)rq->daemon->context)->hostile) {
            fake_reply_files(
                rq, MESSAGE_json, 0, bytes_of_text("{}"),
                (struct fake_files){ &((struct fixture *)rq->daemon->context)->hostile, 1 });
            break;
        }
        fake_reply(rq, MESSAGE_json, 0, bytes_of("a\0b", 3));
        break;
    case MESSAGE_kernel_import: break;
    case MESSAGE_package_verify: fake_hang_up(rq); break;
    default: fake_reply(rq, MESSAGE_json, 0, rq->body); break;
    }
}

static int count_progress(void *context, const char *json)
{
    struct fixture *f = context;
    assert_string_equal(json, "{\"progress\":{}}");
    f->reported++;
    return f->enough && f->reported >= f->enough;
}

SET_UP(set_up)
{
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
    f->call = (struct kiln_admin_call){
        .size = sizeof(f->call),
        .request = "package_build",
        .files = f->files,
        .progress = count_progress,
        .context = f,
        .ret_files = f->ret_files,
        .ret_files_max = 4,
        .ret_file_count = &f->ret_file_count,
    };
    f->descriptors = descriptor_count(getpid());
}

/* Closes the client's connections, and waits until the fake daemon's thread has closed its ends. */
static void let_the_daemon_go(struct fixture *f)
{
    kiln_client_close(KILN_TAKE(f->client));
    fake_daemon_kill(&f->daemon);
}

TEAR_DOWN(tear_down)
{
    kiln_free(f->json);
    let_the_daemon_go(f);
    assert_true(descriptor_count(getpid()) <= f->descriptors);
}

FIXTURE(admin_call, set_up, tear_down);

static int call(struct fixture *f)
{
    kiln_free(f->json);
    f->json = NULL;
    f->ret_file_count = 99;
    return kiln_admin_call(f->client, &f->call, &f->json, &f->err);
}

static char content_of(int fd)
{
    char byte = 0;
    assert_int_equal(pread(fd, &byte, 1, 0), 1);
    return byte;
}

TEST_F(admin_call, json_of_an_admin_call_travels_on_a_separate_connection)
{
    f->call.request = "gc";
    f->call.json = "{\"stale\":true}";
    must(call(f), f->err);
    assert_string_equal(f->json, "{\"stale\":true}");
    assert_int_equal(f->ret_file_count, 0);
    f->call.json = NULL;
    must(call(f), f->err);
    assert_string_equal(f->json, "{}");
    assert_int_equal(f->daemon.connections, 2);
}

TEST_F(admin_call, progress_comes_before_the_answer_and_may_be_left_out)
{
    must(call(f), f->err);
    /* The client merges reports that arrive together into the last one. */
    assert_true(f->reported >= 1 && f->reported <= 3);
    assert_string_equal(f->json, "{\"done\":true}");
    f->call.progress = NULL;
    must(call(f), f->err);
    assert_string_equal(f->json, "{\"done\":true}");
}

TEST_F(admin_call, files_go_with_the_request_and_stay_the_callers)
{
    f->files[0] = fake_memfd(bytes_of_text("a package"), true);
    f->files[1] = fake_memfd(bytes_of_text("its manifest"), true);
    for (size_t count = 0; count <= 2; count++) {
        f->call.file_count = count;
        memset(f->came, 0, sizeof(f->came));
        must(call(f), f->err);
        assert_int_equal(f->announced, count);
        assert_string_equal(f->came[0], count > 0 ? "a package" : "");
        assert_string_equal(f->came[1], count > 1 ? "its manifest" : "");
    }
    assert_int_equal(content_of(f->files[0]), 'a');
    close(f->files[0]);
    close(f->files[1]);
}

TEST_F(admin_call, a_large_request_is_sent_whole_with_its_file)
{
    static char json[3u << 20];
    memset(json, ' ', sizeof(json) - 1);
    json[0] = '{';
    json[1] = '}';
    f->files[0] = fake_memfd(bytes_of_text("file"), true);
    f->call.file_count = 1;
    f->call.json = json;
    f->call.request = "gc";
    must(call(f), f->err);
    assert_int_equal(strlen(f->json), sizeof(json) - 1);
    close(f->files[0]);
}

TEST_F(admin_call, files_come_back_with_the_answer_and_are_the_callers)
{
    f->files_back = 3;
    must(call(f), f->err);
    assert_int_equal(f->ret_file_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(content_of(f->ret_files[i]), "abc"[i]);
        assert_true(fcntl(f->ret_files[i], F_GETFD) & FD_CLOEXEC);
        close(f->ret_files[i]);
    }
}

TEST_F(admin_call, files_are_returned_without_a_place_for_their_number)
{
    f->files_back = 1;
    f->call.ret_file_count = NULL;
    must(call(f), f->err);
    assert_int_equal(content_of(f->ret_files[0]), 'a');
    close(f->ret_files[0]);
}

TEST_F(admin_call, more_files_than_the_caller_takes_are_an_error_and_closed)
{
    f->files_back = 5;
    assert_int_equal(call(f), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_admin_call.ret_files");
    assert_null(f->json);
    f->call.ret_files = NULL;
    f->call.ret_files_max = 0;
    f->files_back = 1;
    assert_int_equal(call(f), KILN_E_INVALID);
}

TEST_F(admin_call, an_answer_with_a_file_that_is_not_regular_is_refused_and_closed)
{
    f->call.request = "kernel_export";
    for (size_t i = 0; i < hostile_descriptor_count; i++) {
        f->hostile = hostile_descriptors[i].open();
        if (hostile_descriptors[i].is_regular || f->hostile < 0) {
            close(f->hostile);
            continue;
        }
        if (call(f) != KILN_E_CORRUPT)
            fail_msg("%s is taken for a file", hostile_descriptors[i].name);
        assert_says(f->err.text, "regular file");
        assert_null(f->json);
        close(f->hostile);
    }
}

TEST_F(admin_call, files_that_come_with_progress_are_closed)
{
    f->files_with_progress = true;
    must(call(f), f->err);
    assert_int_equal(f->ret_file_count, 0);
}

TEST_F(admin_call, a_caller_can_end_an_admin_call)
{
    f->enough = 1;
    f->files_back = 2;
    assert_int_equal(call(f), KILN_E_CANCELLED);
    assert_int_equal(f->reported, 1);
    assert_null(f->json);
}

TEST_F(admin_call, a_refusal_keeps_its_code_and_message)
{
    f->call.request = "package_install";
    assert_int_equal(call(f), KILN_E_CORRUPT);
    assert_says(f->err.text, "row 7");
    assert_int_equal(f->daemon.requests, 1);
}

TEST_F(admin_call, an_answer_that_is_no_json_is_an_error)
{
    f->call.request = "kernel_export";
    assert_int_equal(call(f), KILN_E_CORRUPT);
    assert_null(f->json);
}

TEST_F(admin_call, an_admin_call_ends_when_its_time_is_over)
{
    f->call.request = "kernel_import";
    f->call.timeout_ms = 30;
    assert_int_equal(call(f), KILN_E_TIMED_OUT);
}

TEST_F(admin_call, an_admin_call_fails_with_the_daemon_and_is_not_repeated)
{
    f->call.request = "package_verify";
    f->call.timeout_ms = -1;
    assert_int_equal(call(f), KILN_E_UNAVAILABLE);
    assert_int_equal(f->daemon.requests, 1);
    fake_daemon_kill(&f->daemon);
    assert_int_equal(call(f), KILN_E_UNAVAILABLE);
}

TEST_F(admin_call, a_descriptor_that_is_not_open_is_refused_at_once)
{
    f->files[0] = -1;
    f->call.file_count = 1;
    f->call.timeout_ms = -1; /* a call that retried would never end */
    assert_int_equal(call(f), KILN_E_INVALID);
    assert_says(f->err.text, "not open");
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(admin_call, invalid_admin_calls_are_refused_before_connecting)
{
    const struct kiln_admin_call good = f->call;
    assert_int_equal(kiln_admin_call(f->client, NULL, &f->json, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_admin_call(f->client, &good, NULL, &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_admin_call(NULL, &good, &f->json, &f->err), KILN_E_INVALID);
    f->call.size = 0;
    assert_int_equal(call(f), KILN_E_INVALID);
    f->call = good;
    f->call.file_count = 3;
    assert_int_equal(call(f), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_admin_call.files");
    f->call.file_count = 1;
    f->call.files = NULL;
    assert_int_equal(call(f), KILN_E_INVALID);
    f->call = good;
    f->call.ret_files = NULL;
    assert_int_equal(call(f), KILN_E_INVALID);
    f->call = good;
    static const char *const requests[] = { NULL, "", "fetch", "plan", "events", "no_such" };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        f->call.request = requests[i];
        assert_int_equal(call(f), KILN_E_INVALID);
    }
    assert_int_equal(f->daemon.connections, 0);
}

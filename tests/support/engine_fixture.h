/* SPDX-License-Identifier: MIT */
#pragma once

/* An engine on a temporary directory with a fake executor: compiles and transfers end only when
 * the test ends them. Callers keep every reply for the test. */
#include "engine/engine.h"
#include "engine/service/service.h"
#include "tests/support/fake_executor.h"
#include "tests/support/test.h"

#define FIXTURE_TARGET "opencl:test"
#define REPLIES_KEPT 64
#define REPORTS_KEPT 32

struct kept_reply {
    enum message_type type;
    uint64_t request_id;
    uint16_t flags;
    struct bytes body; /* owned */
    size_t object_count;
    struct object **objects; /* the array and a reference to each object are owned */
    uint64_t first_object_size;
};

struct test_caller {
    struct caller base; /* first member */
    /* borrowed; NULL when the caller is not connected to the engine */
    struct engine_fixture *fixture;
    struct kept_reply replies[REPLIES_KEPT];
    size_t reply_count;
    /* number of imports' progress replies, which are not kept because their number depends on
     * time */
    size_t import_progress_count;
};

struct kept_report {
    char event[32];
    char text[512];
    bool trouble;
};

struct engine_fixture {
    struct fake_executor executor;
    struct engine_host host;
    struct engine_options options; /* for the next engine_fixture_start; the test may change them */
    struct engine *engine;
    /* the engine's first REPORTS_KEPT reports to the operator */
    struct kept_report reports[REPORTS_KEPT];
    size_t report_count;
    const char *directory; /* contains the four directories below and the store */
    const char *packages, *keys;
    const char *state; /* directory of tuning.db */
    const char *gpus;  /* read instead of sysfs's topology of GPUs */
    struct kiln_err err;
};

/* Opens an engine, which is stopped at the end of the test. If |describe| is true, the engine
 * knows one toolchain: "opencl" for FIXTURE_TARGET. */
void engine_fixture_open(struct engine_fixture *f, bool describe);
/* Stop and start the engine on the same store. Compiles that are still running fail. */
void engine_fixture_stop(struct engine_fixture *f);
void engine_fixture_start(struct engine_fixture *f, bool describe);
/* Ends the pending describe job, whose result is one toolchain: "opencl" for FIXTURE_TARGET. */
void engine_fixture_describe(struct engine_fixture *f);
/* Ends the pending describe job with the result |json|. Fails the test if none is pending. */
void engine_fixture_describe_as(struct engine_fixture *f, const char *json);
/* Returns the text of the last report |event|, or NULL. */
const char *engine_fixture_reported(const struct engine_fixture *f, const char *event);
void engine_fixture_rescan(struct engine_fixture *f);
unsigned engine_fixture_staged(const struct engine_fixture *f);
/* Returns the number |name| of the engine's answer to "stats", such as "compiles" or "hits.hot". */
uint64_t engine_fixture_stat(struct engine_fixture *f, const char *name);

/* Connects |c| without the hello request. */
void test_caller_join(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role);
void test_caller_connect(struct test_caller *c, struct engine_fixture *f, uid_t uid,
                         enum role role);
void test_caller_leave(struct test_caller *c);
void test_caller_forget_replies(struct test_caller *c);

void test_caller_send(struct test_caller *c, enum message_type type, uint64_t id,
                      struct bytes body);
enum kiln_code test_caller_try_send(struct test_caller *c, enum message_type type, uint64_t id,
                                    struct bytes body);
/* Sends request 3 with descriptors. Afterwards closes those that the engine has not taken over. */
void test_caller_send_files(struct test_caller *c, enum message_type type, const char *json,
                            const int *files, unsigned file_count);
#define SEND_MESSAGE(c, name, id, m)                                           \
    do {                                                                       \
        BUFFER_AUTO struct buffer send_body_;                                  \
        buffer_init(&send_body_, LIMIT_FRAME_BODY);                            \
        message_##name##_write(&send_body_, (m));                              \
        assert_false(send_body_.failed);                                       \
        test_caller_send((c), MESSAGE_##name, (id), buffer_view(&send_body_)); \
    } while (0)

/* Appends |m|, a struct message_<name>, to a batch as an item of the kind |item_kind|. */
#define PUT_BATCH_ITEM(items, item_kind, name, m)                                              \
    do {                                                                                       \
        BUFFER_AUTO struct buffer put_request_;                                                \
        buffer_init(&put_request_, LIMIT_FRAME_BODY);                                          \
        message_##name##_write(&put_request_, (m));                                            \
        const struct message_batch_item put_item_ = { .kind = (item_kind),                     \
                                                      .request = buffer_view(&put_request_) }; \
        message_batch_item_write((items), &put_item_);                                         \
    } while (0)

/* Forgets earlier replies, sends a JSON request, and runs the tasks that it adds. Returns the
 * last reply, which must not be an error. |json| may be NULL. The caller owns the result. */
struct json *test_caller_ask(struct test_caller *c, enum message_type type, const char *json);
/* Sends a request, which must fail with |code| and a message that contains |words|. */
void test_caller_refused(struct test_caller *c, enum message_type type, const char *json,
                         enum kiln_code code, const char *words);
/* Returns the value of |series|, a metric's name with its labels. Fails the test if there is no
 * such series. */
uint64_t test_caller_metric(struct test_caller *c, const char *series);
void test_caller_cancel(struct test_caller *c, uint64_t id);
/* Sends a fetch_name request and runs the tasks that it adds. The last reply is the answer. */
void test_caller_fetch_name(struct test_caller *c, const char *database_id, const char *name,
                            const char *args);
void test_caller_fetch_source(struct test_caller *c, uint64_t id, const char *program,
                              enum priority priority);

/* Return the |index|-th reply as a single result, as an error, or as JSON, which the caller
 * owns. */
struct message_result reply_result(const struct test_caller *c, size_t index);
struct message_error reply_error(const struct test_caller *c, size_t index);
struct json *reply_json(const struct test_caller *c, size_t index);
struct message_result last_result(const struct test_caller *c);
/* Fails the test unless the |index|-th reply is an error with |code| whose message contains
 * |words|. */
void assert_reply_refuses(const struct test_caller *c, size_t index, enum kiln_code code,
                          const char *words);
/* Appends the content of the object |number| of reply |index| to |ret_content|. */
void reply_object(const struct test_caller *c, size_t index, size_t number,
                  struct buffer *ret_content);

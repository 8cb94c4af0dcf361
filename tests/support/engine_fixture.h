/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine with a store in a temporary directory, compilers and transfers that wait to be told,
 * and callers that keep every reply.
 *
 * Ownership  a kept reply and its objects are the caller's until test_caller_forget_replies
 */
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
    struct object **objects; /* owned, and a reference to each */
    uint64_t first_object_size;
};

struct test_caller {
    struct caller base; /* first member */
    struct kept_reply replies[REPLIES_KEPT];
    size_t reply_count;
};

struct kept_report {
    char event[32];
    char text[512];
    bool trouble;
};

struct engine_fixture {
    struct fake_executor executor;
    struct engine_host host;
    struct engine_options options; /* what a reopening takes; a test may change some */
    struct engine *engine;
    struct kept_report reports[REPORTS_KEPT]; /* to the operator: the first ones */
    size_t report_count;
    char directory[64];
    char packages[80]; /* in it: of installed packages */
    char keys[80];     /* in it: of trusted keys */
    char state[80];    /* in it: the state directory, with tuning.db */
    char gpus[80];     /* in it: what the engine takes for the topology of GPUs */
    struct kiln_err err;
};

/* Opens an engine; with |describe| it already knows one toolchain, "opencl" for FIXTURE_TARGET. */
void engine_fixture_open(struct engine_fixture *f, bool describe);
/* Closes and opens again over the same store. */
void engine_fixture_reopen(struct engine_fixture *f);
void engine_fixture_close(struct engine_fixture *f);
/* Answers the describe that is under way with one toolchain. */
void engine_fixture_describe(struct engine_fixture *f);
/* The same with any text; fails the test when none is under way. */
void engine_fixture_describe_as(struct engine_fixture *f, const char *json);
/* What the operator was told last of |event|; NULL: nothing. */
const char *engine_fixture_reported(const struct engine_fixture *f, const char *event);
/* Looks at the package directories at once, whenever it was done last. */
void engine_fixture_rescan(struct engine_fixture *f);
/* How many files lie in the staging directory. */
unsigned engine_fixture_staged(const struct engine_fixture *f);

void test_caller_join(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role);
void test_caller_leave(struct test_caller *c, struct engine_fixture *f);
/* Sends one request; what service_handle returns. */
enum kiln_code test_caller_send(struct test_caller *c, struct engine_fixture *f,
                                enum message_type type, uint64_t id, struct bytes body);
/* The same with descriptors, which are taken over. */
enum kiln_code test_caller_send_files(struct test_caller *c, struct engine_fixture *f,
                                      enum message_type type, uint64_t id, struct bytes body,
                                      const int *files, unsigned file_count);
/* Forgets the replies so far, sends a JSON request and runs what it leads to; what came last, which
 * must not be an error.  |json| may be NULL. */
struct json *test_caller_ask(struct test_caller *c, struct engine_fixture *f,
                             enum message_type type, const char *json);
/* The same for a question that must be refused with |code|, in a sentence that has |words|. */
void test_caller_refused(struct test_caller *c, struct engine_fixture *f, enum message_type type,
                         const char *json, enum kiln_code code, const char *words);
/* What metrics say of |series|, its labels with it, which must be there. */
uint64_t test_caller_metric(struct test_caller *c, struct engine_fixture *f, const char *series);
enum kiln_code test_caller_hello(struct test_caller *c, struct engine_fixture *f);
/* As a user cancels request |id|. */
void test_caller_cancel(struct test_caller *c, struct engine_fixture *f, uint64_t id);
/* A fetch_name; its answer is the last reply. */
void test_caller_want_named(struct test_caller *c, struct engine_fixture *f,
                            const char *database_id, const char *name, const char *args);
void test_caller_forget_replies(struct test_caller *c);
/* A fetch_source of program |program| for FIXTURE_TARGET. */
void test_caller_want(struct test_caller *c, struct engine_fixture *f, uint64_t id,
                      const char *program, enum priority priority);

/* The |index|-th reply as an outcome list of one, as an error, or as JSON (the caller's). */
struct message_result reply_result(const struct test_caller *c, size_t index);
struct message_error reply_error(const struct test_caller *c, size_t index);
struct json *reply_json(const struct test_caller *c, size_t index);
/* The last one, as an outcome. */
struct message_result last_result(const struct test_caller *c);
/* The |index|-th reply must be an error with |code|, in a sentence that has |words|. */
void assert_reply_refuses(const struct test_caller *c, size_t index, enum kiln_code code,
                          const char *words);
/* Bytes of a kept reply's |number|-th object, appended. */
void reply_object(const struct test_caller *c, size_t index, size_t number,
                  struct buffer *ret_content);
/* "stats" of the engine, one number; hits as "hits.hot". */
uint64_t engine_fixture_stat(struct engine_fixture *f, const char *name);

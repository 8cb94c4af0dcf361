/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine with a store in a temporary folder, compilers that wait to be told, and callers that
 * keep every reply.
 */
#include "engine/engine.h"
#include "engine/service/service.h"
#include "tests/support/fake_executor.h"
#include "tests/support/test.h"

#define FIXTURE_TARGET "opencl:test"
#define REPLIES_KEPT 64

struct kept_reply {
    enum message_type type;
    uint64_t request_id;
    uint16_t flags;
    struct bytes body; /* owned */
    size_t object_count;
    uint64_t first_object_size;
};

struct test_caller {
    struct caller base; /* first member */
    struct kept_reply replies[REPLIES_KEPT];
    size_t reply_count;
};

struct engine_fixture {
    struct fake_executor executor;
    struct engine *engine;
    char folder[64];
    struct kiln_err err;
};

/* Opens an engine; with |describe| it already knows one toolchain, "opencl" for FIXTURE_TARGET. */
void engine_fixture_open(struct engine_fixture *f, bool describe);
/* Closes and opens again over the same store. */
void engine_fixture_reopen(struct engine_fixture *f);
void engine_fixture_close(struct engine_fixture *f);
/* Answers the describe that is under way with one toolchain. */
void engine_fixture_describe(struct engine_fixture *f);

void test_caller_join(struct test_caller *c, struct engine_fixture *f, uid_t uid, enum role role);
void test_caller_leave(struct test_caller *c, struct engine_fixture *f);
/* Sends one request; what service_handle returns. */
enum kiln_code test_caller_send(struct test_caller *c, struct engine_fixture *f,
                                enum message_type type, uint64_t id, struct bytes body);
enum kiln_code test_caller_hello(struct test_caller *c, struct engine_fixture *f);
void test_caller_forget_replies(struct test_caller *c);
/* A fetch_source of program |program| for FIXTURE_TARGET. */
void test_caller_want(struct test_caller *c, struct engine_fixture *f, uint64_t id,
                      const char *program, enum priority priority);

/* The |index|-th reply as an outcome list of one, or as an error. */
struct message_outcome reply_outcome(const struct test_caller *c, size_t index);
struct message_error reply_error(const struct test_caller *c, size_t index);
/* "stats" of the engine, one number; hits as "hits.hot". */
uint64_t engine_fixture_stat(struct engine_fixture *f, const char *name);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Messages: structs and codecs generated from common/protocol/messages.def.
 *
 * For each binary message and record NAME there is
 *     struct message_NAME                 its fields; BYTES fields borrow
 *     void message_NAME_write(struct buffer *, const struct message_NAME *)
 *     struct message_NAME message_NAME_read(struct reader *)
 * A failed read (a short body, or bytes left over at its end) sets reader.failed;
 * message_body_check() turns that into an error.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/protocol/frame.h"
#include "common/protocol/problem.h"

enum message_type {
#define KILN_REQUEST(name, number, role, body, purpose) MESSAGE_##name = (number),
#define KILN_REPLY(name, number, body, purpose) MESSAGE_##name = (number),
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};

/* Where kilnd found a kernel.  TIER_COMPILED: nowhere, so kilnd compiled the kernel. */
enum tier { TIER_NONE, TIER_HOT, TIER_DISK, TIER_PACKAGE, TIER_FLEET, TIER_COMPILED };
const char *tier_name(enum tier tier); /* "hot", "disk", ... */

enum role { ROLE_USE, ROLE_PUBLISH, ROLE_ADMIN };

enum priority { PRIORITY_INTERACTIVE, PRIORITY_PREFETCH };

/* The value that an argument of a planned kernel gets at launch. */
enum argument_kind {
    ARGUMENT_X,          /* device address of x, plus |value| bytes */
    ARGUMENT_W,          /* device address of w, plus |value| bytes */
    ARGUMENT_Y,          /* device address of y, plus |value| bytes */
    ARGUMENT_WORKSPACE,  /* device address of the workspace, plus |value| bytes */
    ARGUMENT_U32,        /* the low 32 bits of |value| */
    ARGUMENT_U64,        /* |value| */
    ARGUMENT_F32,        /* the low 32 bits of |value|, which are a float */
    ARGUMENT_TENSOR_MAP, /* a tensor map, encoded at launch; stored after the arguments */
};

#define SOLUTION_FAVOURED 1u  /* the heuristic expects the solver to be the fastest */
#define SOLUTION_ESTIMATED 2u /* |valid| is extrapolated from a sample */

/* What determined a plan's solver and perf config. */
enum plan_source {
    PLAN_SOURCE_FORCED, /* the client specified solver and perf config */
    /* the client or the heuristic chose the solver; a perf record has its perf config */
    PLAN_SOURCE_PERF,
    /* a find record chose the solver; a perf record has the perf config, if there is one */
    PLAN_SOURCE_FIND,
    PLAN_SOURCE_HEURISTIC, /* no record applied */
    PLAN_SOURCE_NEAREST,   /* the records of a similar problem */
    PLAN_SOURCE_GENERIC,   /* generic kernels were stored, those of the chosen plan were not */
};

#define NO_DESCRIPTOR 0xffffu
#define FETCH_NO_OBJECT 1u /* compile and store the object, but do not send it */
#define FETCH_NO_CACHE 2u  /* compile the kernel: use nothing that is stored, and store nothing */
#define PLAN_HEURISTIC 4u  /* for plan: ignore all records */
/* for plan: if the problem has no find record, use the records of a similar problem */
#define PLAN_NEAREST 8u
/* for plan: if kernels of the chosen plan are not stored, but generic ones are, use the latter */
#define PLAN_GENERIC 16u
/* for plan: do not look for kernels in packages by their names, which contain no compiler */
#define PLAN_NO_PACKAGES 32u

#define TUNING_NEAREST 1u      /* if there is no record, return one of a similar problem */
#define TUNING_MEASUREMENTS 2u /* also return who measured each entry, where and when */
/* in an answer: the record was measured with another driver or toolchain */
#define TUNING_STALE 1u
/* in an answer: the record is of a problem with another batch or spatial size */
#define TUNING_NEAR 2u
/* bytes of the token by which kilnd recognises a tuning_put that the client sends again */
#define TUNING_TOKEN_SIZE 16u
#define TUNING_WATCH_SIZE 4096u /* bytes of the file of a counter (tuning_watch) */

/* Flags of tuning_lease.  A lease is the right to tune a problem.  A share is a range of the
 * candidates. */
#define LEASE_SHARE 1u /* take a share of a search that has begun */
#define LEASE_WAIT 2u  /* if nothing can be granted now, delay the answer */
#define LEASE_MORE 4u  /* grant a share in addition to those that the connection holds */

enum lease_result {
    LEASE_RESULT_GRANTED, /* measure the share, then report it */
    /* other clients still measure; use the recorded result until they are done */
    LEASE_RESULT_TAKEN,
    LEASE_RESULT_DONE, /* every candidate was measured; the best is recorded, if any could run */
};

/* A flag of compile_begin: the request's |program| is set. kilnd then looks for a result under
 * |program| first, and under |key| if there is none. */
#define COMPILE_OR_PROGRAM 1u
/* The key under which kilnd found the result: |key| or |program| of compile_begin.  The answer to
 * compile_begin has this value as its index. */
enum compile_answer {
    COMPILE_ANSWER_OWN,
    COMPILE_ANSWER_PROGRAM,
};

/* What a compile_end stores.  Only libkiln-rtc reads the content. */
enum compile_part {
    COMPILE_PART_RESULT, /* all that the compiler returned */
    COMPILE_PART_FILES,  /* lists of the files that the compile reads; under a separate key */
    COMPILE_PART_MARK,   /* a mark that the compile has ended; under a separate key */
    COMPILE_PARTS
};

/* Capabilities, exchanged in hello.  Client and kilnd may use a capability once both have set its
 * bit. */
#define CAPABILITY_INLINE 1u      /* small objects may come inside the frame */
#define CAPABILITY_TENSOR_MAPS 2u /* set by a client that can encode the tensor maps of a plan */
#define CAPABILITIES_HERE (CAPABILITY_INLINE | CAPABILITY_TENSOR_MAPS)

#define MESSAGE_C_U8 uint8_t
#define MESSAGE_C_U16 uint16_t
#define MESSAGE_C_U32 uint32_t
#define MESSAGE_C_U64 uint64_t
#define MESSAGE_C_DIGEST struct digest
#define MESSAGE_C_PROBLEM struct problem
#define MESSAGE_C_BYTES struct bytes

#define MESSAGE_FIELD(TYPE, field) MESSAGE_C_##TYPE field;
#define MESSAGE_DECLARE(name)                                                      \
    struct message_##name {                                                        \
        KILN_FIELDS_##name(MESSAGE_FIELD)                                          \
    };                                                                             \
    void message_##name##_write(struct buffer *b, const struct message_##name *m); \
    struct message_##name message_##name##_read(struct reader *r);

#define MESSAGE_DECLARE_BINARY(name) MESSAGE_DECLARE(name)
#define MESSAGE_DECLARE_JSON(name)
#define MESSAGE_DECLARE_BINARY_FILES(name) MESSAGE_DECLARE(name)
#define MESSAGE_DECLARE_JSON_FILES(name)
#define KILN_REQUEST(name, number, role, body, purpose) MESSAGE_DECLARE_##body(name)
#define KILN_REPLY(name, number, body, purpose) MESSAGE_DECLARE_##body(name)
#include "common/protocol/messages.def"
KILN_RECORDS(MESSAGE_DECLARE)
#undef KILN_REQUEST
#undef KILN_REPLY

const char *message_name(unsigned type);

/* Checks that message_X_read() read exactly the whole body.  Returns KILN_INVALID, with the
 * message's name, if the body was shorter or longer than its fields. */
KILN_MUST_CHECK enum kiln_code message_body_check(const struct reader *r, unsigned type,
                                                  struct kiln_err *err);

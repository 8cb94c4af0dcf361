/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Messages: structs and codecs made from common/messages.def.
 *
 * For each binary message and record NAME there is
 *     struct message_NAME                 its fields; BYTES fields borrow
 *     void message_NAME_write(struct buffer *, const struct message_NAME *)
 *     struct message_NAME message_NAME_read(struct reader *)
 * A read that fails (short, or with bytes left over at the end of a body) is seen in
 * reader.failed; message_body_check() turns that into a sentence.
 */
#include "common/bytes.h"
#include "common/digest.h"
#include "common/err.h"
#include "common/frame.h"
#include "common/problem.h"

enum message_type {
#define KILN_REQUEST(name, number, who, body, purpose) MESSAGE_##name = (number),
#define KILN_REPLY(name, number, body, purpose) MESSAGE_##name = (number),
#include "common/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};

/* 4 is reserved: a store of other hosts. */
enum tier { TIER_NONE, TIER_HOT, TIER_DISK, TIER_PACKAGE, TIER_COMPILED = 5 };
const char *tier_name(enum tier tier); /* "hot", "disk", ... */

enum role { ROLE_USE, ROLE_PUBLISH, ROLE_ADMIN };

enum priority { PRIORITY_INTERACTIVE, PRIORITY_PREFETCH };

/* What an argument of a planned kernel is filled with at launch. */
enum argument_kind {
    ARGUMENT_X,          /* device pointer of x, plus value bytes */
    ARGUMENT_W,          /* of w */
    ARGUMENT_Y,          /* of y */
    ARGUMENT_WORKSPACE,  /* of the workspace */
    ARGUMENT_U32,        /* the low 32 bits of value */
    ARGUMENT_U64,        /* value */
    ARGUMENT_F32,        /* the low 32 bits of value are a float's */
    ARGUMENT_TENSOR_MAP, /* a tensor map, encoded at launch; plans hold it behind the arguments */
};

#define SOLUTION_FAVOURED 1u  /* likely the fastest, where nothing was measured */
#define SOLUTION_ESTIMATED 2u /* its |valid| is not a count, but from a sample */

/* What decided on a plan's solver and perf config. */
enum plan_source {
    PLAN_SOURCE_FORCED, /* the asker named both */
    PLAN_SOURCE_PERF,   /* the asker or the heuristic chose the solver, a perf record its config */
    PLAN_SOURCE_FIND,   /* the fastest of a find record, with its perf record's config, if any */
    PLAN_SOURCE_HEURISTIC, /* nothing recorded was of use for the choice */
};

#define NO_DESCRIPTOR 0xffffu
#define FETCH_NO_OBJECT 1u /* make it be there, send nothing */
#define FETCH_NO_CACHE 2u  /* compile it: nothing stored is used, nothing is stored */
#define PLAN_HEURISTIC 4u  /* of plan: as if nothing were recorded */

#define TUNING_NEAREST 1u      /* of tuning_get: else a neighbour, see the ratios */
#define TUNING_MEASUREMENTS 2u /* with who measured each entry, where and when */
#define TUNING_STALE 1u        /* of an answer: by another driver or toolchain than the asker's */
#define TUNING_NEAR 2u         /* it is another problem's: of another batch or spatial size */
#define TUNING_TOKEN_SIZE 16u  /* bytes: tells a tuning_put that comes again from another one */
#define LEASE_SHARE 1u         /* of tuning_lease: take a share where somebody has begun */
#define LEASE_WAIT 2u          /* where nothing is to be had now, answer later */

enum lease_result {
    LEASE_RESULT_GRANTED, /* measure the share, then report */
    LEASE_RESULT_TAKEN,   /* others tune it, and no share is left: what is known may be asked for */
    LEASE_RESULT_DONE,    /* every candidate was measured; the best is recorded, where one ran */
};

/* Capabilities, exchanged in hello: bits that either side may rely on once both have them. */
#define CAPABILITY_INLINE 1u      /* small objects may come inside the frame */
#define CAPABILITY_TENSOR_MAPS 2u /* of a client: it can encode the tensor maps of a plan */
#define CAPABILITIES_HERE (CAPABILITY_INLINE | CAPABILITY_TENSOR_MAPS)

/* C types of the table's field types. */
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
#define MESSAGE_DECLARE_JSON_FILES(name)
#define KILN_REQUEST(name, number, who, body, purpose) MESSAGE_DECLARE_##body(name)
#define KILN_REPLY(name, number, body, purpose) MESSAGE_DECLARE_##body(name)
#include "common/messages.def"
KILN_RECORDS(MESSAGE_DECLARE)
#undef KILN_REQUEST
#undef KILN_REPLY

/* The message's name ("fetch"), or "?" for a number that is not in the table. */
const char *message_name(unsigned type);

/* Call after message_X_read() of a whole body: KILN_INVALID with the message's name when the
 * body was short or longer than its fields. */
KILN_MUST_CHECK enum kiln_code message_body_check(const struct reader *r, unsigned type,
                                                  struct kiln_err *err);

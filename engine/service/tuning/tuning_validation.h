/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What requests about tuning say, checked and copied: ids, origins, figures, which records.
 *
 * Threading  pure functions
 */
#include "common/json.h"
#include "common/messages.h"
#include "engine/miopen/problem_key.h"
#include "engine/tuning/tuning.h"

#define TUNING_ORIGIN_TEXT 257 /* each text of an origin, with its NUL */
#define TUNING_BACKEND_TEXT 16
/* Size limit of an uploaded file, unpacked. AMD's largest has 60 MB, and its records are assembled
 * in memory. */
#define TUNING_FILE_MAX (256u << 20)

/* KILN_INVALID names |what|: longer than |most| - 1, or not printable ASCII. */
KILN_MUST_CHECK enum kiln_code tuning_text_take(const char *what, struct bytes text, size_t most,
                                                char *ret_text, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_kind_take(unsigned number, enum tuning_kind *ret_kind,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_database_id_take(struct bytes text,
                                                       char ret_id[DATABASE_ID_MAX],
                                                       struct kiln_err *err);
/* One that records of the device stand under; of perf it must be empty, of find empty is the
 * device's own (common/device_database_id.h). */
KILN_MUST_CHECK enum kiln_code tuning_backend_take(enum tuning_kind kind, const char *database_id,
                                                   struct bytes text,
                                                   char ret_backend[TUNING_BACKEND_TEXT],
                                                   struct kiln_err *err);

struct tuning_database { /* whose records a request is about; zero: none */
    char id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
};
/* Both of the above.  |known| holds what was taken for this kind before: the same texts again, as
 * those of most look-ups are, are in order. */
KILN_MUST_CHECK enum kiln_code tuning_database_take(enum tuning_kind kind, struct bytes id,
                                                    struct bytes backend,
                                                    struct tuning_database *known,
                                                    struct kiln_err *err);

/* The record of a valid problem; KILN_UNSUPPORTED where a PerfDb has no key for it. */
KILN_MUST_CHECK enum kiln_code tuning_key_of(enum tuning_kind kind, const struct problem *problem,
                                             char text[PROBLEM_KEY_MAX], struct bytes *ret_key,
                                             struct kiln_err *err);

struct origin_fields { /* as they came */
    struct bytes device_uuid, device, driver, toolchain, library;
};
struct origin_texts {
    char device_uuid[TUNING_ORIGIN_TEXT], device[TUNING_ORIGIN_TEXT], driver[TUNING_ORIGIN_TEXT],
        toolchain[TUNING_ORIGIN_TEXT], library[TUNING_ORIGIN_TEXT];
};
/* |ret_origin| borrows from |texts|. */
KILN_MUST_CHECK enum kiln_code tuning_origin_take(const struct origin_fields *fields,
                                                  uint32_t clock_mhz, struct origin_texts *texts,
                                                  struct tuning_origin *ret_origin,
                                                  struct kiln_err *err);

/* A double's bits, and back. */
double tuning_double_of(uint64_t bits);
uint64_t tuning_bits_of(double value);
/* KILN_INVALID unless it is a number from 0 to TUNING_FIGURE_MAX. */
KILN_MUST_CHECK enum kiln_code tuning_time_take(const char *what, uint64_t bits, double *ret_time,
                                                struct kiln_err *err);

/* Whether |role| may change records that all users share. */
bool tuning_may_publish(enum role role);
KILN_MUST_CHECK enum kiln_code tuning_publisher_check(enum role role, enum tuning_tier tier,
                                                      struct kiln_err *err);

/* ---- of JSON questions ---- */

/* Member "backend", to choose records by; "" where the question names none. */
KILN_MUST_CHECK enum kiln_code tuning_backend_of_question(const struct json *question,
                                                          char ret_backend[TUNING_BACKEND_TEXT],
                                                          struct kiln_err *err);

/* The word of member |name|; |otherwise| where there is none.  KILN_INVALID names the words. */
KILN_MUST_CHECK enum kiln_code tuning_tier_of_question(const struct json *question,
                                                       const char *name, enum tuning_tier otherwise,
                                                       enum tuning_tier *ret_tier,
                                                       struct kiln_err *err);
/* |ret_has| false: the question names none. */
KILN_MUST_CHECK enum kiln_code tuning_kind_of_question(const struct json *question,
                                                       enum tuning_kind *ret_kind, bool *ret_has,
                                                       struct kiln_err *err);
/* "" where the question names none. */
KILN_MUST_CHECK enum kiln_code tuning_database_id_of_question(const struct json *question,
                                                              char ret_id[DATABASE_ID_MAX],
                                                              struct kiln_err *err);

struct tuning_keys { /* of what a question calls its problem */
    struct problem problems[3];
    char find[3][PROBLEM_KEY_MAX], perf[3][PROBLEM_KEY_MAX]; /* perf "": it has none */
    unsigned count;        /* 0: it is kept verbatim under its own name, if at all */
    struct bytes verbatim; /* borrowed */
    struct kiln_err why;   /* KILN_INVALID: no key and no command line, so wrong unless a record has
                            * just this for its key */
};
KILN_MUST_CHECK enum kiln_code tuning_keys_of(const char *text, struct tuning_keys *ret_keys,
                                              struct kiln_err *err);
unsigned tuning_keys_count(const struct tuning_keys *keys); /* of problems, or of verbatim keys */
/* Under which key of a database of this kind problem |index| is recorded.  Where PerfDb has none,
 * that of FindDb: old text PerfDbs may have it verbatim. */
struct bytes tuning_keys_at(const struct tuning_keys *keys, enum tuning_kind kind, unsigned index);

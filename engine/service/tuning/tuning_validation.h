/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks and copies the parts of requests about tuning: ids, origins, times, and selections of
 * records.
 *
 * Threading  pure functions
 */
#include "common/base/json.h"
#include "common/protocol/messages.h"
#include "engine/miopen/problem_key.h"
#include "engine/tuning/tuning.h"

#define TUNING_ORIGIN_TEXT 257 /* with the NUL */
#define TUNING_BACKEND_TEXT 16
/* Maximum size of an unpacked tuning file. A limit is needed, because the file's records are
 * collected in memory. AMD's largest file has 60 MB. */
#define TUNING_FILE_MAX (256u << 20)

/* Copies |text|, which must be printable ASCII with a length below |most|. The message of
 * KILN_INVALID names |what|. */
KILN_MUST_CHECK enum kiln_code tuning_text_take(const char *what, struct bytes text, size_t most,
                                                char *ret_text, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_kind_take(unsigned number, enum tuning_kind *ret_kind,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_database_id_take(struct bytes text,
                                                       char ret_id[DATABASE_ID_MAX],
                                                       struct kiln_err *err);
/* For perf, the backend must be empty or TUNING_BATCHNORM. For find, "" means the backend of the
 * device. */
KILN_MUST_CHECK enum kiln_code tuning_backend_take(enum tuning_kind kind, const char *database_id,
                                                   struct bytes text,
                                                   char ret_backend[TUNING_BACKEND_TEXT],
                                                   struct kiln_err *err);

struct tuning_database { /* zeroed: no database */
    char id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
};
/* Checks the two texts and copies them to |known|. Does nothing if |known| already has the same
 * texts, as in most look-ups. */
KILN_MUST_CHECK enum kiln_code tuning_database_take(enum tuning_kind kind, struct bytes id,
                                                    struct bytes backend,
                                                    struct tuning_database *known,
                                                    struct kiln_err *err);

/* Writes the problem's key. The problem must be valid. Returns KILN_UNSUPPORTED if PerfDbs have no
 * key for it. */
KILN_MUST_CHECK enum kiln_code tuning_key_of(enum tuning_kind kind, const struct problem *problem,
                                             char text[PROBLEM_KEY_MAX], struct bytes *ret_key,
                                             struct kiln_err *err);

struct origin_fields {
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

double tuning_double_of(uint64_t bits);
uint64_t tuning_bits_of(double value);
/* Returns KILN_INVALID unless |bits| is a number from 0 to TUNING_FIGURE_MAX. */
KILN_MUST_CHECK enum kiln_code tuning_time_take(const char *what, uint64_t bits, double *ret_time,
                                                struct kiln_err *err);

/* Returns whether |role| may change records that all users share. */
bool tuning_may_publish(enum role role);
KILN_MUST_CHECK enum kiln_code tuning_publisher_check(enum role role, enum tuning_tier tier,
                                                      struct kiln_err *err);

/* Returns "" if the question has no backend. */
KILN_MUST_CHECK enum kiln_code tuning_backend_of_question(const struct json *question,
                                                          char ret_backend[TUNING_BACKEND_TEXT],
                                                          struct kiln_err *err);

/* If the question has no member |name|, the tier is |otherwise|. The message of KILN_INVALID lists
 * the tiers. */
KILN_MUST_CHECK enum kiln_code tuning_tier_of_question(const struct json *question,
                                                       const char *name, enum tuning_tier otherwise,
                                                       enum tuning_tier *ret_tier,
                                                       struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_kind_of_question(const struct json *question,
                                                       enum tuning_kind *ret_kind, bool *ret_has,
                                                       struct kiln_err *err);
/* Returns "" if the question has no database id. */
KILN_MUST_CHECK enum kiln_code tuning_database_id_of_question(const struct json *question,
                                                              char ret_id[DATABASE_ID_MAX],
                                                              struct kiln_err *err);

struct tuning_keys {
    struct problem problems[3];
    char find[3][PROBLEM_KEY_MAX],
        perf[3][PROBLEM_KEY_MAX]; /* "": PerfDbs have no key for the problem */
    unsigned count; /* 0: the text is not a problem, but perhaps a record's verbatim key */
    struct bytes verbatim;
    struct kiln_err why; /* KILN_INVALID: the text is neither a key of MIOpen nor a command line */
};
KILN_MUST_CHECK enum kiln_code tuning_keys_of(const char *text, struct tuning_keys *ret_keys,
                                              struct kiln_err *err);
unsigned tuning_keys_count(const struct tuning_keys *keys); /* 1 for a verbatim key */
/* Returns a key of the kind's database. If PerfDbs have no key for the problem, returns the FindDb
 * key, because old perf records may have it. */
struct bytes tuning_keys_at(const struct tuning_keys *keys, enum tuning_kind kind, unsigned index);

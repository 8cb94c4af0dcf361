/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine with tuning databases, and four callers: two users, a publisher, an administrator.
 *
 * Ownership  records of answers are borrowed from the callers' kept replies
 */
#include "tests/unit/engine/service/users_fixture.h"

#define ID "gfx90a68"
#define FIND_FILE ID ".HIP.fdb.txt"
#define DRIVER "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -F 1"
#define KEY "64-56-56-1x1-64-56-56-1-0x0-1x1-1x1-0-NCHW-FP32-F"
#define KEY_OF_TWO "64-56-56-1x1-64-56-56-2-0x0-1x1-1x1-0-NCHW-FP32-F"
#define WINOGRAD "ConvBinWinogradRxSf2x3g1:0.05,0,miopenConvolutionFwdAlgoWinograd"
#define GEMM "GemmFwd1x1_0_1:0.07,0,miopenConvolutionFwdAlgoGEMM"

struct problem problem_of_batch(uint32_t n); /* that of DRIVER with another batch size */

/* f->file holds |text|. */
void tuning_write(struct users *f, const char *text);
/* f->file goes as |c|'s request |type|, and its transfer ends as |name|; nothing runs yet. */
void tuning_bring(struct users *f, struct test_caller *c, enum message_type type,
                  const char *question, const char *name);
/* All of it; the answer, the caller's, which must be none of an error. */
struct json *tuning_import(struct users *f, struct test_caller *c, const char *question,
                           const char *name, const char *text);
/* KEY is imported as a system FindDb. */
void tuning_import_system(struct users *f);

/* Asks for |count| problems, those of problem_of_batch(1) and on. */
void tuning_ask_many(struct test_caller *c, uint8_t kind, uint8_t flags, uint32_t count);
/* The answer for problem_of_batch(n). */
struct message_tuning_answer tuning_ask(struct users *f, struct test_caller *c, uint8_t kind,
                                        uint8_t flags, uint32_t n);
/* Whether |c| gets a find record with this value. */
bool tuning_finds(struct users *f, struct test_caller *c, const char *value);

/* What a put of one entry says; change what is of interest. */
struct put {
    struct message_tuning_put m;
    struct message_tuning_entry entry;
    uint32_t repeated; /* times that the entry comes */
};
struct put find_put(const char *solver, double median_ms);
struct put perf_put(const char *solver, const char *params, double median_ms);
uint64_t double_bits(double value);
/* Sends it; its turn has not come unless |runs|. */
void tuning_send_put(struct users *f, struct test_caller *c, const struct put *put, bool runs);
/* It must be recorded. */
void tuning_put(struct users *f, struct test_caller *c, const struct put *put);

#define SYSTEM_QUESTION "{\"name\":\"" FIND_FILE "\"}"
#define USER_QUESTION "{\"name\":\"" FIND_FILE "\",\"tier\":\"user\"}"
#define MINE KEY "=Mine:0.03,128,miopenConvolutionFwdAlgoDirect\n" /* a user's FindDb */

uint64_t answer_number(const struct json *answer, const char *name); /* UINT64_MAX: absent */
/* The first frame before the last that has a list of this name; the caller's. */
struct json *tuning_reported(const struct test_caller *c, const char *name);

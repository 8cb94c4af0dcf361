/* SPDX-License-Identifier: MIT */
#pragma once

/* Requests about tuning records. |f->file| is the file to import. The texts of a returned message
 * are borrowed from the caller's reply. */
#include "tests/unit/engine/service/users_fixture.h"

#define ID "gfx90a68"
#define FIND_FILE ID ".HIP.fdb.txt"
#define DRIVER "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -F 1"
#define KEY "64-56-56-1x1-64-56-56-1-0x0-1x1-1x1-0-NCHW-FP32-F"
#define KEY_OF_TWO "64-56-56-1x1-64-56-56-2-0x0-1x1-1x1-0-NCHW-FP32-F"
#define WINOGRAD "ConvBinWinogradRxSf2x3g1:0.05,0,miopenConvolutionFwdAlgoWinograd"
#define GEMM "GemmFwd1x1_0_1:0.07,0,miopenConvolutionFwdAlgoGEMM"

struct problem problem_of_batch(uint32_t n); /* DRIVER with batch size |n| */

void tuning_write(struct users *f, const char *text);
/* Sends a request of |type| with a file called |name|. If the engine starts a transfer for the
 * file, the transfer ends with |f->file|. Runs no task. */
void tuning_send_file(struct users *f, struct test_caller *c, enum message_type type,
                      const char *question, const char *name);
/* Imports |text| as a file called |name|. The import must succeed. The caller owns the answer. */
struct json *tuning_import(struct users *f, struct test_caller *c, const char *question,
                           const char *name, const char *text);
void tuning_import_system(struct users *f);

void tuning_ask_many(struct test_caller *c, uint8_t kind, uint8_t flags, uint32_t count);
struct message_tuning_answer tuning_ask(struct users *f, struct test_caller *c, uint8_t kind,
                                        uint8_t flags, uint32_t n);
bool tuning_finds(struct users *f, struct test_caller *c, const char *value);

/* A put with one entry, which a test may change before it sends the put. */
struct put {
    struct message_tuning_put m;
    struct message_tuning_entry entry;
    uint32_t repeated;
};
struct put find_put(const char *solver, double median_ms);
struct put perf_put(const char *solver, const char *params, double median_ms);
uint64_t double_bits(double value);
void tuning_send_put(struct users *f, struct test_caller *c, const struct put *put, bool runs);
void tuning_put(struct users *f, struct test_caller *c, const struct put *put);

#define SYSTEM_QUESTION "{\"name\":\"" FIND_FILE "\"}"
#define USER_QUESTION "{\"name\":\"" FIND_FILE "\",\"tier\":\"user\"}"
#define MINE KEY "=Mine:0.03,128,miopenConvolutionFwdAlgoDirect\n"

/* Returns a number of an answer, or UINT64_MAX if there is none called |name|. */
uint64_t answer_number(const struct json *answer, const char *name);
/* Returns the first progress frame with a list called |name|. The caller owns it. */
struct json *tuning_reported(const struct test_caller *c, const char *name);

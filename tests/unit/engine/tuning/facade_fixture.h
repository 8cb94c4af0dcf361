/* SPDX-License-Identifier: MIT */
#pragma once

/* The tuning databases of a host in a temporary directory, files to import, and functions that
 * run a change to its end in one call. */
#include "tests/support/test.h"

#include "engine/tuning/tuning.h"

#include <string.h>

#define DEVICE "gfx90a68"
#define ALICE 1000u
#define BOB 1001u
#define THE_HOST 0u /* for put_find and put_perf: the host tier */
#define KEY "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NCHW-FP32-F"
#define PERF_KEY "2x64x56x56x1x3x3x1x64x32x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
/* Keys with batch size |n|, and with |bias|. Both arguments must be literals. */
#define KEY_OF_BATCH(n) "64-56-56-3x3-64-56-56-" #n "-1x1-1x1-1x1-0-NCHW-FP32-F"
#define PERF_KEY_OF(n, bias) \
    "2x64x56x56x1x3x3x1x64x" #n "x1x1x0x1x1x0x1x1x0x" #bias "x1xNCHWxFP32xF"

struct fixture {
    const char *directory;
    const char *sources;
    struct tuning_options options;
    struct tuning *t; /* owned; NULL while closed */
    char notice[512];
    struct tuning_counts counts;       /* of the last successful change or export */
    unsigned bad, verbatim, conflicts; /* reported by the last change */
    uint64_t bad_line, verbatim_line;  /* line numbers of the last reports */
    char bad_why[256], verbatim_why[256], conflict_why[400];
    unsigned promoters;              /* of the last promotion */
    struct tuning_promoter promoter; /* the promoter that was reported last */
    char plan_change[200];           /* such as "1000: ConvA -> ConvB, held" */
    struct tuning_promotion promotion;
    bool strict;
    struct buffer out;
    struct kiln_err err;
};

void open_facade(struct fixture *f);
SET_UP(set_up_facade) { open_facade(f); }
FIXTURE(facade, set_up_facade, NULL);
void close_tuning(struct fixture *f);
enum kiln_code reopen(struct fixture *f);

/* Counts files in the state directory whose names begin with |prefix| and contain |part|.
 * |ret_path| (320 bytes; may be NULL) receives the path of the last one. */
unsigned files(struct fixture *f, const char *prefix, const char *part, char *ret_path);

/* Below, |name| is one of MIOpen's names for tuning files. import_of only describes an import,
 * without running it. */
void write_source(struct fixture *f, const char *name, const char *text);
struct tuning_import import_of(struct fixture *f, const char *name, enum tuning_tier tier,
                               uint32_t uid);
enum kiln_code import_text(struct fixture *f, const char *name, enum tuning_tier tier, uint32_t uid,
                           const char *text);
enum kiln_code merge_text(struct fixture *f, const char *name, enum tuning_tier tier, uint32_t uid,
                          const char *text);
/* Runs the job to its end, applies its result and destroys it. |job| may be NULL if |rc| is a
 * failure. */
enum kiln_code finish(struct fixture *f, enum kiln_code rc, struct tuning_job *job);

struct measured {
    enum tuning_tier tier;
    uint32_t uid;
    enum tuning_kind kind;
    const char *key, *id, *values;
    const char *driver;
    uint32_t samples;
    double median_ms, spread_ms;
    uint64_t measured_at;
};
struct tuning_row row_of(const struct measured *m);
enum kiln_code put(struct fixture *f, const struct measured *m);
/* Puts an entry, such as "1.5,0,miopenConvolutionFwdAlgoDirect" for "ConvA", into the records of
 * user |uid|, or into the host's records if |uid| is THE_HOST. */
enum kiln_code put_find(struct fixture *f, uint32_t uid, const char *key, const char *id,
                        const char *values);
enum kiln_code put_perf(struct fixture *f, uint32_t uid, const char *id, const char *params);
enum kiln_code remove_selected(struct fixture *f, const struct tuning_selection *selection);
enum kiln_code promote(struct fixture *f, const struct tuning_selection *selection);
enum kiln_code undo_promotion(struct fixture *f);

struct tuning_question find_question(uint32_t uid, const char *key);
struct tuning_question perf_question(uint32_t uid, const char *key);
struct problem problem_of(const char *find_key);
/* Returns the value of the answer, or "" on a miss. The value is valid until the next call. */
const char *value_for(struct fixture *f, const struct tuning_question *question,
                      struct tuning_answer *ret_answer);
const char *find_value(struct fixture *f, uint32_t uid, const char *key);
const char *perf_value(struct fixture *f, uint32_t uid, const char *key);

/* Returns the text of the file that is exported as |name|, or "" if there is nothing to write. */
const char *export_text(struct fixture *f, const char *name, struct tuning_export what);

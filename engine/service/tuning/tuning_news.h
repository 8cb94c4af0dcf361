/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a long change of the tuning databases has to tell while it runs.
 *
 * Role       collects on the tuning lane, gives frames of it on the engine's thread:
 *            {"progress": {stage, done, total}} and {NAME: [item...]}, as "bad", "conflicts"
 * Threading  adding on one thread and taking on another, at the same time
 *
 * Of each list the first NEWS_MOST items are kept, of NEWS_BYTES_MOST in all; the rest is counted.
 * So that what is merely worth knowing takes no room from what is wrong.
 */
#include "common/json.h"
#include "engine/tuning/tuning.h"

#define NEWS_MOST 20000u
#define NEWS_BYTES_MOST (32u << 20)
#define NEWS_VALUE_MOST 1024u
#define NEWS_LISTS_MOST 3u /* of one request: "bad", "verbatim", "conflicts" */

struct tuning_news;

KILN_MUST_CHECK enum kiln_code tuning_news_create(struct tuning_news **ret_news,
                                                  struct kiln_err *err);
void tuning_news_destroy(struct tuning_news *news);
KILN_DEFINE_AUTO(tuning_news)
/* Events of a job whose context is |news|. */
struct tuning_job_events tuning_news_events(struct tuning_news *news);
void tuning_news_progress(struct tuning_news *news, const char *stage, uint64_t done,
                          uint64_t total);
/* |name| is a literal, one of NEWS_LISTS_MOST at most; takes |item|. */
void tuning_news_add(struct tuning_news *news, const char *name, struct json *item);
/* |text| as a member of an item: of a longer one than NEWS_VALUE_MOST the beginning, and how long
 * it is. */
void tuning_news_set_value(struct json *item, const char *name, struct bytes text);
/* The next frame, the caller's; NULL: there is nothing new. */
struct json *tuning_news_take(struct tuning_news *news);
/* Nobody wants the answer any more: what collects looks now and then, and gives up. */
void tuning_news_stop(struct tuning_news *news);
bool tuning_news_is_stopped(const struct tuning_news *news);
/* Items that were not kept: of all lists, of one. */
uint64_t tuning_news_left_out(struct tuning_news *news);
uint64_t tuning_news_left_out_of(struct tuning_news *news, const char *name);

/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fetch.h"

#include "common/base/jitter.h"
#include "engine/transfer/fetch_attempt.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void wait_ms(uint64_t ms)
{
    struct timespec left = { .tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000 };
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

const struct fetch_policy fetch_policy_standard = {
    .barren_max = 5,
    .attempts_max = 1000,
    .pause_ms = 1000,
    .pause_max_ms = 60000,
    .connect_s = 30,
    .stall_s = 60,
    .stall_rate = 1024,
    .pause = wait_ms,
};

static uint64_t pause_of(const struct fetch_policy *policy, unsigned barren, uint64_t wait_s)
{
    uint64_t pause = policy->pause_ms;
    for (unsigned i = 1; i < barren && pause < policy->pause_max_ms; i++)
        pause *= 2;
    if (wait_s > policy->pause_max_ms / 1000)
        wait_s = policy->pause_max_ms / 1000;
    if (pause < wait_s * 1000)
        return wait_s * 1000;
    return jitter_shorten(pause < policy->pause_max_ms ? pause : policy->pause_max_ms);
}

static enum kiln_code report_given_up(unsigned attempts, struct kiln_err *err)
{
    char last[sizeof(err->text)];
    memcpy(last, err->text, sizeof(last));
    return kiln_fail(err, err->code, "%s (kiln gave up after %u attempts)", last, attempts);
}

static enum kiln_code fetch_with_retries(const struct fetch_request *request, struct part *part,
                                         struct kiln_err *err)
{
    const struct fetch_policy *policy = request->policy;
    uint64_t size_max = 0; /* the largest size of the fetched part so far; an attempt that exceeds
                            * this size makes progress */
    unsigned barren = 0;
    char note[sizeof(err->text)] = "";
    for (unsigned number = 1;; number++) {
        enum attempt_end end = fetch_attempt(request, number, note, part, err);
        if (end == ATTEMPT_DONE)
            return KILN_OK;
        if (end == ATTEMPT_FINAL)
            return err->code;
        barren = part->size > size_max ? 1 : barren + 1;
        size_max = part->size > size_max ? part->size : size_max;
        if (barren >= policy->barren_max || number >= policy->attempts_max)
            return report_given_up(number, err);
        memcpy(note, err->text, sizeof(note));
        policy->pause(pause_of(policy, barren, part->wait_s));
    }
}

enum kiln_code fetch(const struct fetch_request *request, int to_fd, long *ret_status,
                     struct kiln_err *err)
{
    struct part part = { .fd = to_fd };
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot initialize libcurl");
    enum kiln_code rc = fetch_with_retries(request, &part, err);
    curl_global_cleanup();
    if (ret_status)
        *ret_status = part.status;
    return rc;
}

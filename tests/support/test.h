/* SPDX-License-Identifier: MIT */
#pragma once

/* What every cmocka test includes first: cmocka needs these four before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A call that must succeed; shows the sentence when it does not. */
#define must(call, err)                                                 \
    do {                                                                \
        int must_rc_ = (int)(call);                                     \
        if (must_rc_)                                                   \
            fail_msg("%s: code %d, '%s'", #call, must_rc_, (err).text); \
    } while (0)

/* |part| must stand somewhere in |text|. */
#define assert_says(text, part)                               \
    do {                                                      \
        if (!strstr((text), (part)))                          \
            fail_msg("'%s' does not say '%s'", (text), part); \
    } while (0)

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * KILN_RTC, and what this process tells about its compiles.
 *
 * Role       reads the setting once; counts compiles by what happened to them
 * Threading  any thread
 */
#include <stdbool.h>
#include <stdint.h>

enum rtc_mode {
    RTC_OFF,    /* forward everything */
    RTC_ON,     /* look results up, and store new ones */
    RTC_RECORD, /* store new ones only */
};

enum rtc_mode settings_mode(void);

/* How long kilnd may take to answer, in milliseconds, before the program compiles by itself. */
uint32_t settings_patience_ms(void);

/* How one compile ended. */
void settings_count_hit(uint64_t saved_ns, const char *program);
void settings_count_stored(const char *program);
/* |reason| is a literal; compiles that were not served are counted by it. */
void settings_count_forwarded(const char *reason, const char *program);

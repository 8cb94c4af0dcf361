/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The settings in the variables KILN_RTC..., and the report about this process's compiles.
 *
 * Role       reads a variable whenever its value is needed; counts compiles by how they ended
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

/* Returns how many milliseconds kilnd may take to answer before the program compiles by itself. */
uint32_t settings_patience_ms(void);

/* Count a compile by how it ended. */
void settings_count_hit(uint64_t saved_ns, const char *program);
void settings_count_stored(const char *program);
/* Counts a compile that kilnd did not answer, by |reason|, which must be a literal. */
void settings_count_forwarded(const char *reason, const char *program);

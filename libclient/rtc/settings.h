/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Settings from the environment variables KILN_RTC..., and the report about this process's
 * compiles.
 *
 * Role       reads a variable whenever its value is needed; counts compiles by how they ended
 * Threading  any thread
 */
#include <stdbool.h>
#include <stdint.h>

enum rtc_mode {
    RTC_OFF,
    RTC_ON,
    RTC_RECORD,
};

enum rtc_mode settings_mode(void);

/* If kilnd does not answer within this many milliseconds, this process compiles by itself. */
uint32_t settings_patience_ms(void);
/* How many milliseconds this process waits for a compile of kilnd or of another process before it
 * compiles by itself. */
uint32_t settings_wait_ms(void);

/* Adds to the report that the process has loaded a compiler. |compiler| is its kind, such as
 * "nvrtc"; |path| is the path of its file. */
void settings_note_library(const char *compiler, const char *path);

/* |saved_ns| is the duration of the earlier compile. */
void settings_count_hit(uint64_t saved_ns, const char *program);
/* kilnd answered, but had to compile first. */
void settings_count_built(const char *program);
void settings_count_stored(const char *program);
/* Writes the report now, because this process is about to run another program.  Otherwise the
 * process writes the report when it exits. */
void settings_write_report(void);
/* |reason|, why kilnd did not answer the compile, must be a string literal. */
void settings_count_forwarded(const char *reason, const char *program);

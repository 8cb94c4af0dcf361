/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/settings.h"

#include "common/base/units.h"
#include "libclient/rtc/locks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PATIENCE_MS 200
#define WAIT_MS 30000
#define TIME_MAX_MS 3600000
/* more than there are reasons, of which no process has all */
#define REASONS_MAX 64
#define COMPILERS_MAX 8

static struct {
    pid_t pid; /* id of the process that counts; 0 if nothing was counted yet */
    uint64_t hits, built, stored, saved_ns; /* |hits| includes |built| */
    struct {
        const char *reason;
        uint64_t count;
    } forwarded[REASONS_MAX];
    char compilers[COMPILERS_MAX][400];
} counts;

static bool is_set(const char *name, const char *value)
{
    const char *now = getenv(name);
    return now && strcmp(now, value) == 0;
}

/* Returns RTC_OFF for a program with more rights than its user (setuid), because such a program
 * must not trust the user's environment. */
enum rtc_mode settings_mode(void)
{
    if (getauxval(AT_SECURE) || is_set("KILN_RTC", "off"))
        return RTC_OFF;
    return is_set("KILN_RTC", "record") ? RTC_RECORD : RTC_ON;
}

static uint32_t time_ms(const char *variable, uint32_t standard)
{
    uint64_t ms;
    const char *value = getenv(variable);
    return value && units_parse_number(value, TIME_MAX_MS, &ms) && ms ? (uint32_t)ms : standard;
}

uint32_t settings_patience_ms(void) { return time_ms("KILN_RTC_PATIENCE", PATIENCE_MS); }

uint32_t settings_wait_ms(void) { return time_ms("KILN_RTC_WAIT", WAIT_MS); }

/* Appends this process's counts to the file that KILN_RTC_REPORT names, one line for each count.
 * Writes all lines in one call, because several processes may append. */
static void write_report(void)
{
    char text[16384];
    const char *path = getenv("KILN_RTC_REPORT");
    int fd = path && counts.pid == getpid() ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    int size = snprintf(text, sizeof(text), "hit %llu\nbuilt %llu\nstored %llu\nsaved_ms %llu\n",
                        (unsigned long long)counts.hits, (unsigned long long)counts.built,
                        (unsigned long long)counts.stored,
                        (unsigned long long)(counts.saved_ns / 1000000u));
    for (size_t i = 0; i < COMPILERS_MAX && counts.compilers[i][0]; i++)
        size +=
            snprintf(text + size, sizeof(text) - (size_t)size, "library %s\n", counts.compilers[i]);
    for (size_t i = 0; i < REASONS_MAX && counts.forwarded[i].reason; i++)
        if (size < (int)sizeof(text) - 200)
            size +=
                snprintf(text + size, sizeof(text) - (size_t)size, "forwarded %llu %.150s\n",
                         (unsigned long long)counts.forwarded[i].count, counts.forwarded[i].reason);
    ssize_t ignored = write(fd, text, (size_t)size);
    (void)ignored;
    close(fd);
}

void settings_write_report(void)
{
    write_report();
    counts.pid = -1; /* so that another report begins from 0 */
}

/* Registers the report when a process counts its first compile or compiler.  A forked child starts
 * from 0 again, and registers the report only if the child has not inherited a registration. */
static void begin_counting(void)
{
    if (counts.pid == getpid())
        return;
    bool is_registered = counts.pid != 0;
    counts.hits = counts.built = counts.stored = counts.saved_ns = 0;
    memset(counts.forwarded, 0, sizeof(counts.forwarded));
    counts.pid = getpid();
    if (!is_registered && getenv("KILN_RTC_REPORT"))
        atexit(write_report);
}

static void debug(const char *what, const char *program)
{
    if (is_set("KILN_RTC_DEBUG", "1"))
        fprintf(stderr, "libkiln-rtc: %s: %s\n", program ? program : "(unnamed)", what);
}

void settings_note_library(const char *compiler, const char *path)
{
    char text[sizeof(counts.compilers[0])];
    snprintf(text, sizeof(text), "%s %s", compiler, path);
    rtc_lock(RTC_LOCK_COUNTS);
    begin_counting();
    for (size_t i = 0; i < COMPILERS_MAX; i++) {
        if (counts.compilers[i][0] && strcmp(counts.compilers[i], text) != 0)
            continue;
        memcpy(counts.compilers[i], text, sizeof(text));
        break;
    }
    rtc_unlock(RTC_LOCK_COUNTS);
}

void settings_count_hit(uint64_t saved_ns, const char *program)
{
    debug("answered by kilnd", program);
    rtc_lock(RTC_LOCK_COUNTS);
    begin_counting();
    counts.hits++;
    counts.saved_ns += saved_ns;
    rtc_unlock(RTC_LOCK_COUNTS);
}

void settings_count_built(const char *program)
{
    debug("compiled by kilnd", program);
    rtc_lock(RTC_LOCK_COUNTS);
    begin_counting();
    counts.hits++;
    counts.built++;
    rtc_unlock(RTC_LOCK_COUNTS);
}

void settings_count_stored(const char *program)
{
    debug("compiled here and stored", program);
    rtc_lock(RTC_LOCK_COUNTS);
    begin_counting();
    counts.stored++;
    rtc_unlock(RTC_LOCK_COUNTS);
}

void settings_count_forwarded(const char *reason, const char *program)
{
    debug(reason, program);
    rtc_lock(RTC_LOCK_COUNTS);
    begin_counting();
    size_t at = 0;
    while (at < REASONS_MAX - 1 && counts.forwarded[at].reason &&
           strcmp(counts.forwarded[at].reason, reason) != 0)
        at++;
    /* the last element counts all reasons for which there is no other element */
    counts.forwarded[at].reason = at < REASONS_MAX - 1 ? reason : "other reasons";
    counts.forwarded[at].count++;
    rtc_unlock(RTC_LOCK_COUNTS);
}

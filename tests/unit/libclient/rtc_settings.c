/* SPDX-License-Identifier: MIT */
/* Tests the report of libkiln-rtc. */
#include "libclient/rtc/settings.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REASONS 100u

TEST(plain, a_report_counts_reasons_for_which_it_has_no_space)
{
    static char reasons[REASONS][32];
    char path[64], line[256];
    unsigned long long count, sum = 0;
    int fd = memfd_create("report", 0);
    bool has_others = false;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    setenv("KILN_RTC_REPORT", path, 1);
    for (unsigned i = 0; i < REASONS; i++) {
        snprintf(reasons[i], sizeof(reasons[i]), "reason %u", i);
        settings_count_forwarded(reasons[i], "k");
    }

    settings_write_report();

    FILE *report = fdopen(fd, "r");
    assert_non_null(report);
    while (fgets(line, sizeof(line), report)) {
        has_others |= strstr(line, "other reasons") != NULL;
        sum += sscanf(line, "forwarded %llu", &count) == 1 ? count : 0;
    }
    fclose(report);
    assert_int_equal(sum, REASONS);
    assert_true(has_others);
}

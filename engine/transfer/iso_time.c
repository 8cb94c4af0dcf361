/* SPDX-License-Identifier: MIT */
#include "engine/transfer/iso_time.h"

#include <string.h>
#include <time.h>

bool iso_time_read(const char *text, uint64_t *ret_s)
{
    struct tm parts = { 0 };
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!end)
        return false;
    if (*end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    time_t seconds = timegm(&parts);
    if (strcmp(end, "Z") != 0 || seconds < 0)
        return false;
    *ret_s = (uint64_t)seconds;
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "common/target/opencl_target.h"
#include "common/base/bytes.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEVICE_CHARACTERS 72
#define PLATFORM_CHARACTERS 40
/* Maximum number of characters of the driver's version. With this maximum and the two above, the
 * text has at most 154 characters ("opencl:" 72 ":" 40 "-" 16 "-" 16), below LIMIT_TARGET_TEXT. */
#define DRIVER_CHARACTERS 16

static void replace_forbidden(const char *name, char *out, size_t size)
{
    size_t used = 0;
    for (; *name && used + 1 < size; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = c < 128 && (isalnum(c) || strchr("_.+-", c));
        if (plain)
            out[used++] = (char)c;
        else if (used && out[used - 1] != '-')
            out[used++] = '-';
    }
    while (used && out[used - 1] == '-')
        used--;
    if (!used)
        out[used++] = '-';
    out[used] = '\0';
}

void opencl_target_text(const struct opencl_names *names, char text[LIMIT_TARGET_TEXT])
{
    const char *const parts[] = { names->platform_name, names->platform_version, names->device_name,
                                  names->device_version, names->driver_version };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *part = parts[i] ? parts[i] : "";
        hash = bytes_hash(bytes_of(part, strlen(part) + 1), hash);
    }
    char device[DEVICE_CHARACTERS + 1], platform[PLATFORM_CHARACTERS + 1],
        driver[DRIVER_CHARACTERS + 1];
    replace_forbidden(names->device_name ? names->device_name : "", device, sizeof(device));
    replace_forbidden(names->platform_name ? names->platform_name : "", platform, sizeof(platform));
    replace_forbidden(names->driver_version ? names->driver_version : "", driver, sizeof(driver));
    snprintf(text, LIMIT_TARGET_TEXT, "opencl:%s:%s-%s-%016" PRIx64, device, platform, driver,
             hash);
}

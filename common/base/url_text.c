/* SPDX-License-Identifier: MIT */
#include "common/base/url_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void url_without_secrets(const char *url, char *text, size_t size)
{
    bool is_web = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
    if (!is_web) {
        snprintf(text, size, "%s", url);
        return;
    }
    const char *host = strstr(url, "://") + 3;
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));
    const char *rest = at ? at + 1 : host;
    snprintf(text, size, "%.*s%.*s", (int)(host - url), url, (int)strcspn(rest, "?#"), rest);
}

/* SPDX-License-Identifier: MIT */
#include "cli/session.h"

#include "common/base/clock.h"

#include <limits.h>

#define AT(field) offsetof(struct session_options, field)
const struct option session_option_table[SESSION_OPTION_COUNT] = {
    { "socket", 0, OPTION_TEXT, AT(socket), "PATH",
      "kilnd's socket (KILN_SOCKET, else the default paths)", 0, 0 },
    { "timeout", 0, OPTION_TIME, AT(timeout), "TIME",
      "longest time to wait for an answer, such as 90s or 5m", 0, 0 },
    { "json", 0, OPTION_FLAG, AT(json), NULL, "print JSON, also for errors", 0, 0 },
    { "help", 'h', OPTION_FLAG, AT(help), NULL, "print this help", 0, 0 },
    { "version", 0, OPTION_FLAG, AT(version), NULL, "print the version", 0, 0 },
};
#undef AT

int session_timeout_ms(const struct session_options *options)
{
    if (!options->timeout.given)
        return 0;
    uint64_t ms = options->timeout.value;
    /* 0 means libkiln's default, so "--timeout 0" becomes the shortest time-out. */
    return ms == 0 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
}

uint64_t session_deadline_ns(const struct session_options *options)
{
    if (!options->timeout.given)
        return UINT64_MAX;
    return clock_monotonic_ns() + (uint64_t)session_timeout_ms(options) * 1000000u;
}

int session_open(const struct session_options *options, const char *program, const char *fallback,
                 struct kiln_client **ret_client, struct kiln_error *err)
{
    struct kiln_client_options client = {
        .size = sizeof(client),
        .socket_path = options->socket,
        .timeout_ms = session_timeout_ms(options),
        .name = program,
        .fallback = fallback,
    };
    return kiln_client_open(&client, ret_client, err);
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "common/base/units.h"

struct ping_options {
    struct option_number count;
};

static const struct option options[] = {
    { "count", 'c', OPTION_NUMBER, offsetof(struct ping_options, count), "N",
      "pings to send, one after the other (1)", 1, 1000000 },
};

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int send_pings(const struct invocation *invocation, uint64_t *times, size_t count,
                      struct kiln_error *err)
{
    bool json = invocation->common->json;
    for (size_t i = 0; i < count; i++) {
        char text[UNITS_TEXT_MAX];
        int rc = kiln_client_ping(invocation->client, 0, &times[i], err);
        if (rc)
            return rc;
        if (!json)
            printf("answer %zu: %s\n", i + 1, units_seconds((double)times[i] / 1e9, text));
    }
    return KILN_E_OK;
}

static int print_json(const struct kiln_status *status, const uint64_t *times, size_t count,
                      struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_text(json, "daemon", status->daemon);
    json_set_u64(json, "pid", (uint64_t)status->daemon_pid);
    json_set_text(json, "socket", status->socket_path);
    json_set_u64(json, "count", count);
    json_set_u64(json, "min_ns", times[0]);
    json_set_u64(json, "median_ns", times[count / 2]);
    json_set_u64(json, "max_ns", times[count - 1]);
    return output_json(json, err);
}

static void print_times(const struct kiln_status *status, const uint64_t *times, size_t count)
{
    char least[UNITS_TEXT_MAX], median[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
    printf("%s, pid %d, at %s: %zu of %zu answered; min %s, median %s, max %s\n", status->daemon,
           status->daemon_pid, status->socket_path, count, count,
           units_seconds((double)times[0] / 1e9, least),
           units_seconds((double)times[count / 2] / 1e9, median),
           units_seconds((double)times[count - 1] / 1e9, most));
}

static int run_ping(const struct invocation *invocation, struct kiln_error *err)
{
    const struct ping_options *o = invocation->options;
    size_t count = o->count.given ? (size_t)o->count.value : 1;
    KILN_AUTO(mem) uint64_t *times = calloc(count, sizeof(*times));
    struct kiln_status status = { .size = sizeof(status) };
    if (!times)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %zu times", count);
    int rc = send_pings(invocation, times, count, err);
    if (!rc)
        rc = kiln_client_status(invocation->client, &status, err);
    if (rc)
        return rc;
    qsort(times, count, sizeof(*times), compare_times);
    if (invocation->common->json)
        return print_json(&status, times, count, err);
    print_times(&status, times, count);
    return KILN_E_OK;
}

const struct command command_ping = {
    .name = "ping",
    .words = "",
    .summary = "check that the daemon answers, and how fast",
    .help = "Sends pings, waits for each answer, and prints the round-trip times.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct ping_options),
    .run = run_ping,
};

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"

#include <kiln/admin.h>

#include <string.h>
#include <time.h>

struct events_options {
    struct option_number count;
};

static const struct option options[] = {
    { "count", 'c', OPTION_NUMBER, offsetof(struct events_options, count), "N",
      "exit after this many events", 1, UINT32_MAX },
};

struct listening {
    bool json;
    uint64_t left; /* number of events to print; UINT64_MAX means no limit */
};

static void print_event(const struct json *event)
{
    char clock[16] = "";
    time_t when = (time_t)json_get_u64(event, "time", (uint64_t)time(NULL));
    struct tm local;
    if (localtime_r(&when, &local))
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    printf("%s", clock);
    for (const struct json *j = json_first(event); j; j = json_next(j)) {
        char text[512];
        char name[64];
        snprintf(name, sizeof(name), "%s", json_name(j) ? json_name(j) : "");
        show_value(name, j, text, sizeof(text));
        output_clean(name, false);
        output_clean(text, false);
        if (strcmp(name, "event") == 0)
            printf(" %s", text);
        else if (strcmp(name, "time") != 0)
            printf(" %s=%s", name, text);
    }
    putchar('\n');
}

/* The first event only confirms the subscription, so --count does not count it. */
static bool is_counted(const struct json *event)
{
    return strcmp(json_get_text(event, "event", ""), "subscribed") != 0;
}

static int on_event(void *context, const char *text)
{
    struct listening *listening = context;
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *event = NULL;
    if (json_parse(bytes_of(text, strlen(text)), "an event", &event, &why)) {
        fprintf(stderr, "kilnctl: %s\n", why.text);
        return 0;
    }
    if (listening->json)
        puts(text);
    else
        print_event(event);
    bool written = fflush(stdout) == 0;
    if (listening->left != UINT64_MAX && is_counted(event))
        listening->left--;
    return !written || listening->left == 0;
}

static int run_events(const struct invocation *invocation, struct kiln_error *err)
{
    const struct events_options *o = invocation->options;
    struct listening listening = {
        .json = invocation->common->json,
        .left = o->count.given ? o->count.value : UINT64_MAX,
    };
    bool limited = invocation->common->timeout.given;
    int limit = limited ? session_timeout_ms(invocation->common) : -1;
    int rc = kiln_events(invocation->client, limit, on_event, &listening, err);
    /* When --timeout expires, the command succeeds, unless it had to print --count events by
     * then. */
    return limited && rc == KILN_E_TIMED_OUT && !o->count.given ? KILN_E_OK : rc;
}

const struct command command_events = {
    .name = "events",
    .words = "",
    .summary = "follow what happens in the daemon",
    .help =
        "Prints one line per event until interrupted, until --count events have arrived, or for\n"
        "as long as --timeout says.  With --json, prints one JSON object per line.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct events_options),
    .run = run_events,
};

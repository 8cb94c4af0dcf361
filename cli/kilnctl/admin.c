/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"

#include "cli/kilnctl/db_progress.h"

#include <kiln/admin.h>

#include <stdio.h>
#include <string.h>

static inline void reply_auto(char **text) { kiln_free(*text); }

static const char nothing;
const struct json *const admin_no_arguments = (const struct json *)&nothing;

/* Writes the request's arguments as JSON. Fails if an argument is missing because memory ran out:
 * without it, a request such as 'clear' could remove more than the user wants. */
static int print_arguments(const char *request, const struct json *arguments, char **ret_text,
                           struct kiln_error *err)
{
    bool has_some = arguments != admin_no_arguments;
    *ret_text = has_some ? json_print(arguments, false) : NULL;
    if (has_some && !*ret_text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the request '%s'", request);
    return KILN_E_OK;
}

static int parse_reply(const char *request, const char *reply, struct json **ret_reply,
                       struct kiln_error *err)
{
    KILN_AUTO(json) struct json *tree = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (json_parse(bytes_of(reply, strlen(reply)), "kilnd's answer", &tree, &why))
        return cli_fail_json(err, &why);
    if (!json_is_object(tree))
        return cli_fail(err, KILN_E_CORRUPT, "kilnd's answer to '%s' is not a JSON object",
                        request);
    *ret_reply = KILN_TAKE(tree);
    return KILN_E_OK;
}

/* Sets |refused| if kilnd denied the request. |rc| must be the result of a request. The result of
 * opening a local file may also be KILN_E_DENIED, but kilnd may then still accept requests. */
static int note_refusal(const struct invocation *invocation, int rc)
{
    *invocation->refused |= rc == KILN_E_DENIED;
    return rc;
}

/* kilnd refuses a request that it does not know completely.  This happens if kilnd is older than
 * kilnctl. */
static int note_age(int rc, struct kiln_error *err)
{
    if (rc == KILN_E_INVALID &&
        (strstr(err->text, "unknown member") || strstr(err->text, "unknown request type")))
        cli_while(err,
                  "kilnd seems to be older than this kilnctl: restart it if kiln was upgraded");
    return rc;
}

static int send_request(const struct invocation *invocation, const struct admin_call *call,
                        struct json **ret_reply, struct kiln_error *err)
{
    KILN_AUTO(mem) char *text = NULL;
    KILN_AUTO(reply) char *reply = NULL;
    int rc = print_arguments(call->request, call->arguments, &text, err);
    const struct kiln_admin_call whole = { .size = sizeof(whole),
                                           .request = call->request,
                                           .json = text,
                                           .timeout_ms = call->timeout_ms };
    if (!rc)
        rc = note_refusal(invocation, kiln_admin(invocation->client, &whole, &reply, err));
    note_age(rc, err);
    return rc ? rc : parse_reply(call->request, reply, ret_reply, err);
}

int admin_ask(const struct invocation *invocation, const char *request,
              const struct json *arguments, struct json **ret_reply, struct kiln_error *err)
{
    const struct admin_call call = { .request = request, .arguments = arguments };
    return send_request(invocation, &call, ret_reply, err);
}

int admin_ask_within(const struct invocation *invocation, const char *request, int timeout_ms,
                     struct json **ret_reply, struct kiln_error *err)
{
    const struct admin_call call = { .request = request,
                                     .arguments = admin_no_arguments,
                                     .timeout_ms = timeout_ms };
    return send_request(invocation, &call, ret_reply, err);
}

void admin_set_text(struct json *arguments, const char *name, const char *text)
{
    if (text)
        json_set_text(arguments, name, text);
}

static void close_files(const struct admin_call *call, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(call->ret_files[i]);
}

int admin_call(const struct invocation *invocation, const struct admin_call *call,
               struct json **ret_reply, struct kiln_error *err)
{
    KILN_AUTO(mem) char *text = NULL;
    KILN_AUTO(reply) char *reply = NULL;
    const int files[] = { call->file, call->second_file };
    size_t returned = 0;
    int rc = print_arguments(call->request, call->arguments, &text, err);
    if (rc)
        return rc;
    bool limited = invocation->common->timeout.given;
    const struct kiln_admin_call whole = {
        .size = sizeof(whole),
        .request = call->request,
        .json = text,
        .timeout_ms = limited            ? session_timeout_ms(invocation->common)
                      : call->timeout_ms ? call->timeout_ms
                                         : -1,
        .files = files,
        .file_count = (size_t)(files[0] >= 0) + (size_t)(files[1] >= 0),
        .progress = call->db_progress ? db_progress_on
                    : call->progress  ? call_progress_on
                                      : NULL,
        .context = call->db_progress ? (void *)call->db_progress : (void *)call->progress,
        .ret_files = call->ret_files,
        .ret_files_max = call->ret_files_max,
        .ret_file_count = &returned,
    };
    struct ticker ticker;
    struct call_progress *bar = call->db_progress ? &call->db_progress->bar : call->progress;
    if (bar)
        ticker_start(&ticker, &bar->bar, &bar->lock);
    rc = note_refusal(invocation, kiln_admin_call(invocation->client, &whole, &reply, err));
    if (bar)
        ticker_stop(&ticker);
    if (bar)
        (rc ? call_progress_end : call_progress_finish)(bar);
    if (rc)
        return note_age(rc, err);
    rc = parse_reply(call->request, reply, ret_reply, err);
    if (rc)
        close_files(call, returned);
    else if (call->ret_file_count)
        *call->ret_file_count = returned;
    return rc;
}

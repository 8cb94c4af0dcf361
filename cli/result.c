/* SPDX-License-Identifier: MIT */
#include "cli/result.h"

#include "cli/output.h"
#include "common/base/json.h"

#include <kiln/client.h>

#include <stdio.h>
#include <string.h>

bool result_wants_json(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

struct json *result_error_json(const struct kiln_error *err)
{
    struct json *json = json_object();
    json_set_text(json, "code", kiln_error_name(err->code));
    json_set_text(json, "text", err->text[0] ? err->text : kiln_error_text(err->code));
    if (err->log[0])
        json_set_text(json, "log", err->log);
    return json;
}

void result_version(const char *program, bool json)
{
    if (json)
        printf("{\"program\":\"%s\",\"version\":\"%s\"}\n", program, kiln_version());
    else
        printf("%s %s\n", program, kiln_version());
}

static void print_json(const struct kiln_error *err)
{
    struct kiln_error unused = { 0 };
    KILN_AUTO(json) struct json *json = json_object();
    json_set(json, "error", result_error_json(err));
    if (output_json(json, &unused) == KILN_E_OK)
        fflush(stdout);
}

enum exit_status result_end(const struct result *result, int rc, struct kiln_error *err)
{
    if (!rc && fflush(stdout) != 0)
        rc = cli_fail(err, KILN_E_IO, "cannot write to standard output");
    if (!rc)
        return EXIT_OK;
    err->code = rc;
    if (result->json && !result->reported)
        print_json(err);
    output_error(stderr, result->program, err, exit_status_advice(rc));
    enum exit_status status = exit_status_of(rc);
    return status == EXIT_NO_DAEMON && result->daemon_answers ? EXIT_FAILED : status;
}

/* SPDX-License-Identifier: MIT */
#include "cli/exit_status.h"

#include <kiln/error.h>

#include <stddef.h>

static const struct {
    int code;
    enum exit_status status;
    const char *advice;
} results[] = {
    { KILN_E_OK, EXIT_OK, NULL },
    { KILN_E_INVALID, EXIT_USAGE, NULL },
    { KILN_E_UNAVAILABLE, EXIT_NO_DAEMON, NULL },
    { KILN_E_DENIED, EXIT_DENIED, NULL },
    { KILN_E_NOT_FOUND, EXIT_NOT_FOUND, NULL },
    { KILN_E_TIMED_OUT, EXIT_FAILED, "allow more time with --timeout" },
    { KILN_E_BUSY, EXIT_FAILED, "try again later" },
};
#define RESULT_COUNT (sizeof(results) / sizeof(results[0]))

enum exit_status exit_status_of(int code)
{
    for (size_t i = 0; i < RESULT_COUNT; i++)
        if (results[i].code == code)
            return results[i].status;
    return EXIT_FAILED;
}

const char *exit_status_advice(int code)
{
    for (size_t i = 0; i < RESULT_COUNT; i++)
        if (results[i].code == code)
            return results[i].advice;
    return NULL;
}

const char *exit_status_help(void)
{
    return "Exit status:\n"
           "  0  done\n"
           "  1  failed, in whole or in part\n"
           "  2  invalid command line\n"
           "  3  no daemon\n"
           "  4  not permitted\n"
           "  5  not found\n";
}

/* SPDX-License-Identifier: MIT */
/* In the place of fallback_entry.c where the engine is linked into the program with libkiln
 * (KILN_EMBED_BUILD): it serves from what is built in, and keeps nothing. */
#include "libclient/connection/fallback.h"

#include <stdlib.h>
#include <string.h>

#define COMPILE_VARIABLE "KILN_EMBED_COMPILE"

bool fallback_is_first(void) { return true; }

enum kiln_code fallback_entry(const struct embedded_entry **ret_entry,
                              struct embedded_options *ret_options, struct kiln_err *err)
{
    const char *word = secure_getenv(COMPILE_VARIABLE);
    bool compiles = word && strcmp(word, "on") == 0;
    if (word && word[0] && !compiles && strcmp(word, "off") != 0)
        return kiln_fail(err, KILN_INVALID,
                         COMPILE_VARIABLE " is '%.100s': it may be 'on' or 'off'", word);
    *ret_entry = &kiln_embedded_entry;
    *ret_options = (struct embedded_options){ .data = &kiln_built_in,
                                              .memory = true,
                                              .no_compilers = !compiles };
    return KILN_OK;
}

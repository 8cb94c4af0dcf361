/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds out whether the result of a compile may depend on the program's name.
 *
 * A search for the name in the result is not enough: "sizeof(__FILE__)" depends on the name without
 * containing it.  Words such as __FILE__ may come from macros of headers, and these macros from
 * other macros.  Headers often define such macros, for assertions, but most programs do not use
 * them.
 *
 * Role       reads texts into lists of words, and follows macros through these lists
 * Ownership  the caller frees each list
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

struct names_text; /* the words of a text, and its macros */

/* Returns NULL if memory runs out. */
struct names_text *names_read(struct bytes text);
void names_free(struct names_text *text);
/* Returns whether a compile may depend on the program's name: if the program's texts (source,
 * options, headers in memory) may expand __FILE__ or __FILE_NAME__, or if any text may expand
 * __BASE_FILE__ or __builtin_FILE, which stand for the program's name even in a header.  |headers|
 * are the headers on disk that the compile reads. */
bool names_are_expanded(const struct names_text *program, const struct names_text *const *headers,
                        size_t header_count);

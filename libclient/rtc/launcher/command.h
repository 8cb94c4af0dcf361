/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The command line of a compiler that kiln-cc starts.
 *
 * Role       decides whether kilnd may answer a compile: it must have one input and one output, and
 *            its options must affect only the output
 * Ownership  borrows the arguments
 * Threading  no shared state
 */
#include <stdbool.h>
#include <stddef.h>

struct command {
    const char *compiler; /* path of the program */
    char **arguments;     /* ends with NULL; begins with the name of the compiler */
    size_t count;
    bool is_ptxas;
    size_t input, output; /* indices of the arguments; 0: not found */
    char target[64];      /* the architecture, or "" if no option names one */
    bool has_place;       /* the output may contain a digest of the paths of input and output */
};

/* Expects |compiler| and |arguments|, and sets the other members.  Returns false if this is not a
 * compile for a GPU with one output, or if kiln-cc does not know an option. */
bool command_read(struct command *command);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The command line of a compiler that kiln-cc starts.
 *
 * Role       decides whether kilnd may answer a compile: it must have one input and one output, and
 *            its options must affect only the output.  It may also write a dependency file (-MD)
 * Ownership  borrows the arguments
 * Threading  no shared state
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct command {
    const char *compiler; /* path of the program */
    char **arguments;     /* ends with NULL; begins with the name of the compiler */
    bool is_ptxas;        /* true from the start, or set because of the compiler's name */
    size_t count;
    size_t input, output; /* indices of the arguments */
    char target[64];      /* the architecture, or "" if no option names one */
    bool has_place;       /* the output may contain a digest of the paths of input and output */
    /* path of the file that lists the input and its headers, for make; "" without such a file */
    char dependencies[PATH_MAX];
};

/* Expects |compiler|, |arguments| and |is_ptxas|, and sets the other members.  Returns NULL, or why
 * kilnd cannot answer the compile. */
const char *command_read(struct command *command);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs the main function of a program that a test has in it, in a process of its own.
 *
 * Threading  one thread; waits for the end
 */

struct program_end {
    int status;      /* of its exit; -N: signal N ended it */
    char text[4096]; /* what it wrote to both of its outputs */
};

enum program_fd_3 { FD_3_NONE, FD_3_NO_SOCKET, FD_3_SOCKET, FD_3_OF_SOMEBODY_ELSE };

struct program_steps {
    int (*run)(int argc, char **argv);
    enum program_fd_3 fd_3; /* a socket's other end is the test's, or another process's */
    void (*before)(void);   /* in its process; NULL: nothing */
};

/* |arguments| end with NULL. */
struct program_end program_run(const struct program_steps *steps, const char *const *arguments);

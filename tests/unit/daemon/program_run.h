/* SPDX-License-Identifier: MIT */
#pragma once

/* The test includes the source of a program. These functions run the program's main function in a
 * child process, and wait until the process ends. */

struct program_end {
    int status;      /* exit status; -N if signal N ended the process */
    char text[4096]; /* standard output and standard error */
};

/* What the child has as descriptor 3: nothing, a file, a socket connected to the test, or a socket
 * connected to the child itself. */
enum program_fd_3 { FD_3_NONE, FD_3_NO_SOCKET, FD_3_SOCKET, FD_3_FOREIGN };

struct program_steps {
    int (*run)(int argc, char **argv);
    enum program_fd_3 fd_3;
    void (*before)(void); /* runs in the child before |run|; may be NULL */
};

/* |arguments| ends with NULL. */
struct program_end program_run(const struct program_steps *steps, const char *const *arguments);

/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char message[256];

/* Calls only async-signal-safe functions.  SA_RESETHAND has restored the default action, so raising
 * the signal again ends the process. */
static void on_signal(int number)
{
    size_t left = strlen(message);
    const char *at = message;
    while (left > 0) {
        ssize_t written = write(STDERR_FILENO, at, left);
        if (written <= 0)
            break;
        at += written;
        left -= (size_t)written;
    }
    raise(number);
}

void interrupt_says(const char *program, const char *kept)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    snprintf(message, sizeof(message), "\n%s: interrupted: %s\n", program, kept);
    action = (struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESETHAND };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

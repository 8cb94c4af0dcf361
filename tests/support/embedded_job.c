/* SPDX-License-Identifier: MIT */
/*
 * embedded_job SOCKET: a job that has no kilnd at SOCKET and does nothing but serve, until SIGTERM,
 * the user's other processes: what stands for kilnd where tests run against the engine in a job.
 */
#include <kiln/kiln.h>

#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = argc > 1 ? argv[1] : NULL,
                                           .fallback = "embedded" };
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    sigset_t stop;
    int number;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    int rc = kiln_client_open(&options, &client, &err);
    if (!rc)
        rc = kiln_client_ping(client, /* timeout_ms= */ 0, /* ret_ns= */ NULL, &err);
    if (rc)
        fprintf(stderr, "embedded_job: %s\n", err.text);
    else
        sigwait(&stop, &number);
    kiln_client_close(client);
    return rc ? 1 : 0;
}

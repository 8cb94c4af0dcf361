/* SPDX-License-Identifier: MIT */
#include "libclient/notice.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* If nobody reads standard error, the write raises SIGPIPE, which must not end the job.  So the
 * signal is blocked during the write and then consumed, unless a SIGPIPE was pending already. */
void notice_print(const char *line, size_t size)
{
    sigset_t pipe_alone, before, waiting;
    sigemptyset(&pipe_alone);
    sigaddset(&pipe_alone, SIGPIPE);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &pipe_alone, &before);
    ssize_t written = write(STDERR_FILENO, line, size);
    if (written < 0 && errno == EPIPE && !sigismember(&waiting, SIGPIPE))
        (void)sigtimedwait(&pipe_alone, NULL, &(struct timespec){ 0 });
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

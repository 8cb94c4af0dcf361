/* SPDX-License-Identifier: MIT */
/*
 * embedded_job [--FLAG VALUE...]: a job that does nothing but serve, until SIGTERM or SIGINT, the
 * user's other processes, with kilnd's settings of the flags: what stands for kilnd where tests run
 * against the engine in a job.
 */
#include "common/embedded_entry.h"
#include "common/messages.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARIES KILN_BIN "/../lib"

/* Who says nothing is not kept for long. */
static bool greet(int fd)
{
    uint8_t raw[FRAME_HEADER_SIZE + 256] = { 0 };
    struct buffer frame = {
        .data = raw, .size = FRAME_HEADER_SIZE, .capacity = sizeof(raw), .limit = sizeof(raw)
    };
    const struct message_hello hello = { .oldest_version = FRAME_VERSION_OLDEST,
                                         .newest_version = FRAME_VERSION,
                                         .software = bytes_of_text("embedded_job") };
    message_hello_write(&frame, &hello);
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_hello,
                                         .request_id = 1,
                                         .body_size = (uint32_t)(frame.size - FRAME_HEADER_SIZE) };
    frame_header_write(raw, &header);
    return send(fd, raw, frame.size, MSG_NOSIGNAL) == (ssize_t)frame.size;
}

/* False when it is told to end. */
static bool read_signal(int signals)
{
    struct signalfd_siginfo came;
    if (read(signals, &came, sizeof(came)) != sizeof(came) || came.ssi_signo != SIGCHLD)
        return false;
    while (waitpid(-1, /* stat_loc= */ NULL, WNOHANG) > 0) {
    }
    return true;
}

/* True when it is told to; false when what serves is gone. */
static bool wait_for_the_end(int connection, int signals)
{
    struct pollfd p[] = { { .fd = signals, .events = POLLIN },
                          { .fd = connection, .events = POLLIN } };
    char words[256];
    for (;;) {
        if (poll(p, 2, -1) < 0)
            return false;
        if (p[0].revents && !read_signal(signals))
            return true;
        if (p[1].revents && read(connection, words, sizeof(words)) <= 0)
            return false;
    }
}

int main(int argc, char **argv)
{
    const struct embedded_options options = { .library_folder = LIBRARIES,
                                              .settings = (const char *const *)argv + (argc > 0) };
    struct kiln_err err = KILN_ERR_INIT;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGCHLD);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* so that tests find its compilers, which are nobody's */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    int signals = signalfd(-1, &stop, SFD_CLOEXEC), fd = -1;
    void *library = dlopen(LIBRARIES "/libkiln-embedded.so.0", RTLD_NOW | RTLD_LOCAL);
    const struct embedded_entry *entry = library ? dlsym(library, EMBEDDED_ENTRY_SYMBOL) : NULL;
    if (!entry || signals < 0) {
        fprintf(stderr, "embedded_job: %s\n", entry ? "no signalfd" : dlerror());
        return 1;
    }
    enum kiln_code rc = entry->connect(&options, &fd, &err);
    bool is_told = !rc && greet(fd) && wait_for_the_end(fd, signals);
    if (!rc) {
        close(fd);
        entry->let_go();
        entry->settle();
    }
    if (!rc && !is_told)
        rc = entry->connect(&options, &fd, &err); /* it says why */
    if (rc)
        fprintf(stderr, "embedded_job: %s\n", err.text);
    return is_told ? 0 : 1;
}

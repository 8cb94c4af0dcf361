/* SPDX-License-Identifier: MIT */
/* A library to preload. Whenever the program registers a fork handler, the library forks in another
 * thread and waits for that fork. If the fork takes too long, the library ends the process with
 * status 9. The reason for this test: with glibc before 2.36, a registration waits for a fork that
 * another thread has begun. So a thread must not register a fork handler while it holds a lock for
 * which a fork handler waits. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MAX_S 20

typedef int register_call(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                          void *library);

static register_call *real_register;

__attribute__((constructor)) static void find_real(void)
{
    void *found = dlsym(RTLD_NEXT, "__register_atfork");
    memcpy(&real_register, &found, sizeof(found));
}

static void *fork_once(void *unused)
{
    (void)unused;
    if (fork() == 0)
        _exit(0);
    return NULL;
}

static void expect_a_fork(void)
{
    pthread_t thread;
    struct timespec until;
    if (pthread_create(&thread, NULL, fork_once, NULL))
        _exit(9);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MAX_S;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return;
    fprintf(stderr, "fork() waits for a thread that registers a fork handler\n");
    _exit(9);
}

register_call __register_atfork;

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *library)
{
    if (!real_register) /* called before the constructor has run, when there are no threads yet */
        find_real();
    expect_a_fork();
    return real_register(prepare, parent, child, library);
}

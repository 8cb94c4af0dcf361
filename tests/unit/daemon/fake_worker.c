/* SPDX-License-Identifier: MIT */

/* A fake kiln-compiler: reports that it is ready, then does what each packet says. First it makes
 * files in its temporary directory, so that tests can see kilnd remove them.
 *
 *   FAKE_WORKER=dies      exits before it is ready
 *   FAKE_WORKER=usage     exits like a program that does not know its flags
 *   FAKE_WORKER=silent    never reports that it is ready
 *   FAKE_WORKER=babbles   sends an invalid message first */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOCKET_FD 3
#define LIFE_S 600 /* a forgotten process ends after this time */

static void make_files(const char *directory)
{
    if (chdir(directory) < 0 || mkdir("sub", 0700) < 0 || mkdir("sub/deeper", 0700) < 0)
        _exit(80);
    FILE *file = fopen("sub/deeper/file", "w");
    if (!file || fclose(file) != 0 || symlink("/etc", "sub/etc") < 0)
        _exit(81);
}

static void send_text(const char *text)
{
    if (write(SOCKET_FD, text, strlen(text)) < 0)
        _exit(82);
}

static void answer_arguments(char **argv)
{
    char text[256] = "done leads=";
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%d",
                             getpgrp() == getpid() && getsid(0) == getpid());
    for (size_t i = 3; argv[i] && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", argv[i]);
    send_text(text);
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void answer_count(int before)
{
    char text[32];
    snprintf(text, sizeof(text), "done after %d", before);
    send_text(text);
}

static void answer_pid(void)
{
    char text[32];
    snprintf(text, sizeof(text), "done %d", (int)getpid());
    send_text(text);
}

/* Crashes, and leaves a child that keeps the write end of the test's pipe open. */
static void leave_a_child(void)
{
    if (fork() == 0) {
        alarm(LIFE_S);
        wait_for_ever();
    }
    abort();
}

static void do_order(const char *order, char **argv, int before)
{
    if (strcmp(order, "crash") == 0)
        abort();
    else if (strcmp(order, "exit") == 0)
        _exit(3);
    else if (strcmp(order, "killed") == 0)
        raise(SIGKILL);
    else if (strcmp(order, "hang") == 0)
        wait_for_ever();
    else if (strcmp(order, "cpu") == 0)
        raise(SIGXCPU);
    else if (strcmp(order, "output") == 0)
        raise(SIGXFSZ);
    else if (strcmp(order, "orphan") == 0)
        leave_a_child();
    else if (strcmp(order, "arguments") == 0)
        answer_arguments(argv);
    else if (strcmp(order, "pid") == 0)
        answer_pid();
    else if (strcmp(order, "stop") == 0) {
        raise(SIGSTOP);
        send_text("done");
    } else if (strcmp(order, "count") == 0)
        answer_count(before);
    else if (strcmp(order, "prepare") == 0)
        send_text("done preparing");
    else if (strcmp(order, "answer and die") == 0) {
        send_text("done");
        _exit(0);
    } else if (strcmp(order, "hang up") == 0) {
        close(SOCKET_FD);
        wait_for_ever();
    } else
        send_text(strcmp(order, "nonsense") == 0 ? "nonsense" : "done");
}

int main(int argc, char **argv)
{
    const char *manner = getenv("FAKE_WORKER");
    if (argc < 5)
        return 83;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIFE_S);
    make_files(argv[2]);
    signal(SIGABRT, SIG_DFL);
    if (manner && strcmp(manner, "dies") == 0)
        return 5;
    if (manner && strcmp(manner, "usage") == 0)
        return 2;
    if (manner && strcmp(manner, "silent") == 0)
        wait_for_ever();
    send_text(manner && strcmp(manner, "babbles") == 0 ? "babble" : "ready");
    for (int done = 0; done < atoi(argv[4]); done++) {
        char order[128];
        ssize_t got = read(SOCKET_FD, order, sizeof(order) - 1);
        if (got <= 0)
            return 0;
        order[got] = '\0';
        do_order(order, argv, done);
    }
    return 0;
}

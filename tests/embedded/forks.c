/* SPDX-License-Identifier: MIT */

/* Tests fork in a program with built-in data: forks COUNT.
 *
 * First forks COUNT children while no thread is inside the engine. In a child, the parent's
 * client must be refused, and a new client must answer. Then forks COUNT children while other
 * threads call the engine all the time. Each child must get its answer, or the error which says
 * that the process was forked during a call. Exits with 1 if a child gets another result, or if
 * the engine starts a thread or installs a fork handler. */
#include <dirent.h>
#include <kiln/client.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* number of threads: enough that the engine opens and closes while others wait */
#define ASKERS 4
#define CHILD_S 60 /* seconds after which a child without an answer is ended */
#define PAUSES_US 3000
/* microseconds by which each pause before a fork is longer than the previous one */
#define STEP_US 37

enum { ANSWERED = 0, REPORTED = 3 };

static atomic_bool is_over, has_failed;
static struct kiln_client *parents; /* the client from before the forks, which children inherit */

static unsigned fork_handlers;

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare;
    (void)parent;
    (void)child;
    fork_handlers++;
    return 0;
}

/* Opens a client for one ping. The engine opens with the first client and closes with the last
 * one. */
static int ask_engine(struct kiln_error *err)
{
    struct kiln_client *client = NULL;
    int rc = kiln_client_open(NULL, &client, err);
    if (!rc)
        rc = kiln_client_ping(client, 0, NULL, err);
    kiln_client_close(client);
    return rc;
}

static void *go_on_asking(void *unused)
{
    struct kiln_error err = { 0 };
    while (!atomic_load(&is_over) && !atomic_load(&has_failed)) {
        if (ask_engine(&err) == 0)
            continue;
        fprintf(stderr, "forks: the engine does not answer a thread: %s\n", err.text);
        atomic_store(&has_failed, true);
    }
    return unused;
}

static int be_child_of_quiet_parent(void)
{
    struct kiln_error err = { 0 };
    alarm(CHILD_S);
    if (kiln_client_ping(parents, 0, NULL, &err) == 0 || !strstr(err.text, "before fork")) {
        fprintf(stderr, "forks: the parent's client is not refused: %s\n", err.text);
        return 1;
    }
    kiln_client_close(parents);
    if (ask_engine(&err) == 0)
        return ANSWERED;
    fprintf(stderr, "forks: a child's engine does not answer: %s\n", err.text);
    return 1;
}

static int be_child_of_busy_parent(void)
{
    struct kiln_error err = { 0 };
    alarm(CHILD_S);
    int rc = ask_engine(&err);
    if (rc == 0)
        return ANSWERED;
    if (rc == KILN_E_UNAVAILABLE && strstr(err.text, "forked"))
        return REPORTED;
    fprintf(stderr, "forks: a child's engine does not answer: %s\n", err.text);
    return 1;
}

/* Forks |count| children. Returns how many reported that they were forked during a call, or -1
 * if one failed in another way. */
static long fork_many(unsigned long count, int (*run_child)(void))
{
    long reported = 0;
    for (unsigned long n = 0; n < count; n++) {
        int status = 0;
        usleep((unsigned)(n * STEP_US % PAUSES_US));
        pid_t child = fork();
        if (child == 0)
            _exit(run_child());
        bool has_ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
        if (!has_ended || (WEXITSTATUS(status) != ANSWERED && WEXITSTATUS(status) != REPORTED)) {
            fprintf(stderr, "forks: child %lu ended with wait status %#x\n", n, (unsigned)status);
            return -1;
        }
        reported += WEXITSTATUS(status) == REPORTED;
    }
    return reported;
}

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

static long fork_from_quiet_process(unsigned long count)
{
    struct kiln_error err = { 0 };
    if (kiln_client_open(NULL, &parents, &err) || kiln_client_ping(parents, 0, NULL, &err)) {
        fprintf(stderr, "forks: cannot begin: %s\n", err.text);
        return -1;
    }
    if (count_threads() != 1) {
        fprintf(stderr, "forks: there are %u threads\n", count_threads());
        return -1;
    }
    if (fork_handlers > 0) {
        fprintf(stderr, "forks: opening a client installed %u fork handlers\n", fork_handlers);
        return -1;
    }
    long reported = fork_many(count, be_child_of_quiet_parent);
    if (reported == 0 && kiln_client_ping(parents, 0, NULL, &err)) {
        fprintf(stderr, "forks: the parent's engine answers no more: %s\n", err.text);
        return -1;
    }
    kiln_client_close(parents);
    return reported == 0 ? 0 : -1;
}

static long fork_from_busy_process(unsigned long count)
{
    pthread_t asking[ASKERS];
    for (unsigned i = 0; i < ASKERS; i++) {
        if (pthread_create(&asking[i], NULL, go_on_asking, NULL))
            return -1;
    }
    long reported = fork_many(count, be_child_of_busy_parent);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < ASKERS; i++)
        pthread_join(asking[i], NULL);
    return atomic_load(&has_failed) ? -1 : reported;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (count == 0 || fork_from_quiet_process(count) < 0)
        return 1;
    long reported = fork_from_busy_process(count);
    if (reported < 0)
        return 1;
    printf("%lu children of fork had their answers; of %lu that were forked while others asked, "
           "%ld reported it\n",
           count, count, reported);
    return 0;
}

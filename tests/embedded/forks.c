/* SPDX-License-Identifier: MIT */

/*
 * A program with its data inside that forks while others of its threads ask, each with clients of
 * its own: forks COUNT.  Each child asks as well, of an engine of its own.  Exits with 1 when one
 * has no answer.
 */
#include <kiln/client.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASKERS 4   /* an engine ends and the next begins while more than one waits for either */
#define CHILD_S 60 /* of one that has no answer */
#define PAUSES_US 3000
#define STEP_US 37 /* so that the pauses differ */

static atomic_bool is_over, has_failed;

/* The engine begins and ends with the client. */
static int ask(struct kiln_error *err)
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
        if (ask(&err) == 0)
            continue;
        fprintf(stderr, "forks: the engine does not answer a thread: %s\n", err.text);
        atomic_store(&has_failed, true);
    }
    return unused;
}

static int be_child(void)
{
    struct kiln_error err = { 0 };
    alarm(CHILD_S);
    if (ask(&err) == 0)
        return 0;
    fprintf(stderr, "forks: a child's engine does not answer: %s\n", err.text);
    return 1;
}

static int fork_once(unsigned n)
{
    int status = 0;
    usleep(n * STEP_US % PAUSES_US);
    pid_t child = fork();
    if (child == 0)
        _exit(be_child());
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "forks: child %u ended with wait status %#x\n", n, (unsigned)status);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    pthread_t asking[ASKERS];
    int failed = count == 0;
    for (unsigned i = 0; !failed && i < ASKERS; i++)
        failed = pthread_create(&asking[i], NULL, go_on_asking, NULL);
    if (failed)
        return 2;
    for (unsigned n = 0; !failed && n < count; n++)
        failed = fork_once(n);
    atomic_store(&is_over, true);
    if (failed)
        _exit(1);
    for (unsigned i = 0; i < ASKERS; i++)
        pthread_join(asking[i], NULL);
    if (atomic_load(&has_failed))
        return 1;
    printf("%lu children of fork had their answers\n", count);
    return 0;
}

/* SPDX-License-Identifier: MIT */

/*
 * A program with its data inside that leaves its client open and whose first thread ends
 * (pthread_exit): the engine's threads are none to stay for.
 */
#include <kiln/client.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define LOOK_US 1500000 /* the engine looks once a second whether others are left */

static struct kiln_client *client;

static void *ask_once_more(void *unused)
{
    struct kiln_error err = { 0 };
    usleep(LOOK_US);
    if (kiln_client_ping(client, 0, NULL, &err) != 0)
        printf("not once the first thread has ended: %s", err.text);
    else
        printf("answered"); /* into the buffer alone: it is written at exit */
    return unused;
}

int main(void)
{
    struct kiln_error err = { 0 };
    pthread_t other;
    if (kiln_client_open(NULL, &client, &err) || kiln_client_ping(client, 0, NULL, &err) ||
        pthread_create(&other, NULL, ask_once_more, NULL) != 0) {
        fprintf(stderr, "left_open: cannot begin: %s\n", err.text);
        return 1;
    }
    pthread_exit(NULL);
}

/* SPDX-License-Identifier: MIT */
/* unloading_job LIBKILN [reaper]: opens and closes libkiln with dlopen.
 *
 * By default: opens and closes the library twice in the right order, and then with a client
 * still open. With 'reaper', becomes a child subreaper, opens and closes the library three times
 * in the right order, and then waits until the private kilnd has ended. */
#include <kiln/client.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MAX_S 60

static struct kiln_client *client;

static int use_libkiln(void *library)
{
    struct kiln_error err = { 0 };
    __typeof__(kiln_client_open) *open_client;
    __typeof__(kiln_client_ping) *ping;
    void *symbols[] = { dlsym(library, "kiln_client_open"), dlsym(library, "kiln_client_ping") };
    memcpy(&open_client, &symbols[0], sizeof(open_client));
    memcpy(&ping, &symbols[1], sizeof(ping));
    if (open_client(NULL, &client, &err) == 0 && ping(client, 0, NULL, &err) == 0)
        return 0;
    fprintf(stderr, "unloading_job: %s\n", err.text);
    return 1;
}

static void close_client(void *library)
{
    __typeof__(kiln_client_close) *close_it;
    void *symbol = dlsym(library, "kiln_client_close");
    memcpy(&close_it, &symbol, sizeof(close_it));
    close_it(client);
}

/* Also waits for children that waitpid(2) skips without __WALL. */
static int wait_for_all_children(void)
{
    int status, count = 0;
    alarm(WAIT_MAX_S);
    for (; waitpid(-1, &status, __WALL) > 0; count++) {
        if (status != 0)
            return 3;
    }
    return count > 0 ? 0 : 4;
}

int main(int argc, char **argv)
{
    int is_reaper = argc > 2;
    if (is_reaper && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return 5;
    for (int i = 0; i < 3; i++) {
        void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!library || use_libkiln(library))
            return 1;
        if (i < 2 || is_reaper)
            close_client(library);
        if (dlclose(library) != 0)
            return 2;
    }
    return is_reaper ? wait_for_all_children() : 0;
}

/* SPDX-License-Identifier: MIT */
/* A library that is preloaded into a compiler. It adds the name of each environment variable that
 * the compiler reads to the file $VARIABLES_LOG. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *find(const char *name)
{
    size_t size = strlen(name);
    for (char **variable = environ; variable && *variable; variable++)
        if (strncmp(*variable, name, size) == 0 && (*variable)[size] == '=')
            return *variable + size + 1;
    return NULL;
}

static char *note(const char *name)
{
    const char *log = find("VARIABLES_LOG");
    int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd < 0 || write(fd, name, strlen(name)) < 0 || write(fd, "\n", 1) < 0 || close(fd))
        abort();
    return find(name);
}

char *getenv(const char *name) { return note(name); }
char *secure_getenv(const char *name) { return note(name); }

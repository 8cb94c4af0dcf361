/* SPDX-License-Identifier: MIT */
/* A fake compiler, which kiln-cc starts. Its output is the input with its headers, and the options.
 * Each run adds a line to $FAKE_CC_LOG.
 *
 * The input may have lines #include "NAME", #error and #warning. A line #write PATH writes a file.
 * A line #temporary PATH writes a file and removes it again. A line #start runs a program. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    const char *input, *output;
    const char *directories[8];
    int directory_count;
    char options[1024];
} given;

static void read_arguments(char **argument)
{
    for (; *argument; argument++) {
        if (strcmp(*argument, "-o") == 0)
            given.output = *++argument;
        else if (strcmp(*argument, "-x") == 0)
            argument++;
        else if (strncmp(*argument, "-I", 2) == 0)
            given.directories[given.directory_count++] = *argument + 2;
        else if ((*argument)[0] == '-')
            strncat(given.options, *argument, sizeof(given.options) - strlen(given.options) - 1);
        else
            given.input = *argument;
    }
}

/* Adds a line to the log. Opens the log with a system call, so that libkiln-rtc does not see it. */
static void count_run(void)
{
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("FAKE_CC_LOG"), flags, 0666);
    if (fd < 0 || write(fd, "run\n", 4) != 4)
        abort();
}

static FILE *find(const char *name)
{
    char path[4096];
    for (int i = 0; i < given.directory_count; i++) {
        snprintf(path, sizeof(path), "%s/%s", given.directories[i], name);
        FILE *file = fopen(path, "r");
        if (file)
            return file;
    }
    return NULL;
}

static int write_file(const char *path)
{
    FILE *file = fopen(path, "w");
    return !file || fclose(file);
}

static int start(void)
{
    char name[] = "true", *const arguments[] = { name, NULL };
    pid_t child;
    return posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL);
}

static int compile(FILE *in, FILE *out)
{
    char line[1024], word[1024];
    while (fgets(line, sizeof(line), in)) {
        if (sscanf(line, "#include \"%1000[^\"]\"", word) == 1) {
            FILE *file = find(word);
            if (!file || compile(file, out))
                return 1;
            fclose(file);
        } else if (strncmp(line, "#error", 6) == 0) {
            fprintf(stderr, "error\n");
            return 3;
        } else if (strncmp(line, "#warning", 8) == 0) {
            printf("a note\n");
            fprintf(stderr, "%s", line);
        } else if (sscanf(line, "#write %1000s", word) == 1) {
            if (write_file(word))
                return 1;
        } else if (sscanf(line, "#temporary %1000s", word) == 1) {
            if (write_file(word) || unlink(word))
                return 1;
        } else if (strncmp(line, "#start", 6) == 0) {
            if (start())
                return 1;
        } else {
            fputs(line, out);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    read_arguments(argv + 1);
    count_run();
    FILE *in = fopen(given.input, "r");
    if (!in)
        return 1;
    FILE *out = fopen(given.output, "w");
    int rc = 1;
    if (out) {
        fprintf(out, "%s\n", given.options);
        rc = compile(in, out);
        fclose(out);
    }
    fclose(in);
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* A fake compiler, which kiln-cc starts. Its output is the input with its headers, and the options.
 * Each run adds a line to $FAKE_CC_LOG.
 *
 * The input may have lines #include "NAME", #error and #warning. A line #write PATH writes a file.
 * A line #temporary PATH writes a file and removes it again. A line #start runs a program. These
 * lines have further commands:
 *
 *   #rename PATH   writes a file and gives it the name PATH
 *   #directory PATH   makes a directory
 *   #other PATH    replaces PATH by another file, as another program does: unseen by libkiln-rtc
 *   #print SIZE    prints that many bytes to standard error
 *   #wait PATH     writes the process id to PATH, and waits for a signal
 *   #until PATH    writes the process id to PATH.begun, and waits until PATH exists
 *   #load PATH     loads the library PATH, and writes its variable kiln_number
 *   #unload PATH   does as #load, and closes the library again
 *   #die SIGNAL    ends the process by a signal */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    const char *input, *output, *dependencies, *target;
    bool has_dependencies;
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
        else if (strcmp(*argument, "-MF") == 0)
            given.dependencies = *++argument;
        else if (strcmp(*argument, "-MT") == 0)
            given.target = *++argument;
        else if (strcmp(*argument, "-MD") == 0 || strcmp(*argument, "-MMD") == 0)
            given.has_dependencies = true;
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

static FILE *dependencies; /* NULL if no dependency file is wanted */

static int open_dependencies(void)
{
    char name[4096];
    if (!given.has_dependencies)
        return 0;
    snprintf(name, sizeof(name), "%.*s.d", (int)strcspn(given.output, "."), given.output);
    const char *path = given.dependencies ? given.dependencies : name;
    dependencies = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    return !dependencies || fprintf(dependencies, "%s: %s",
                                    given.target ? given.target : given.output, given.input) < 0;
}

static FILE *find(const char *name)
{
    char path[4096];
    for (int i = 0; i < given.directory_count; i++) {
        snprintf(path, sizeof(path), "%s/%s", given.directories[i], name);
        FILE *file = fopen(path, "r");
        if (file && dependencies)
            fprintf(dependencies, " %s", path);
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

/* Uses system calls, which libkiln-rtc does not see. */
static int replace_unseen(const char *path)
{
    static const char other[] = "another.tmp";
    int fd = (int)syscall(SYS_openat, AT_FDCWD, other, O_WRONLY | O_CREAT, 0666);
    return fd < 0 || write(fd, "other\n", 6) != 6 || close(fd) ||
           syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, path, 0);
}

static int wait_for_signal(const char *path)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", (int)getpid());
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "pid.tmp", O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) || unlink(given.output) ||
        rename("pid.tmp", path))
        return 1;
    alarm(120); /* if the test fails, this process ends, too */
    for (;;)
        pause();
}

/* Uses system calls, which libkiln-rtc does not see. */
static int wait_for_file(const char *path)
{
    char begun[1100], text[32];
    snprintf(begun, sizeof(begun), "%s.begun", path);
    snprintf(text, sizeof(text), "%d\n", (int)getpid());
    int fd = (int)syscall(SYS_openat, AT_FDCWD, begun, O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return 1;
    alarm(120); /* if the test fails, this process ends, too */
    while (syscall(SYS_faccessat, AT_FDCWD, path, F_OK))
        usleep(1000);
    return 0;
}

static int load(const char *path, bool closes, FILE *out)
{
    void *library = dlopen(path, RTLD_NOW);
    const int *number = library ? dlsym(library, "kiln_number") : NULL;
    return !number || fprintf(out, "%d\n", *number) < 0 || (closes && dlclose(library));
}

/* Does what a line of the input says.  Returns 0, or an exit status. */
static int obey(const char *line, FILE *out)
{
    char word[1024];
    int number;
    if (sscanf(line, "#rename %1000s", word) == 1)
        return write_file("renamed.tmp") || rename("renamed.tmp", word);
    if (sscanf(line, "#directory %1000s", word) == 1)
        return mkdir(word, 0777) != 0;
    if (sscanf(line, "#other %1000s", word) == 1)
        return replace_unseen(word);
    if (sscanf(line, "#wait %1000s", word) == 1)
        return wait_for_signal(word);
    if (sscanf(line, "#until %1000s", word) == 1)
        return wait_for_file(word);
    if (sscanf(line, "#load %1000s", word) == 1)
        return load(word, /* closes= */ false, out);
    if (sscanf(line, "#unload %1000s", word) == 1)
        return load(word, /* closes= */ true, out);
    if (sscanf(line, "#die %d", &number) == 1)
        return raise(number);
    if (sscanf(line, "#print %d", &number) == 1)
        while (number-- > 0)
            fputc(number % 80 ? 'x' : '\n', stderr);
    return 0;
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
        } else if (line[0] == '#') {
            int rc = obey(line, out);
            if (rc)
                return rc;
        } else {
            fputs(line, out);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("FAKE_CC_NO_PRELOAD") && getenv("LD_PRELOAD"))
        return 127;
    read_arguments(argv + 1);
    count_run();
    FILE *in = fopen(given.input, "r");
    if (!in) {
        perror(given.input);
        return 1;
    }
    FILE *out = fopen(given.output, "w");
    int rc = 1;
    if (out && open_dependencies() == 0) {
        fprintf(out, "%s\n", given.options);
        rc = compile(in, out);
        fclose(out);
        if (dependencies)
            fclose(dependencies);
    }
    fclose(in);
    return rc;
}

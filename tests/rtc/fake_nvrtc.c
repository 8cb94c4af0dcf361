/* SPDX-License-Identifier: MIT */
/* A run-time compiler with NVRTC's interface, for hosts without CUDA. Its outputs contain
 * everything that they depend on. Each compile adds a line to $FAKE_NVRTC_LOG and takes
 * $FAKE_NVRTC_MS milliseconds.
 *
 * The source may have lines #include "NAME", #error and #warning. A line #look PATH looks for a
 * file with the function $FAKE_NVRTC_LOOKS. The lines #chdir DIRECTORY and #syscall_chdir DIRECTORY
 * change the directory, as another thread may do. A line #start FUNCTION starts a process with this
 * function. A line #write PATH writes a file, #list PATH lists a directory, and #change PATH
 * changes the times of a file or directory to now, as another program does. The source may also
 * have the words __FILE__ and static. If it has the word static, the names of static variables
 * contain the last part of the program's name. The expression "unreadable" has no lowered name.
 * $FAKE_NVRTC_MIB makes the CUBIN this large. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 65536

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_OPTION = 5, COMPILATION = 6, NO_NAME = 9 };

struct program {
    char source[TEXT_MAX], name[512];
    int header_count;
    char headers[8][2][1024]; /* name and text */
    char expressions[8][128], lowered[8][160];
    int expression_count;
    char text[TEXT_MAX], log[1024]; /* after a compile: what was read */
    char cubin[2 * TEXT_MAX], ptx[2 * TEXT_MAX], lto[2 * TEXT_MAX];
    size_t cubin_size, ptx_size, lto_size;
};

#define API __attribute__((visibility("default")))
#define DECLARED(type, name, ...) \
    API type name(__VA_ARGS__);   \
    type name(__VA_ARGS__)

DECLARED(int, nvrtcVersion, int *major, int *minor)
{
    *major = 99;
    *minor = 0;
    return SUCCESS;
}

struct inputs {
    const char *source, *name;
    int count;
    const char *const *headers, *const *names;
};

static int create(struct program **ret, const struct inputs *in)
{
    struct program *p = in->source ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return INVALID_INPUT;
    snprintf(p->source, sizeof(p->source), "%s", in->source);
    snprintf(p->name, sizeof(p->name), "%s", in->name && *in->name ? in->name : "default_program");
    for (int i = 0; i < in->count && i < 8; i++) {
        snprintf(p->headers[i][0], sizeof(p->headers[i][0]), "%s", in->names[i]);
        snprintf(p->headers[i][1], sizeof(p->headers[i][1]), "%s", in->headers[i]);
        p->header_count++;
    }
    *ret = p;
    return SUCCESS;
}

#define DEFINE_CREATE(function)                                                             \
    API int function(struct program **ret, const char *source, const char *name, int count, \
                     const char *const *headers, const char *const *names);                 \
    int function(struct program **ret, const char *source, const char *name, int count,     \
                 const char *const *headers, const char *const *names)                      \
    {                                                                                       \
        const struct inputs in = { source, name, count, headers, names };                   \
        return create(ret, &in);                                                            \
    }
DEFINE_CREATE(nvrtcCreateProgram)

DECLARED(int, nvrtcDestroyProgram, struct program **p)
{
    free(*p);
    *p = NULL;
    return SUCCESS;
}

DECLARED(int, nvrtcAddNameExpression, struct program *p, const char *expression)
{
    snprintf(p->expressions[p->expression_count], sizeof(p->expressions[0]), "%s", expression);
    snprintf(p->lowered[p->expression_count++], sizeof(p->lowered[0]), "_Z%s", expression);
    return SUCCESS;
}

/* Opens the log with a system call, so that libkiln-rtc does not see it: the log is not one of the
 * compile's files. */
static int open_log(void)
{
    const char *log = getenv("FAKE_NVRTC_LOG");
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    return log && *log ? (int)syscall(SYS_openat, AT_FDCWD, log, flags, 0666) : -1;
}

static void note_compile(const struct program *p)
{
    char line[128];
    const char *ms = getenv("FAKE_NVRTC_MS");
    int fd = open_log();
    int size = snprintf(line, sizeof(line), "%.60s\n", p->source);
    char *end = strchr(line, '\n');
    if (fd >= 0 && size > 0 && write(fd, line, (size_t)(end + 1 - line)) < 0)
        abort();
    if (fd >= 0)
        close(fd);
    struct timespec pause = { .tv_nsec = ms ? atol(ms) * 1000000L : 0 };
    pause.tv_sec = pause.tv_nsec / 1000000000L;
    pause.tv_nsec %= 1000000000L;
    nanosleep(&pause, NULL);
}

static void append(char *to, size_t size, const char *text)
{
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s", text);
}

/* Appends a file to |to|. Looks for the file with stat, as a compiler does that was built for glibc
 * 2.33 or later. */
static int read_file(const char *path, char *to, size_t size)
{
    struct stat seen;
    FILE *file = stat(path, &seen) == 0 ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    size_t used = strlen(to), got = fread(to + used, 1, size - used - 1, file);
    to[used + got] = '\0';
    fclose(file);
    return 1;
}

/* A compiler that was built for a glibc before 2.33 calls these functions instead of stat, lstat
 * and fstatat. */
int __xstat(int version, const char *path, struct stat *seen);
int __xstat64(int version, const char *path, struct stat *seen);
int __lxstat(int version, const char *path, struct stat *seen);
int __lxstat64(int version, const char *path, struct stat *seen);
int __fxstatat(int version, int directory, const char *path, struct stat *seen, int flags);
int __fxstatat64(int version, int directory, const char *path, struct stat *seen, int flags);

/* A compiler that was built with _FORTIFY_SOURCE calls these functions instead of open and
 * openat. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

static int open_fortified(const char *function, const char *path)
{
    if (strcmp(function, "__open_2") == 0)
        return __open_2(path, O_RDONLY);
    if (strcmp(function, "__open64_2") == 0)
        return __open64_2(path, O_RDONLY);
    if (strcmp(function, "__openat_2") == 0)
        return __openat_2(AT_FDCWD, path, O_RDONLY);
    if (strcmp(function, "__openat64_2") == 0)
        return __openat64_2(AT_FDCWD, path, O_RDONLY);
    abort();
}

static void look_with(const char *function, const char *path)
{
    struct stat seen;
    /* the version of struct stat on x86-64 and on AArch64 */
    int version = sizeof(seen.st_nlink) == 8 ? 1 : 0;
    if (strcmp(function, "__xstat") == 0)
        (void)__xstat(version, path, &seen);
    else if (strcmp(function, "__xstat64") == 0)
        (void)__xstat64(version, path, &seen);
    else if (strcmp(function, "__lxstat") == 0)
        (void)__lxstat(version, path, &seen);
    else if (strcmp(function, "__lxstat64") == 0)
        (void)__lxstat64(version, path, &seen);
    else if (strcmp(function, "__fxstatat") == 0)
        (void)__fxstatat(version, AT_FDCWD, path, &seen, 0);
    else if (strcmp(function, "__fxstatat64") == 0)
        (void)__fxstatat64(version, AT_FDCWD, path, &seen, 0);
    else
        close(open_fortified(function, path));
}

static pid_t start_process(const char *function)
{
    char name[] = "true", *const arguments[] = { name, NULL };
    pid_t child = -1;
    if (strcmp(function, "posix_spawn") == 0)
        return posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL) ? -1 : child;
    if (strcmp(function, "posix_spawnp") == 0)
        return posix_spawnp(&child, "true", NULL, NULL, arguments, NULL) ? -1 : child;
    if (strcmp(function, "fork") == 0)
        child = fork();
    else if (strcmp(function, "vfork") == 0)
        child = vfork();
    if (child == 0) {
        execv("/bin/true", arguments);
        _exit(1);
    }
    return child;
}

static int runs(const char *function)
{
    if (strcmp(function, "system") == 0)
        return system("exit 0") == 0; // NOLINT(cert-env33-c): what the test is about
    if (strcmp(function, "popen") == 0) {
        FILE *file = popen("exit 0", "r"); // NOLINT(cert-env33-c): what the test is about
        return file && pclose(file) == 0;
    }
    return start_process(function) > 0;
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static int include(struct program *p, const char *name, int count, const char *const *options)
{
    char path[1024];
    for (int i = 0; i < p->header_count; i++)
        if (strcmp(p->headers[i][0], name) == 0) {
            append(p->text, sizeof(p->text), p->headers[i][1]);
            return SUCCESS;
        }
    snprintf(path, sizeof(path), "%.*s%s", (int)(last_part(p->name) - p->name), p->name, name);
    if (read_file(path, p->text, sizeof(p->text)))
        return SUCCESS;
    for (int i = 0; i < count; i++) {
        if (strncmp(options[i], "-I", 2) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", options[i] + 2, name);
        if (read_file(path, p->text, sizeof(p->text)))
            return SUCCESS;
    }
    snprintf(p->log, sizeof(p->log), "%s: cannot open source file \"%s\"", p->name, name);
    return COMPILATION;
}

static bool lists(const char *path)
{
    DIR *directory = opendir(path);
    return directory && closedir(directory) == 0;
}

static bool writes(const char *path)
{
    FILE *file = fopen(path, "w");
    return file && fclose(file) == 0;
}

/* Does what a line says that is about files. Returns false if this fails. */
static bool obeys(const char *line)
{
    if (strncmp(line, "#write ", 7) == 0)
        return writes(line + 7);
    if (strncmp(line, "#list ", 6) == 0)
        return lists(line + 6);
    return strncmp(line, "#change ", 8) != 0 || utimensat(AT_FDCWD, line + 8, NULL, 0) == 0;
}

static int preprocess(struct program *p, int count, const char *const *options)
{
    char copy[TEXT_MAX], name[256], *rest = copy;
    memcpy(copy, p->source, sizeof(copy));
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (sscanf(line, "#include \"%255[^\"]\"", name) == 1) {
            int rc = include(p, name, count, options);
            if (rc)
                return rc;
        } else if (strncmp(line, "#error", 6) == 0) {
            snprintf(p->log, sizeof(p->log), "%s: error: %.200s", p->name, line);
            return COMPILATION;
        } else if (strncmp(line, "#look ", 6) == 0) {
            look_with(getenv("FAKE_NVRTC_LOOKS"), line + 6);
        } else if (strncmp(line, "#start ", 7) == 0) {
            if (!runs(line + 7))
                return COMPILATION;
        } else if (strncmp(line, "#chdir ", 7) == 0) {
            if (chdir(line + 7))
                return COMPILATION;
        } else if (strncmp(line, "#syscall_chdir ", 15) == 0) {
            if (syscall(SYS_chdir, line + 15))
                return COMPILATION;
        } else if (!obeys(line)) {
            return COMPILATION;
        } else if (strncmp(line, "#warning", 8) == 0) {
            snprintf(p->log, sizeof(p->log), "%s: warning: %.200s", p->name, line);
        } else {
            append(p->text, sizeof(p->text), line);
            append(p->text, sizeof(p->text), "\n");
        }
    }
    return SUCCESS;
}

static size_t write_output(const struct program *p, const char *kind, const char *options,
                           char *output)
{
    char prefix[640] = "";
    if (strstr(p->text, "__FILE__"))
        snprintf(prefix, sizeof(prefix), "%s", p->name);
    else if (strstr(p->text, "static"))
        snprintf(prefix, sizeof(prefix), "_INTERNAL_%s", last_part(p->name));
    for (char *c = strstr(prefix, "_INTERNAL_"); c && *c; c++)
        *c = (char)(isalnum((unsigned char)*c) ? *c : '_');
    return (size_t)snprintf(output, sizeof(p->cubin), "%s:%s:%s:%s", kind, options, prefix,
                            p->text);
}

static size_t padding(void)
{
    const char *mib = getenv("FAKE_NVRTC_MIB");
    return mib ? (size_t)atoi(mib) << 20 : 0;
}

DECLARED(int, nvrtcCompileProgram, struct program *p, int count, const char *const *options)
{
    char joined[2048] = "";
    int is_lto = 0;
    note_compile(p);
    p->text[0] = p->log[0] = '\0';
    p->cubin_size = p->ptx_size = p->lto_size = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i], "-bad") == 0)
            return INVALID_OPTION;
        is_lto |= strcmp(options[i], "-dlto") == 0;
        if (strncmp(options[i], "-I", 2) != 0)
            append(joined, sizeof(joined), options[i]);
    }
    int rc = preprocess(p, count, options);
    if (rc)
        return rc;
    if (is_lto) {
        p->lto_size = write_output(p, "lto", joined, p->lto);
        p->ptx_size = 1;
    } else {
        p->cubin_size = write_output(p, "cubin", joined, p->cubin) + padding();
        p->ptx_size = write_output(p, "ptx", joined, p->ptx) + 1;
    }
    return SUCCESS;
}

DECLARED(int, nvrtcGetLoweredName, struct program *p, const char *expression, const char **ret)
{
    for (int i = 0; i < p->expression_count; i++)
        if (strcmp(p->expressions[i], expression) == 0 && strcmp(expression, "unreadable") != 0) {
            *ret = p->lowered[i];
            return SUCCESS;
        }
    return NO_NAME;
}

#define OUTPUT(name, size, bytes)                             \
    DECLARED(int, name##Size, struct program *p, size_t *ret) \
    {                                                         \
        *ret = (size);                                        \
        return SUCCESS;                                       \
    }                                                         \
    DECLARED(int, name, struct program *p, char *ret)         \
    {                                                         \
        memcpy(ret, (bytes), (size));                         \
        return SUCCESS;                                       \
    }
OUTPUT(nvrtcGetNVVM, p->lto_size, p->lto)
OUTPUT(nvrtcGetPTX, p->ptx_size, p->ptx)
OUTPUT(nvrtcGetLTOIR, p->lto_size, p->lto)
OUTPUT(nvrtcGetProgramLog, strlen(p->log) + 1, p->log)

DECLARED(int, nvrtcGetCUBINSize, struct program *p, size_t *ret)
{
    *ret = p->cubin_size;
    return SUCCESS;
}

DECLARED(int, nvrtcGetCUBIN, struct program *p, char *ret)
{
    size_t text = p->cubin_size - (p->cubin_size ? padding() : 0);
    memcpy(ret, p->cubin, text);
    memset(ret + text, 0, p->cubin_size - text);
    return SUCCESS;
}

DECLARED(int, nvrtcGetOptiXIRSize, struct program *p, size_t *ret)
{
    (void)p;
    *ret = 0;
    return SUCCESS;
}

DECLARED(int, nvrtcGetOptiXIR, struct program *p, char *ret)
{
    (void)p;
    (void)ret;
    return SUCCESS;
}

/* Calls that libkiln-rtc does not wrap. */
DECLARED(int, nvrtcGetNumSupportedArchs, int *ret)
{
    *ret = 7;
    return SUCCESS;
}

DECLARED(int, nvrtcCreateProgramLater, void) { return SUCCESS; }

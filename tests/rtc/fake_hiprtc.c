/* SPDX-License-Identifier: MIT */
/* A fake HIP runtime that contains hiprtc, as in ROCm 5. Each compile adds a line to
 * $FAKE_NVRTC_LOG, except in kilnd's sandbox. The code is the header of an AMD code object, the
 * architecture and the source. $FAKE_HIP_DEVICE is the architecture of the current device. Without
 * it, there is no device. */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NO_DEVICE = 100, COMPILATION = 6 };

struct program {
    char source[4096], code[8192];
    size_t code_size;
};

#define API __attribute__((visibility("default")))
#define DECLARED(type, name, ...) \
    API type name(__VA_ARGS__);   \
    type name(__VA_ARGS__)

DECLARED(int, hipGetDevice, int *ret)
{
    *ret = 3;
    return getenv("FAKE_HIP_DEVICE") ? SUCCESS : NO_DEVICE;
}

/* Offset of the architecture's name (gcnArchName) in HIP 6's hipDeviceProp_t. */
#define ARCHITECTURE_AT 1160

DECLARED(int, hipGetDevicePropertiesR0600, char *properties, int device)
{
    const char *architecture = getenv("FAKE_HIP_DEVICE");
    if (!architecture || device != 3)
        return NO_DEVICE;
    snprintf(properties, 256, "AMD gfx that is only a name");
    snprintf(properties + ARCHITECTURE_AT, 256, "%s", architecture);
    return SUCCESS;
}

static int create(struct program **ret, const char *source)
{
    struct program *p = calloc(1, sizeof(*p));
    snprintf(p->source, sizeof(p->source), "%s", source);
    *ret = p;
    return SUCCESS;
}

API int hiprtcCreateProgram(struct program **ret, const char *source, const char *name, int count,
                            const char *const *headers, const char *const *names);
int hiprtcCreateProgram(struct program **ret, const char *source, const char *name, int count,
                        const char *const *headers, const char *const *names)
{
    (void)name;
    (void)count;
    (void)headers;
    (void)names;
    return create(ret, source);
}

DECLARED(int, hiprtcDestroyProgram, struct program **p)
{
    free(*p);
    *p = NULL;
    return SUCCESS;
}

DECLARED(int, hiprtcAddNameExpression, struct program *p, const char *expression)
{
    (void)p;
    (void)expression;
    return SUCCESS;
}

static void note_compile(void)
{
    const char *log = getenv("FAKE_NVRTC_LOG");
    if (!log)
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, "compile\n", 8) != 8)
        abort();
    close(fd);
}

/* Like comgr, writes and reads a temporary file. Also looks for clang's files in the current
 * directory. */
static void use_temporary_file(void)
{
    char directory[400], path[440], read[16] = "";
    const char *temporary = getenv("TMPDIR");
    (void)access("lib/clang", R_OK);
    snprintf(directory, sizeof(directory), "%s/fake-comgr-%d", temporary ? temporary : "/tmp",
             (int)getpid());
    snprintf(path, sizeof(path), "%s/input", directory);
    if (mkdir(directory, 0700))
        abort();
    FILE *file = fopen(path, "w");
    fputs("content", file);
    fclose(file);
    file = fopen(path, "r");
    if (!fgets(read, sizeof(read), file) || strcmp(read, "content") != 0)
        abort();
    fclose(file);
    unlink(path);
    rmdir(directory);
}

/* Like comgr 3, stores its result in a cache of its own, and reads the result from there. */
static void use_cache(const char *directory)
{
    char entry[200], temporary[200], stamp[200];
    struct stat seen;
    snprintf(entry, sizeof(entry), "%s/llvmcache-0123", directory);
    snprintf(temporary, sizeof(temporary), "%s/amdgpu-compiler-a1b2c3.tmp.o", directory);
    snprintf(stamp, sizeof(stamp), "%s/llvmcache.timestamp", directory);
    FILE *file = fopen(entry, "r");
    if (!file) {
        file = fopen(temporary, "w");
        if (!file || rename(temporary, entry))
            abort();
    }
    fclose(file);
    (void)stat(stamp, &seen);
}

static void *open_host_file(void *unused)
{
    FILE *file = fopen("/etc/hostname", "r");
    if (file)
        fclose(file);
    return unused;
}

/* Does what the source requests, such as starting a process. libkiln-rtc must not store the result
 * of such a compile. */
static void do_what_the_source_says(const char *source)
{
    char name[] = "true", *const arguments[] = { name, NULL };
    pthread_t thread;
    pid_t child;
    const struct timespec until = { .tv_sec = time(NULL) + 60 };
    if (strstr(source, "thread") && (pthread_create(&thread, NULL, open_host_file, NULL) ||
                                     pthread_timedjoin_np(thread, NULL, &until)))
        abort();
    if (strstr(source, "process"))
        (void)posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL);
}

static void write_code(struct program *p, const char *architecture)
{
    static const struct {
        const char *name;
        unsigned machine;
    } machines[] = { { "gfx906", 0x2f }, { "gfx90a", 0x3f }, { "gfx1030", 0x36 } };
    Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
                          .e_machine = 224 /* AMD GPU */ };
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        if (strncmp(architecture, machines[i].name, strlen(machines[i].name)) == 0)
            header.e_flags = machines[i].machine;
    memcpy(p->code, &header, sizeof(header));
    p->code_size = sizeof(header) + (size_t)snprintf(p->code + sizeof(header),
                                                     sizeof(p->code) - sizeof(header), "%s:%s",
                                                     architecture, p->source);
}

DECLARED(int, hiprtcCompileProgram, struct program *p, int count, const char *const *options)
{
    char properties[4096] = "";
    const char *architecture = properties + ARCHITECTURE_AT;
    int device;
    note_compile();
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "--offload-arch=", 15) == 0 ||
            strncmp(options[i], "--gpu-architecture=", 19) == 0)
            architecture = strchr(options[i], '=') + 1;
    if (architecture == properties + ARCHITECTURE_AT &&
        (hipGetDevice(&device) || hipGetDevicePropertiesR0600(properties, device)))
        return COMPILATION;
    use_temporary_file();
    if (getenv("AMD_COMGR_CACHE_DIR"))
        use_cache(getenv("AMD_COMGR_CACHE_DIR"));
    do_what_the_source_says(p->source);
    write_code(p, architecture);
    return SUCCESS;
}

DECLARED(int, hiprtcGetLoweredName, struct program *p, const char *expression, const char **ret)
{
    (void)p;
    (void)expression;
    *ret = "_Z1tIfEvPT_";
    return SUCCESS;
}

DECLARED(int, hiprtcGetCodeSize, struct program *p, size_t *ret)
{
    *ret = p->code_size;
    return SUCCESS;
}

DECLARED(int, hiprtcGetCode, struct program *p, char *ret)
{
    memcpy(ret, p->code, p->code_size);
    return SUCCESS;
}

DECLARED(int, hiprtcGetProgramLogSize, struct program *p, size_t *ret)
{
    (void)p;
    *ret = 0;
    return SUCCESS;
}

DECLARED(int, hiprtcGetProgramLog, struct program *p, char *ret)
{
    (void)p;
    (void)ret;
    return SUCCESS;
}

DECLARED(int, hiprtcVersion, int *ret_major, int *ret_minor)
{
    *ret_major = 99;
    *ret_minor = 0;
    return SUCCESS;
}

DECLARED(const char *, hiprtcGetErrorString, int result)
{
    return result ? "FAKE_ERROR" : "FAKE_SUCCESS";
}

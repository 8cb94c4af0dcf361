/* SPDX-License-Identifier: MIT */
/* A HIP runtime for tests: libamdhip64.so.6 with one device. An emulator in another process runs
 * the device's kernels (tests/emulated/serve_emulator.py).
 *
 * The device's memory is a file that both processes map at the same address.  The runtime sends
 * code objects and launches through a socket, one request a line, and waits for each answer:
 *
 *     load ADDRESS SIZE              -> ok MODULE
 *     function MODULE NAME           -> ok FUNCTION SIZE...      sizes of the arguments
 *     launch FUNCTION GX GY GZ BX BY BZ SHARED VALUE...  -> ok
 *
 * The emulator reports an error with an answer that begins with "no".  Environment: KILN_EMULATOR,
 * the directory with the socket and the memory; KILN_EMULATED_ARCH, such as gfx90a. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define MEMORY_AT ((char *)0x200000000000)
#define MEMORY_BYTES ((size_t)4 << 30)
#define LINE_MAX_BYTES 8192
#define ARGUMENTS_MAX 64
#define ARCH_AT 1160 /* offset of gcnArchName in hipDeviceProp_t since ROCm 6.0 */
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, LAUNCH_FAILURE = 719 };

static FILE *emulator;
static size_t used; /* bytes of the device's memory in use; freed memory is not reused */

struct function {
    unsigned number, count, sizes[ARGUMENTS_MAX];
};

static int fail(const char *what)
{
    fprintf(stderr, "emulated HIP runtime: %s\n", what);
    return INVALID_VALUE;
}

/* Sends |line|, and replaces it by the answer without "ok". Returns 0, or an error if the answer
 * does not begin with "ok". */
static int ask(char line[LINE_MAX_BYTES])
{
    if (fputs(line, emulator) < 0 || fflush(emulator) || !fgets(line, LINE_MAX_BYTES, emulator))
        return fail("the emulator is gone");
    if (strncmp(line, "ok", 2) != 0)
        return fail(line);
    memmove(line, line + 2, strlen(line + 2) + 1);
    return 0;
}

static int open_connection(const char *directory)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        return fail("cannot connect to the emulator");
    emulator = fdopen(fd, "r+");
    return emulator ? 0 : fail("out of memory");
}

static int map_memory(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/memory", directory);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(MEMORY_AT, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MEMORY_AT ? 0 : fail("cannot map the emulator's memory");
}

PUBLIC int hipInit(unsigned flags);
int hipInit(unsigned flags)
{
    const char *directory = getenv("KILN_EMULATOR");
    (void)flags;
    if (emulator)
        return 0;
    if (!directory || !getenv("KILN_EMULATED_ARCH"))
        return fail("KILN_EMULATOR or KILN_EMULATED_ARCH is not set");
    return open_connection(directory) || map_memory(directory) ? INVALID_VALUE : 0;
}

#define ONE(function, type, value)  \
    PUBLIC int function(type *ret); \
    int function(type *ret)         \
    {                               \
        *ret = (value);             \
        return 0;                   \
    }
ONE(hipRuntimeGetVersion, int, 60000000)
ONE(hipGetDeviceCount, int, 1)
ONE(hipGetDevice, int, 0)

PUBLIC const char *hipGetErrorName(int status);
const char *hipGetErrorName(int status) { return status ? "hipErrorUnknown" : "hipSuccess"; }
PUBLIC int hipGetLastError(void);
int hipGetLastError(void) { return 0; }
PUBLIC int hipSetDevice(int device);
int hipSetDevice(int device) { return device ? INVALID_VALUE : 0; }

PUBLIC int hipDeviceGet(int *ret_device, int index);
int hipDeviceGet(int *ret_device, int index)
{
    *ret_device = index;
    return 0;
}

PUBLIC int hipDeviceGetName(char *name, int size, int device);
int hipDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "emulated %s", getenv("KILN_EMULATED_ARCH"));
    return 0;
}

PUBLIC int hipDeviceGetAttribute(int *ret, int attribute, int device);
int hipDeviceGetAttribute(int *ret, int attribute, int device)
{
    (void)device;
    *ret = attribute == 63 ? 8 : 0; /* multiprocessors */
    return 0;
}

PUBLIC int hipDeviceTotalMem(size_t *ret, int device);
int hipDeviceTotalMem(size_t *ret, int device)
{
    (void)device;
    *ret = MEMORY_BYTES;
    return 0;
}

PUBLIC int hipDeviceGetPCIBusId(char *id, int size, int device);
int hipDeviceGetPCIBusId(char *id, int size, int device)
{
    snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
    return 0;
}

PUBLIC int hipGetDevicePropertiesR0600(void *properties, int device);
int hipGetDevicePropertiesR0600(void *properties, int device)
{
    (void)device;
    snprintf((char *)properties + ARCH_AT, 256, "%s", getenv("KILN_EMULATED_ARCH"));
    return 0;
}

PUBLIC int hipMalloc(void **ret, size_t bytes);
int hipMalloc(void **ret, size_t bytes)
{
    size_t size = (bytes + 255) / 256 * 256;
    if (size > MEMORY_BYTES - used)
        return OUT_OF_MEMORY;
    *ret = MEMORY_AT + used;
    used += size;
    return 0;
}

PUBLIC int hipFree(void *memory);
int hipFree(void *memory)
{
    (void)memory;
    return 0;
}

PUBLIC int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream);
int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy(to, from, bytes);
    return 0;
}

PUBLIC int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream);
int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream)
{
    return hipMemcpyHtoDAsync(to, from, bytes, stream);
}

PUBLIC int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    memset(to, value, bytes);
    return 0;
}

static int token;

#define MADE(function)                               \
    PUBLIC int function(void **ret, unsigned flags); \
    int function(void **ret, unsigned flags)         \
    {                                                \
        (void)flags;                                 \
        *ret = &token;                               \
        return 0;                                    \
    }
#define NOTHING(function)              \
    PUBLIC int function(void *object); \
    int function(void *object)         \
    {                                  \
        (void)object;                  \
        return 0;                      \
    }
MADE(hipStreamCreateWithFlags)
MADE(hipEventCreateWithFlags)
NOTHING(hipStreamDestroy)
NOTHING(hipStreamSynchronize)
NOTHING(hipEventDestroy)
NOTHING(hipEventSynchronize)
NOTHING(hipModuleUnload)

PUBLIC int hipEventRecord(void *event, void *stream);
int hipEventRecord(void *event, void *stream)
{
    (void)event;
    (void)stream;
    return 0;
}

PUBLIC int hipEventElapsedTime(float *ret_ms, void *begin, void *end);
int hipEventElapsedTime(float *ret_ms, void *begin, void *end)
{
    (void)begin;
    (void)end;
    *ret_ms = 1; /* a made-up time, because an emulated kernel's time says nothing about a GPU */
    return 0;
}

/* Returns the size of an ELF file, whose section headers must be at its end. */
static size_t size_of_image(const unsigned char *image)
{
    uint64_t at;
    uint16_t size, count;
    memcpy(&at, image + 40, sizeof(at));
    memcpy(&size, image + 58, sizeof(size));
    memcpy(&count, image + 60, sizeof(count));
    return at + (size_t)size * count;
}

PUBLIC int hipModuleLoadData(void **ret_module, const void *image);
int hipModuleLoadData(void **ret_module, const void *image)
{
    size_t size = size_of_image(image);
    char line[LINE_MAX_BYTES];
    void *copy = NULL;
    int status = hipMalloc(&copy, size);
    if (status)
        return status;
    memcpy(copy, image, size);
    snprintf(line, sizeof(line), "load %zu %zu\n", (size_t)copy, size);
    status = ask(line);
    *ret_module = (void *)(uintptr_t)strtoul(line, NULL, 10);
    return status;
}

PUBLIC int hipModuleGetFunction(void **ret_function, void *module, const char *name);
int hipModuleGetFunction(void **ret_function, void *module, const char *name)
{
    char line[LINE_MAX_BYTES], *at = line;
    struct function *f = calloc(1, sizeof(*f));
    snprintf(line, sizeof(line), "function %zu %s\n", (size_t)module, name);
    int status = f ? ask(line) : OUT_OF_MEMORY;
    if (status) {
        free(f);
        return status;
    }
    f->number = (unsigned)strtoul(at, &at, 10);
    while (*at == ' ' && f->count < ARGUMENTS_MAX)
        f->sizes[f->count++] = (unsigned)strtoul(at, &at, 10);
    *ret_function = f; /* never freed; this runtime cannot unload modules */
    return 0;
}

#define LAUNCH                                                                               \
    void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned group_x,     \
        unsigned group_y, unsigned group_z, unsigned shared, void *stream, void **arguments, \
        void **extra

PUBLIC int hipModuleLaunchKernel(LAUNCH);
int hipModuleLaunchKernel(LAUNCH)
{
    const struct function *f = function;
    char line[LINE_MAX_BYTES];
    int at = snprintf(line, sizeof(line), "launch %u %u %u %u %u %u %u %u", f->number, grid_x,
                      grid_y, grid_z, group_x, group_y, group_z, shared);
    (void)stream;
    (void)extra;
    for (unsigned i = 0; i < f->count; i++) {
        uint64_t value = 0;
        if (f->sizes[i] > sizeof(value))
            return fail("an argument is larger than 8 bytes");
        memcpy(&value, arguments[i], f->sizes[i]);
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %llu", (unsigned long long)value);
    }
    snprintf(line + at, sizeof(line) - (size_t)at, "\n");
    return ask(line) ? LAUNCH_FAILURE : 0;
}

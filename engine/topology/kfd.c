/* SPDX-License-Identifier: MIT */
#include "engine/topology/kfd.h"

#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A node's properties are about 800 bytes today. */
#define PROPERTIES_MOST (64u << 10)
/* The largest hosts have some hundred nodes: 8 devices in 8 partitions, and their CPUs. */
#define NODES_MOST 4096
/* No GPU has nearly as many; more is nonsense. */
#define COMPUTE_UNITS_MOST 65535

struct properties {
    uint64_t simd_count, simd_per_cu, gfx_target_version, vendor_id, device_id, unique_id;
    unsigned seen; /* bit i: row i of |properties| was there */
};

static const struct {
    const char *name;
    size_t offset;
} properties[] = {
#define PROPERTY(name)                           \
    {                                            \
#name, offsetof(struct properties, name) \
    }
    PROPERTY(simd_count), PROPERTY(simd_per_cu), PROPERTY(gfx_target_version),
    PROPERTY(vendor_id),  PROPERTY(device_id),   PROPERTY(unique_id),
#undef PROPERTY
};

static const struct {
    unsigned first, last; /* PCI device ids */
    const char *arch;
} pci_devices[] = {
#define PCI_DEVICES(first, last, arch) { first, last, arch },
#include "engine/topology/pci_devices.def"
#undef PCI_DEVICES
};

#define VENDOR_AMD 0x1002

/* Digits and nothing else, at most |most|. */
static bool parse_number(const char *text, size_t size, uint64_t most, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (digit > 9 || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return size > 0;
}

/* A line is "name value"; names that nobody here asks for are passed over.  NULL, or what is wrong
 * with it. */
static const char *read_line(struct properties *p, const char *line, size_t size)
{
    const char *blank = memchr(line, ' ', size);
    for (size_t i = 0; blank && i < sizeof(properties) / sizeof(properties[0]); i++) {
        const char *name = properties[i].name;
        if (strlen(name) != (size_t)(blank - line) || memcmp(line, name, strlen(name)) != 0)
            continue;
        uint64_t *value = (uint64_t *)((char *)p + properties[i].offset);
        size_t digits = size - (size_t)(blank + 1 - line);
        if ((p->seen & (1u << i)) || !parse_number(blank + 1, digits, UINT64_MAX, value))
            return name;
        p->seen |= 1u << i;
        return NULL;
    }
    return NULL;
}

static const char *read_lines(struct properties *p, struct bytes text)
{
    const char *at = (const char *)text.data;
    for (size_t left = text.size; left > 0;) {
        const char *newline = memchr(at, '\n', left);
        size_t size = newline ? (size_t)(newline - at) : left;
        const char *bad = read_line(p, at, size);
        if (bad)
            return bad;
        size_t step = size + (newline ? 1 : 0);
        at += step;
        left -= step;
    }
    return NULL;
}

/* Not blocking: what stands in for a regular file might be a pipe. */
static enum kiln_code read_text(const char *folder, uint64_t node, struct buffer *ret_text,
                                int *ret_errno, struct kiln_err *err)
{
    char path[4096];
    int size = snprintf(path, sizeof(path), "%s/%" PRIu64 "/properties", folder, node);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "its path is too long");
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0) {
        *ret_errno = errno;
        return kiln_fail_errno(err, errno, "no properties");
    }
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "properties is no file");
    errno = 0;
    enum kiln_code rc = fs_read_fd(fd, PROPERTIES_MOST, ret_text, err);
    if (rc)
        *ret_errno = errno;
    return rc;
}

static const char *arch_of_device(const struct properties *p)
{
    for (size_t i = 0; i < sizeof(pci_devices) / sizeof(pci_devices[0]); i++) {
        if (p->vendor_id == VENDOR_AMD && p->device_id >= pci_devices[i].first &&
            p->device_id <= pci_devices[i].last)
            return pci_devices[i].arch;
    }
    return NULL;
}

/* 90010 is gfx90a: major, minor, stepping, each of two decimal digits, the latter two written as
 * one hexadecimal one. */
static bool set_arch(struct gpu *gpu, const struct properties *p)
{
    uint64_t version = p->gfx_target_version;
    if (version == 0) {
        const char *arch = arch_of_device(p);
        if (arch)
            snprintf(gpu->arch, sizeof(gpu->arch), "%s", arch);
        return arch;
    }
    unsigned major = (unsigned)(version / 10000 % 100), minor = (unsigned)(version / 100 % 100),
             stepping = (unsigned)(version % 100);
    if (version >= 1000000 || major < 6 || minor > 15 || stepping > 15)
        return false;
    snprintf(gpu->arch, sizeof(gpu->arch), "gfx%u%x%x", major, minor, stepping);
    return true;
}

/* gfx10 and later report work group processors, two compute units each. */
static bool set_compute_units(struct gpu *gpu, const struct properties *p)
{
    bool pairs = strlen(gpu->arch) > strlen("gfx90a");
    uint64_t per_unit = p->simd_per_cu <= 64 ? p->simd_per_cu * (pairs ? 2 : 1) : 0;
    uint64_t units = per_unit ? p->simd_count / per_unit : 0;
    if (units == 0 || units > COMPUTE_UNITS_MOST || p->simd_count % per_unit != 0)
        return false;
    gpu->compute_units = (unsigned)units;
    return true;
}

static bool set_database_id(struct gpu *gpu)
{
    struct database_id id = { .compute_units = gpu->compute_units };
    snprintf(id.device, sizeof(id.device), "%s", gpu->arch);
    return database_id_write(&id, gpu->database_id);
}

/* |ret_gpu| has no compute units when the node is no GPU, or one that is hidden from us. */
static enum kiln_code read_gpu(const char *folder, uint64_t node, struct gpu *ret_gpu,
                               struct kiln_err *err)
{
    *ret_gpu = (struct gpu){ .node = (unsigned)node };
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, PROPERTIES_MOST + 1);
    int errnum = 0;
    enum kiln_code rc = read_text(folder, node, &text, &errnum, err);
    if (rc)
        return errnum == EPERM ? KILN_OK : rc; /* the cgroup hides this device */

    struct properties p = { 0 };
    const char *bad = read_lines(&p, buffer_view(&text));
    if (bad)
        return kiln_fail(err, KILN_INVALID, "%s makes no sense", bad);
    if (!(p.seen & 1u)) /* the first row of |properties| */
        return kiln_fail(err, KILN_INVALID, "no simd_count");
    if (p.simd_count == 0)
        return KILN_OK;

    struct gpu gpu = { .node = (unsigned)node, .unique_id = p.unique_id };
    if (!set_arch(&gpu, &p))
        return kiln_fail(err, KILN_INVALID,
                         "unknown device %#" PRIx64 ", gfx_target_version %" PRIu64, p.device_id,
                         p.gfx_target_version);
    if (!set_compute_units(&gpu, &p) || !set_database_id(&gpu))
        return kiln_fail(err, KILN_INVALID, "%" PRIu64 " SIMDs, %" PRIu64 " in a compute unit",
                         p.simd_count, p.simd_per_cu);
    if (gpu.unique_id)
        snprintf(gpu.uuid, sizeof(gpu.uuid), "GPU-%016" PRIx64, gpu.unique_id);
    *ret_gpu = gpu;
    return KILN_OK;
}

static int by_number(const void *left, const void *right)
{
    unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;
    return (a > b) - (a < b);
}

/* The numbers that |folder| has entries for, in order; *ret_more: there are more than fit. */
static enum kiln_code list_nodes(const char *folder, unsigned nodes[NODES_MOST], size_t *ret_count,
                                 bool *ret_more, struct kiln_err *err)
{
    size_t count = 0;
    *ret_more = false;
    DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot look for GPUs in '%s'", folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        uint64_t number;
        size_t size = strlen(e->d_name);
        if ((e->d_name[0] == '0' && size > 1) ||
            !parse_number(e->d_name, size, UINT32_MAX, &number))
            continue;
        *ret_more |= count == NODES_MOST;
        if (count < NODES_MOST)
            nodes[count++] = (unsigned)number;
    }
    if (dir)
        closedir(dir);
    qsort(nodes, count, sizeof(nodes[0]), by_number);
    *ret_count = count;
    return KILN_OK;
}

KILN_PRINTF(2, 3)
static void note(char skipped[256], const char *fmt, ...)
{
    size_t used = strlen(skipped);
    if (used > 0 && used < 254)
        used += (size_t)snprintf(skipped + used, 256 - used, "; ");
    va_list args;
    va_start(args, fmt);
    vsnprintf(skipped + used, 256 - used, fmt, args);
    va_end(args);
}

enum kiln_code kfd_gpus(const char *folder, struct gpu ret_gpus[GPUS_MOST], size_t *ret_count,
                        char ret_skipped[256], struct kiln_err *err)
{
    unsigned nodes[NODES_MOST];
    size_t node_count = 0, count = 0, beyond = 0;
    bool more = false;
    enum kiln_code rc = list_nodes(folder, nodes, &node_count, &more, err);
    if (rc)
        return rc;
    ret_skipped[0] = '\0';
    for (size_t i = 0; i < node_count; i++) {
        struct gpu gpu;
        struct kiln_err why = KILN_ERR_INIT;
        rc = read_gpu(folder, nodes[i], &gpu, &why);
        if (rc)
            note(ret_skipped, "node %u: %s", nodes[i], why.text);
        else if (gpu.compute_units && count == GPUS_MOST)
            beyond++;
        else if (gpu.compute_units)
            ret_gpus[count++] = gpu;
    }
    if (beyond)
        note(ret_skipped, "%zu more GPUs than the %d that are looked at", beyond, GPUS_MOST);
    if (more)
        note(ret_skipped, "more than %d nodes", NODES_MOST);
    *ret_count = count;
    return KILN_OK;
}

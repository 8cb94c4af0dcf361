/* SPDX-License-Identifier: MIT */
#include "engine/topology/kfd.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/topology/kfd_properties.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NODES_MAX 4096
#define COMPUTE_UNITS_MAX 65535

struct properties {
    uint64_t simd_count, simd_per_cu, gfx_target_version, vendor_id, device_id, unique_id,
        capability, num_xcc, local_mem_size, mem_banks_count;
};

#define SEEN_SIMD_COUNT 1u /* bit in kfd_properties.seen of the first row, simd_count */
static const struct kfd_property properties[] = {
#define PROPERTY(name)                           \
    {                                            \
#name, offsetof(struct properties, name) \
    }
    PROPERTY(simd_count),      PROPERTY(simd_per_cu), PROPERTY(gfx_target_version),
    PROPERTY(vendor_id),       PROPERTY(device_id),   PROPERTY(unique_id),
    PROPERTY(capability),      PROPERTY(num_xcc),     PROPERTY(local_mem_size),
    PROPERTY(mem_banks_count),
#undef PROPERTY
};
#define PROPERTY_COUNT (sizeof(properties) / sizeof(properties[0]))

static const struct {
    unsigned first, last;
    const char *arch;
} pci_devices[] = {
#define PCI_DEVICES(first, last, arch) { first, last, arch },
#include "engine/topology/pci_devices.def"
#undef PCI_DEVICES
};

#define VENDOR_AMD 0x1002
#define CAPABILITY_SRAMECC (1u << 26) /* HSA_CAP_SRAM_EDCSUPPORTED */
#define XCC_MAX 64
#define MEMORY_BANKS_MAX 64

static const char *arch_of_device(const struct properties *p)
{
    for (size_t i = 0; i < sizeof(pci_devices) / sizeof(pci_devices[0]); i++) {
        if (p->vendor_id == VENDOR_AMD && p->device_id >= pci_devices[i].first &&
            p->device_id <= pci_devices[i].last)
            return pci_devices[i].arch;
    }
    return NULL;
}

/* Sets the arch. gfx_target_version has two decimal digits each for major, minor and stepping. The
 * arch has one hexadecimal digit each for minor and stepping: 90010 is gfx90a. */
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

/* Counts compute units or, for gfx10 and later, work group processors, which have two compute units
 * each. */
static bool set_compute_units(struct gpu *gpu, const struct properties *p)
{
    bool pairs = strlen(gpu->arch) > strlen("gfx90a");
    uint64_t per_unit = p->simd_per_cu <= 64 ? p->simd_per_cu * (pairs ? 2 : 1) : 0;
    uint64_t units = per_unit ? p->simd_count / per_unit : 0;
    if (units == 0 || units > COMPUTE_UNITS_MAX || p->simd_count % per_unit != 0)
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

/* Sets the target, with sramecc only if the driver states gfx_target_version: older drivers do not
 * state sramecc, or use another bit for it. */
static void set_target(struct gpu *gpu, const struct properties *p)
{
    static const char *const with_sramecc[] = { "gfx906", "gfx908", "gfx90a", "gfx940",
                                                "gfx941", "gfx942", "gfx950" };
    snprintf(gpu->target, sizeof(gpu->target), "%s", gpu->arch);
    for (size_t i = 0; i < sizeof(with_sramecc) / sizeof(with_sramecc[0]); i++)
        if (p->gfx_target_version && strcmp(gpu->arch, with_sramecc[i]) == 0)
            snprintf(gpu->target, sizeof(gpu->target), "%s:sramecc%c", gpu->arch,
                     p->capability & CAPABILITY_SRAMECC ? '+' : '-');
}

static enum kiln_code describe_gpu(const struct properties *p, struct gpu *gpu,
                                   struct kiln_err *err)
{
    if (!set_arch(gpu, p))
        return kiln_fail(err, KILN_INVALID,
                         "unknown device %#" PRIx64 ", gfx_target_version %" PRIu64, p->device_id,
                         p->gfx_target_version);
    if (!set_compute_units(gpu, p) || !set_database_id(gpu))
        return kiln_fail(err, KILN_INVALID,
                         "%" PRIu64 " SIMDs cannot form compute units of %" PRIu64, p->simd_count,
                         p->simd_per_cu);
    set_target(gpu, p);
    gpu->unique_id = p->unique_id;
    if (gpu->unique_id)
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%016" PRIx64, gpu->unique_id);
    gpu->xcc = p->num_xcc <= XCC_MAX ? (unsigned)p->num_xcc : 0;
    gpu->local_memory = p->local_mem_size;
    gpu->memory_banks = p->mem_banks_count <= MEMORY_BANKS_MAX ? (unsigned)p->mem_banks_count : 0;
    return KILN_OK;
}

/* Reads one node. If the node is not a GPU, or is hidden from this process,
 * |ret_gpu|->compute_units is 0. */
static enum kiln_code read_gpu(const char *directory, unsigned node, struct gpu *ret_gpu,
                               struct kiln_err *err)
{
    char path[4096];
    struct gpu gpu = { .node = node };
    struct properties p = { 0 };
    struct kfd_properties reading = { .rows = properties, .count = PROPERTY_COUNT, .numbers = &p };
    int errnum = 0;
    *ret_gpu = gpu;
    int size = snprintf(path, sizeof(path), "%s/%u/properties", directory, node);
    if (size < 0 || (size_t)size >= sizeof(path))
        return kiln_fail(err, KILN_INVALID, "its path is too long");
    enum kiln_code rc = kfd_properties_read(path, &reading, &errnum, err);
    if (rc)
        return errnum == EPERM ? KILN_OK : rc; /* the cgroup hides this device from the process */
    if (!(reading.seen & SEEN_SIMD_COUNT))
        return kiln_fail(err, KILN_INVALID, "it states no simd_count");
    if (p.simd_count == 0)
        return KILN_OK;
    rc = describe_gpu(&p, &gpu, err);
    if (!rc)
        *ret_gpu = gpu;
    return rc;
}

static int by_number(const void *left, const void *right)
{
    unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;
    return (a > b) - (a < b);
}

static enum kiln_code list_nodes(const char *directory, unsigned nodes[NODES_MAX],
                                 size_t *ret_count, bool *ret_more, struct kiln_err *err)
{
    size_t count = 0;
    *ret_more = false;
    DIR *dir = opendir(directory);
    if (!dir && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot look for GPUs in '%s'", directory);
    for (struct dirent *e; dir && (e = fs_next_entry(dir));) {
        uint64_t number;
        size_t size = strlen(e->d_name);
        if ((e->d_name[0] == '0' && size > 1) ||
            !kfd_parse_number(e->d_name, size, UINT32_MAX, &number))
            continue;
        *ret_more |= count == NODES_MAX;
        if (count < NODES_MAX)
            nodes[count++] = (unsigned)number;
    }
    int number = dir ? errno : 0;
    if (dir)
        closedir(dir);
    if (number)
        return kiln_fail_errno(err, number, "cannot look for GPUs in '%s'", directory);
    qsort(nodes, count, sizeof(nodes[0]), by_number);
    *ret_count = count;
    return KILN_OK;
}

KILN_PRINTF(2, 3)
static void note_skipped(char skipped[256], const char *fmt, ...)
{
    size_t used = strlen(skipped);
    if (used > 0 && used < 254)
        used += (size_t)snprintf(skipped + used, 256 - used, "; ");
    va_list args;
    va_start(args, fmt);
    vsnprintf(skipped + used, 256 - used, fmt, args);
    va_end(args);
}

enum kiln_code kfd_gpus(const char *directory, struct gpu ret_gpus[GPUS_MAX], size_t *ret_count,
                        char ret_skipped[256], struct kiln_err *err)
{
    unsigned nodes[NODES_MAX];
    size_t node_count = 0, count = 0, beyond = 0;
    bool more = false;
    enum kiln_code rc = list_nodes(directory, nodes, &node_count, &more, err);
    if (rc)
        return rc;
    ret_skipped[0] = '\0';
    for (size_t i = 0; i < node_count; i++) {
        struct gpu gpu;
        struct kiln_err why = KILN_ERR_INIT;
        rc = read_gpu(directory, nodes[i], &gpu, &why);
        if (rc)
            note_skipped(ret_skipped, "node %u: %s", nodes[i], why.text);
        else if (gpu.compute_units && count == GPUS_MAX)
            beyond++;
        else if (gpu.compute_units)
            ret_gpus[count++] = gpu;
    }
    if (beyond)
        note_skipped(ret_skipped, "%zu GPUs beyond the limit of %d", beyond, GPUS_MAX);
    if (more)
        note_skipped(ret_skipped, "there are more than %d nodes", NODES_MAX);
    *ret_count = count;
    return KILN_OK;
}

struct bank {
    uint64_t heap_type, size_in_bytes;
};

static const struct kfd_property bank_properties[] = {
    { "heap_type", offsetof(struct bank, heap_type) },
    { "size_in_bytes", offsetof(struct bank, size_in_bytes) },
};

static bool is_of_device(const struct bank *bank)
{
    return bank->heap_type == 1 || bank->heap_type == 2;
}

uint64_t kfd_memory(const char *directory, const struct gpu *gpu)
{
    uint64_t sum = gpu->local_memory;
    for (unsigned i = 0; gpu->local_memory == 0 && i < gpu->memory_banks; i++) {
        char path[4096];
        struct bank bank = { 0 };
        struct kiln_err ignored = KILN_ERR_INIT;
        struct kfd_properties reading = { .rows = bank_properties, .count = 2, .numbers = &bank };
        int errnum;
        int size =
            snprintf(path, sizeof(path), "%s/%u/mem_banks/%u/properties", directory, gpu->node, i);
        if (size < 0 || (size_t)size >= sizeof(path) ||
            kfd_properties_read(path, &reading, &errnum, &ignored) || reading.seen != 3u ||
            (is_of_device(&bank) && bank.size_in_bytes > UINT64_MAX - sum))
            return 0; /* the total is unknown: the sum of the other banks would be wrong */
        sum += is_of_device(&bank) ? bank.size_in_bytes : 0;
    }
    return sum;
}

const char *kfd_partition_mode(unsigned nodes, unsigned xcc)
{
    if (xcc == 0 || (xcc == 1 && nodes == 1))
        return "";
    if (xcc == 1)
        return "CPX";
    switch (nodes) {
    case 1: return "SPX";
    case 2: return "DPX";
    case 3: return "TPX";
    case 4: return "QPX";
    default: return "";
    }
}

unsigned kfd_partitions(const struct gpu *gpus, size_t count, const struct gpu *gpu)
{
    unsigned nodes = 0;
    for (size_t i = 0; i < count; i++)
        nodes += gpu->unique_id && gpus[i].unique_id == gpu->unique_id;
    return nodes ? nodes : 1;
}

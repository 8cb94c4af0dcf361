/* SPDX-License-Identifier: MIT */
/*
 * HIP has one context per device, which libkiln shares with the job. driver.c implements the
 * operations.
 */
#include "common/target/target.h"
#include "libclient/device/elf_check.h"
#include "libclient/device/hip_library.h"
#include "libclient/device/text_file.h"
#include "libclient/device/uuid.h"

#include <stdio.h>
#include <string.h>

/* Values of hipDeviceAttribute_t, which are the same from ROCm 5.0 to 7. */
#define ATTRIBUTE_CLOCK_KHZ 5
#define ATTRIBUTE_MULTIPROCESSORS 63

/* Offset of gcnArchName (256 bytes) in hipDeviceProp_t.  ROCm 6.0 changed the layout of this
 * struct.  A function with a new name fills the new layout.  The function with the old name still
 * fills the old layout. */
#define ARCH_AT_R0600 1160
#define ARCH_AT_BEFORE 396
#define ARCH_SIZE 256
/* Size of the buffer for hipDeviceProp_t.  The new struct has 1472 bytes, and later releases may
 * append fields. */
#define PROPERTIES_SIZE 8192

#define KERNEL_MODULE_VERSION "/sys/module/amdgpu/version"

struct hip_device {
    struct driver_device driver;
    const struct hip_library *hip;
};

static struct hip_device *hip_of(struct driver_device *d) { return (struct hip_device *)d; }

static enum kiln_code hip_enter(struct driver_device *d, struct driver_scope *scope,
                                struct kiln_err *err)
{
    const struct hip_library *hip = hip_of(d)->hip;
    int previous = -1;
    int status = hip->hipGetDevice(&previous);
    if (!status && previous == d->ordinal)
        return KILN_OK;
    if (!status)
        status = hip->hipSetDevice(d->ordinal);
    if (status)
        return driver_fail(d->kind, err, status, "cannot make %s the current device", d->base.name);
    scope->device = d;
    scope->previous = previous;
    return KILN_OK;
}

static const char *hip_status_name(int status)
{
    const struct hip_library *hip = NULL;
    struct kiln_err ignored = KILN_ERR_INIT;
    return hip_library_use(&hip, &ignored) == KILN_OK ? hip->hipGetErrorName(status) : NULL;
}

/* Clears HIP's last error, so that the job's hipGetLastError() does not return libkiln's
 * failure. */
static void hip_forget_failure(void)
{
    const struct hip_library *hip = NULL;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (hip_library_use(&hip, &ignored) == KILN_OK)
        (void)hip->hipGetLastError();
}

static bool has_succeeded(int status)
{
    if (status)
        hip_forget_failure();
    return status == 0;
}

static void hip_leave(struct driver_scope *scope)
{
    (void)has_succeeded(hip_of(scope->device)->hip->hipSetDevice(scope->previous));
}

static void hip_close(struct driver_device *d) { (void)d; }

static const struct driver_kind hip_kind = {
    .runtime = "the HIP runtime",
    .elf_machine = ELF_MACHINE_AMDGPU,
    .enter = hip_enter,
    .leave = hip_leave,
    .status_name = hip_status_name,
    .forget_failure = hip_forget_failure,
    .close = hip_close,
};

static enum kiln_code start_hip(const struct hip_library **ret_hip, int *ret_count,
                                struct kiln_err *err)
{
    const struct hip_library *hip = NULL;
    enum kiln_code rc = hip_library_use(&hip, err);
    if (rc)
        return rc;
    int status = hip->hipInit(0);
    int count = 0;
    if (status == 0)
        status = hip->hipGetDeviceCount(&count);
    if (status || count <= 0) {
        const char *name = status ? hip->hipGetErrorName(status) : "there is none";
        char note[260];
        device_hidden_note("hip", note, sizeof(note));
        hip_forget_failure();
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the HIP runtime found no device: %s (%d): check that /dev/kfd exists and "
                         "that this user may open it%s",
                         name ? name : "an unknown error", status, note);
    }
    *ret_hip = hip;
    *ret_count = count;
    return KILN_OK;
}

static bool uuid_at(const void *context, int index, char text[DEVICE_UUID_SIZE])
{
    const struct hip_library *hip = context;
    unsigned char bytes[DEVICE_UUID_BYTES] = { 0 };
    int handle = index;
    if (!hip->hipDeviceGetUuid || !has_succeeded(hip->hipDeviceGet(&handle, index)) ||
        !has_succeeded(hip->hipDeviceGetUuid(bytes, handle)))
        return false;
    device_uuid_text_of_digits(bytes, text);
    return text[0];
}

/* Reads the target from hipDeviceProp_t: no other call returns the arch with its features, as in
 * "gfx90a:sramecc+:xnack-". */
static enum kiln_code set_target(struct hip_device *h, int index, struct kiln_err *err)
{
    const struct hip_library *hip = h->hip;
    struct kiln_device *base = &h->driver.base;
    bool is_new = hip->hipGetDevicePropertiesR0600;
    int (*get)(void *, int) =
        is_new ? hip->hipGetDevicePropertiesR0600 : hip->hipGetDeviceProperties;
    if (!get)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the installed HIP runtime lacks 'hipGetDeviceProperties'");
    _Alignas(16) char properties[PROPERTIES_SIZE] = { 0 };
    int status = get(properties, index);
    if (status)
        return driver_fail(&hip_kind, err, status, "cannot read the properties of %s", base->name);
    char arch[ARCH_SIZE];
    memcpy(arch, properties + (is_new ? ARCH_AT_R0600 : ARCH_AT_BEFORE), sizeof(arch));
    arch[sizeof(arch) - 1] = '\0';
    struct target target;
    struct kiln_err why = KILN_ERR_INIT;
    if (strncmp(arch, "gfx", 3) != 0 || target_parse(bytes_of_text(arch), &target, &why))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the installed HIP runtime (%s) describes the arch of %s in a form that "
                         "libkiln %s does not know: use matching versions",
                         base->driver, base->name, KILN_VERSION);
    snprintf(base->target, sizeof(base->target), "%s", target.text);
    return KILN_OK;
}

static void set_driver(struct kiln_device *base, const struct hip_library *hip)
{
    int version = 0;
    char module[64];
    (void)has_succeeded(hip->hipRuntimeGetVersion(&version));
    bool known = text_file_version(KERNEL_MODULE_VERSION, module, sizeof(module));
    snprintf(base->driver, sizeof(base->driver), "HIP %d.%d.%d%s%s", version / 10000000,
             version / 100000 % 100, version % 100000, known ? ", amdgpu " : "",
             known ? module : "");
}

static enum kiln_code describe_device(struct hip_device *h, int index, struct kiln_err *err)
{
    const struct hip_library *hip = h->hip;
    struct kiln_device *base = &h->driver.base;
    int handle = index, units = 0, clock = 0;
    size_t memory = 0;
    h->driver.ordinal = index;
    snprintf(base->name, sizeof(base->name), "hip:%d", index);
    set_driver(base, hip);
    int status = hip->hipDeviceGet(&handle, index);
    if (!status)
        status = hip->hipDeviceGetName(base->model, (int)sizeof(base->model) - 1, handle);
    if (!status)
        status = hip->hipDeviceGetAttribute(&units, ATTRIBUTE_MULTIPROCESSORS, index);
    if (!status)
        status = hip->hipDeviceTotalMem(&memory, handle);
    if (status)
        return driver_fail(&hip_kind, err, status, "cannot read the properties of %s", base->name);
    enum kiln_code rc = set_target(h, index, err);
    if (rc)
        return rc;
    base->compute_units = units > 0 ? (unsigned)units : 0;
    base->memory_bytes = memory;
    if (has_succeeded(hip->hipDeviceGetAttribute(&clock, ATTRIBUTE_CLOCK_KHZ, index)) && clock > 0)
        base->clock_mhz = (unsigned)clock / 1000;
    if (!has_succeeded(hip->hipDeviceGetPCIBusId(base->pci, (int)sizeof(base->pci), index)))
        base->pci[0] = '\0';
    if (!uuid_at(hip, index, base->uuid))
        base->uuid[0] = '\0';
    device_set_database_id(base);
    return KILN_OK;
}

static enum kiln_code open_hip(struct hip_device *h, const struct device_request *request,
                               struct kiln_err *err)
{
    int count = 0, index = 0;
    if (request->context)
        return kiln_fail(err, KILN_INVALID,
                         "a HIP device cannot be opened in a context: HIP has one per device");
    enum kiln_code rc = start_hip(&h->hip, &count, err);
    if (rc)
        return rc;
    struct device_census census = {
        .kind = "hip", .what = "HIP", .count = count, .uuid = uuid_at, .context = h->hip
    };
    rc = device_find(&census, &request->uri, &index, err);
    if (rc)
        return rc;
    h->driver.calls = &h->hip->calls;
    rc = describe_device(h, index, err);
    return rc ? rc : driver_start(&h->driver, err);
}

static enum kiln_code hip_open(const struct device_request *request,
                               struct kiln_device **ret_device, struct kiln_err *err)
{
    KILN_AUTO(device)
    struct kiln_device *base = device_create(sizeof(struct hip_device), &driver_ops);
    if (!base)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device");
    struct hip_device *h = hip_of(driver_of(base));
    h->driver.kind = &hip_kind;
    enum kiln_code rc = open_hip(h, request, err);
    if (!rc)
        *ret_device = KILN_TAKE(base);
    return rc;
}

static enum kiln_code hip_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    const struct hip_library *hip = NULL;
    int count = 0;
    enum kiln_code rc = start_hip(&hip, &count, err);
    for (int i = 0; !rc && i < count; i++) {
        struct hip_device h = { .hip = hip };
        struct kiln_err why = KILN_ERR_INIT;
        enum kiln_code described = describe_device(&h, i, &why);
        device_report(&h.driver.base, described ? &why : NULL, found, context);
    }
    return rc;
}

const struct device_runtime device_runtime_hip = {
    .kind = "hip",
    .open = hip_open,
    .list = hip_list,
};

/* SPDX-License-Identifier: MIT */
#include "engine/compile/code_object.h"
#include "engine/compile/elf_image.h"

#include <stdio.h>
#include <string.h>

#define MACHINE_AMDGPU 224
#define MACHINE_CUDA 190

#define AMD_MACHINE_MASK 0xffu
#define AMD_FEATURES_SINCE_ABI 2u
#define AMD_XNACK_SHIFT 8
#define AMD_SRAMECC_SHIFT 10
#define AMD_FEATURE_EITHER 1u
#define AMD_FEATURE_OFF 2u
#define AMD_FEATURE_ON 3u

/* The ELF ABI version (CUDA 13) from which on the second byte of e_flags contains the SM number. In
 * older versions, the first byte contains it. */
#define NVIDIA_HIGH_SINCE_ABI 8u

#define SHOWN_ARCHES 16

static const struct machine {
    const char *arch;
    unsigned number;
} machines[] = {
#define AMDGPU_MACHINE(arch_, number_) { .arch = arch_, .number = number_ },
#include "common/target/amdgpu_machines.def"
#undef AMDGPU_MACHINE
};

#define MACHINES (sizeof(machines) / sizeof(machines[0]))

static const struct machine *by_number(unsigned number)
{
    for (size_t i = 0; i < MACHINES; i++) {
        if (machines[i].number == number)
            return &machines[i];
    }
    return NULL;
}

static const struct machine *by_arch(const char *arch)
{
    for (size_t i = 0; i < MACHINES; i++) {
        if (strcmp(machines[i].arch, arch) == 0)
            return &machines[i];
    }
    return NULL;
}

static enum kiln_code check_arch(unsigned number, const struct target *target, struct kiln_err *err)
{
    char arch[LIMIT_TARGET_TEXT], found[SHOWN_ARCHES];
    target_arch(target, arch, sizeof(arch));
    const struct machine *wanted = by_arch(arch), *is = by_number(number);
    /* If neither the target's processor nor the number is in the table, they are assumed to
     * match. */
    if (wanted ? wanted->number == number : !is)
        return KILN_OK;
    snprintf(found, sizeof(found), "number %#x", number);
    return kiln_fail(err, KILN_CORRUPT, "the code object is for %s, not for %s",
                     is ? is->arch : found, arch);
}

static enum kiln_code check_feature(const struct target *target, const char *name, unsigned bits,
                                    struct kiln_err *err)
{
    const char *at = strstr(target->text, name);
    if (!at)
        return KILN_OK;
    char sign = at[strlen(name)];
    if (bits == (sign == '+' ? AMD_FEATURE_ON : AMD_FEATURE_OFF))
        return KILN_OK;
    static const char *const states[] = { "cannot have it", "is for either", "is for off",
                                          "is for on" };
    return kiln_fail(err, KILN_CORRUPT, "target %s has %s%c, but the code object %s", target->text,
                     name, sign, states[bits & 3u]);
}

static enum kiln_code check_amd(const struct elf_image *image, const struct target *target,
                                struct kiln_err *err)
{
    unsigned flags = image->header.e_flags;
    enum kiln_code rc = check_arch(flags & AMD_MACHINE_MASK, target, err);
    if (rc || image->header.e_ident[EI_ABIVERSION] < AMD_FEATURES_SINCE_ABI)
        return rc;
    rc = check_feature(target, "sramecc", flags >> AMD_SRAMECC_SHIFT & 3u, err);
    return rc ? rc : check_feature(target, "xnack", flags >> AMD_XNACK_SHIFT & 3u, err);
}

static enum kiln_code check_nvidia(const struct elf_image *image, const struct target *target,
                                   struct kiln_err *err)
{
    bool high = image->header.e_ident[EI_ABIVERSION] >= NVIDIA_HIGH_SINCE_ABI;
    unsigned sm = image->header.e_flags >> (high ? 8 : 0) & 0xffu;
    unsigned wanted = (unsigned)strtoul(target->text + strlen("sm_"), NULL, 10);
    if (sm == wanted)
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT, "the code object is for sm_%u, not for %s", sm,
                     target->text);
}

enum kiln_code code_object_check(struct bytes object, const struct target *target,
                                 struct kiln_err *err)
{
    if (object.size == 0)
        return kiln_fail(err, KILN_CORRUPT, "the code object for %s is empty", target->text);
    if (target->family == TARGET_OPENCL)
        return KILN_OK;
    struct elf_image image;
    if (!elf_image_open(object, &image))
        return kiln_fail(err, KILN_CORRUPT,
                         "the code object for %s is not a 64-bit ELF file (%zu bytes)",
                         target->text, object.size);
    bool amd = target->family == TARGET_AMDGPU;
    unsigned machine = amd ? MACHINE_AMDGPU : MACHINE_CUDA;
    if (image.header.e_machine != machine)
        return kiln_fail(err, KILN_CORRUPT, "the code object for %s is for ELF machine %u, not %u",
                         target->text, image.header.e_machine, machine);
    return amd ? check_amd(&image, target, err) : check_nvidia(&image, target, err);
}

static bool suits_target(const struct target *target, const char *name, unsigned bits)
{
    const char *at = strstr(target->text, name);
    if (!at || bits == AMD_FEATURE_EITHER)
        return true;
    return bits == (at[strlen(name)] == '+' ? AMD_FEATURE_ON : AMD_FEATURE_OFF);
}

bool code_object_suits(struct bytes object, const struct target *target)
{
    struct elf_image image;
    if (target->family != TARGET_AMDGPU)
        return true;
    if (!elf_image_open(object, &image))
        return false;
    unsigned flags = image.header.e_flags;
    return image.header.e_ident[EI_ABIVERSION] < AMD_FEATURES_SINCE_ABI ||
           (suits_target(target, "sramecc", flags >> AMD_SRAMECC_SHIFT & 3u) &&
            suits_target(target, "xnack", flags >> AMD_XNACK_SHIFT & 3u));
}

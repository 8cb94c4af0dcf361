/* SPDX-License-Identifier: MIT */
/* The parsers of code objects (AMDGPU ELF files, cubins, OpenCL binaries) of kilnd and libkiln, and
 * of build ids. */
#include "tests/fuzz/fuzz.h"

#include "engine/compile/code_object.h"
#include "engine/compile/elf_image.h"
#include "libclient/device/elf_check.h"

#include <stdlib.h>

static const char *const targets[] = {
    "gfx90a",
    "gfx90a:sramecc+:xnack-",
    "gfx942",
    "gfx1030",
    "gfx906:xnack+",
    "sm_90",
    "sm_90a",
    "sm_86",
    "opencl:cpu:pocl-3.1-00112233",
};

static void on_kernel(void *context, struct bytes name)
{
    size_t *letters = context;
    for (size_t i = 0; i < name.size; i++)
        *letters += name.data[i]; /* every byte can be read */
}

static void walk(struct bytes object)
{
    struct elf_image image;
    if (!elf_image_open(object, &image))
        return;
    size_t letters = 0;
    on_kernel(&letters, elf_build_id(&image));
    for (size_t i = 0; i < elf_section_count(&image); i++) {
        Elf64_Shdr section;
        struct bytes content;
        if (!elf_section(&image, i, &section, &content))
            continue;
        on_kernel(&letters, elf_section_name(&image, &section));
        on_kernel(&letters, elf_notes_build_id(content));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(bytes_of(data, size));
    const char *name = targets[reader_u8(&r) % (sizeof(targets) / sizeof(targets[0]))];
    struct bytes part = fuzz_rest(&r);
    uint8_t *copy = fuzz_copy(part);
    struct bytes object = bytes_of(copy, part.size);
    struct target target;
    fuzz_expect(target_parse(bytes_of_text(name), &target, &err) == KILN_OK, "a known target");
    walk(object);
    size_t letters = 0;
    if (code_object_check(object, &target, &err) == KILN_OK) {
        code_object_suits(object, &target);
        code_object_kernels(object, &target, on_kernel, &letters);
    }
    (void)!elf_check(object, ELF_MACHINE_AMDGPU, &err);
    (void)!elf_check(object, ELF_MACHINE_CUDA, &err);
    free(copy);
    return 0;
}

/* SPDX-License-Identifier: MIT */
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

static size_t sum_of(struct bytes bytes)
{
    size_t sum = 0;
    for (size_t i = 0; i < bytes.size; i++)
        sum += bytes.data[i];
    return sum;
}

static size_t read_build_ids(struct bytes object)
{
    struct elf_image image;
    if (!elf_image_open(object, &image))
        return 0;
    size_t sum = sum_of(elf_build_id(&image));
    for (size_t i = 0; i < elf_section_count(&image); i++) {
        Elf64_Shdr section;
        struct bytes content;
        if (!elf_section(&image, i, &section, &content))
            continue;
        sum += sum_of(elf_notes_build_id(content));
    }
    return sum;
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
    (void)!read_build_ids(object);
    if (code_object_check(object, &target, &err) == KILN_OK)
        code_object_suits(object, &target);
    (void)!elf_check(object, ELF_MACHINE_AMDGPU, &err);
    (void)!elf_check(object, ELF_MACHINE_CUDA, &err);
    free(copy);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "tests/support/code_object_names.h"
#include "engine/compile/elf_image.h"

#include <string.h>

static struct bytes text_at(struct bytes strings, size_t offset)
{
    if (offset >= strings.size)
        return bytes_of(NULL, 0);
    const uint8_t *start = strings.data + offset;
    const uint8_t *end = memchr(start, 0, strings.size - offset);
    return end ? bytes_of(start, (size_t)(end - start)) : bytes_of(NULL, 0);
}

static struct bytes section_name(const struct elf_image *image, const Elf64_Shdr *section)
{
    Elf64_Shdr names;
    struct bytes strings;
    if (!elf_section(image, image->header.e_shstrndx, &names, &strings))
        return bytes_of(NULL, 0);
    return text_at(strings, section->sh_name);
}

struct listing {
    void (*each)(void *context, struct bytes name);
    void *context;
    size_t count;
};

static void list_name(struct listing *listing, struct bytes name)
{
    listing->count++;
    if (listing->each)
        listing->each(listing->context, name);
}

static void list_descriptors(const struct elf_image *image, const Elf64_Shdr *section,
                             struct bytes symbols, struct listing *listing)
{
    Elf64_Shdr header;
    struct bytes strings;
    if (!elf_section(image, section->sh_link, &header, &strings))
        return;
    for (size_t at = 0; symbols.size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols.data + at, sizeof(symbol));
        struct bytes name = text_at(strings, symbol.st_name);
        if (symbol.st_shndx != SHN_UNDEF && name.size > 3 &&
            memcmp(name.data + name.size - 3, ".kd", 3) == 0)
            list_name(listing, bytes_of(name.data, name.size - 3));
    }
}

static void list_text_section(const struct elf_image *image, const Elf64_Shdr *section,
                              struct listing *listing)
{
    static const char prefix[] = ".text.";
    size_t length = sizeof(prefix) - 1;
    struct bytes name = section_name(image, section);
    if (name.size > length && memcmp(name.data, prefix, length) == 0)
        list_name(listing, bytes_of(name.data + length, name.size - length));
}

size_t code_object_kernels(struct bytes object, const struct target *target,
                           void (*each)(void *context, struct bytes name), void *context)
{
    struct listing listing = { .each = each, .context = context };
    struct elf_image image;
    if (target->family == TARGET_OPENCL || !elf_image_open(object, &image))
        return 0;
    for (size_t i = 0; i < elf_section_count(&image); i++) {
        Elf64_Shdr section;
        struct bytes content;
        if (!elf_section(&image, i, &section, &content))
            continue;
        if (target->family == TARGET_NVIDIA)
            list_text_section(&image, &section, &listing);
        else if (section.sh_type == SHT_DYNSYM)
            list_descriptors(&image, &section, content, &listing);
    }
    return listing.count;
}

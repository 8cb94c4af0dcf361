/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A 64-bit little-endian ELF file in memory, read with bounds checks.
 *
 * Role       reads code objects, which come from an untrusted process
 * Ownership  borrows the bytes; views are borrowed from them
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <elf.h>

struct elf_image {
    struct bytes content;
    Elf64_Ehdr header;
};

/* Returns false unless |content| begins with a 64-bit little-endian ELF header and contains the
 * whole section table, if there is one. */
bool elf_image_open(struct bytes content, struct elf_image *ret_image);
size_t elf_section_count(const struct elf_image *image);
/* Returns false if there is no such section, or if the file does not contain all of it. */
bool elf_section(const struct elf_image *image, size_t index, Elf64_Shdr *ret_section,
                 struct bytes *ret_content);
struct bytes elf_build_id(const struct elf_image *image);
struct bytes elf_notes_build_id(struct bytes notes);

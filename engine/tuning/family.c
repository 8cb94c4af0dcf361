/* SPDX-License-Identifier: MIT */
#include "engine/tuning/family.h"

#include "engine/miopen/problem_key.h"

#include <string.h>

/* Writes |v| as LEB128: seven bits in each byte, the lowest first. The top bit says that another
 * byte follows. This keeps index files small: they have hundreds of thousands of names, and most
 * numbers in a name take one byte. */
static size_t put_number(uint8_t *to, uint32_t v)
{
    size_t size = 0;
    for (; v >= 0x80; v >>= 7)
        to[size++] = (uint8_t)(v | 0x80);
    to[size++] = (uint8_t)v;
    return size;
}

static struct bytes name_of(const struct problem *p, enum family family, uint8_t *name)
{
    struct problem general = *p;
    general.n = 0;
    if (family == FAMILY_SPATIAL)
        general.in = (struct extent){ 0 };
    uint32_t fields[PROBLEM_WIRE_SIZE / sizeof(uint32_t)];
    _Static_assert(sizeof(fields) == sizeof(general), "a problem is its numbers and nothing else");
    _Static_assert(1 + 5 * sizeof(fields) / sizeof(fields[0]) <= FAMILY_NAME_MAX,
                   "the longest name fits");
    memcpy(fields, &general, sizeof(fields));

    /* Leaves out the last number, allow_tf32, if it is 0, as it is in all databases of MIOpen. */
    size_t size = 0, count = sizeof(fields) / sizeof(fields[0]) - !general.allow_tf32;
    name[size++] = (uint8_t)family;
    for (size_t i = 0; i < count; i++)
        size += put_number(name + size, fields[i]);
    return bytes_of(name, size);
}

struct kinship kinship_of(const struct problem *p, struct family_names *storage)
{
    struct kinship kin = { .batch = p->n, .volume = (uint64_t)p->in.d * p->in.h * p->in.w };
    for (enum family f = 0; f < FAMILIES; f++)
        kin.families[f] = name_of(p, f, storage->bytes[f]);
    return kin;
}

struct kinship kinship_of_key(enum tuning_kind kind, struct bytes key, struct family_names *storage)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct problem problem;
    enum kiln_code rc = kind == TUNING_FIND ? find_key_parse(key, &problem, &ignored)
                                            : perf_key_parse(key, &problem, &ignored);
    struct kinship none = { 0 };
    return rc ? none : kinship_of(&problem, storage);
}

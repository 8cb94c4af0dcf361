/* SPDX-License-Identifier: MIT */
#include "engine/miopen/names/database_id.h"

#include "common/target/target.h"

#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 6
#define TELLING_DIGIT 5 /* position, from 0, of the character in which arches differ most */
#define XNACK_SUFFIX "_xnack"
#define NVIDIA_PREFIX "sm_"
#define OPENCL_PREFIX "opencl_"
#define HASH_DIGITS 8

static const struct bytes arches[] = {
#define AMDGPU_MACHINE(arch, number) { (const uint8_t *)(arch), sizeof(arch) - 1 },
#include "common/target/amdgpu_machines.def"
#undef AMDGPU_MACHINE
};

static enum kiln_code refuse_id(struct bytes text, const char *why, struct kiln_err *err)
{
    int shown = text.size > 80 ? 80 : (int)text.size;
    return kiln_fail(
        err, KILN_INVALID,
        "'%.*s' is not a database id: %s (an id is an arch and its compute units, "
        "decimal after '_' up to 64, hexadecimal above: gfx906_60, gfx90a68; of "
        "NVIDIA's GPUs the target, with or without multiprocessors: sm_90_132, sm_90a; "
        "of OpenCL devices a hash: opencl_1a2b3c4d)",
        shown, (const char *)text.data, why);
}

static bool starts_with(struct bytes text, struct bytes start)
{
    return text.size >= start.size && memcmp(text.data, start.data, start.size) == 0;
}

/* Returns the length of the longest arch at the beginning of |text|, or 0. Runs for every request.
 * To be fast, it first compares the character in which arches differ most. */
static size_t arch_length(struct bytes text)
{
    size_t longest = 0;
    if (text.size <= TELLING_DIGIT)
        return 0;
    for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++) {
        if (arches[i].data[TELLING_DIGIT] == text.data[TELLING_DIGIT] && arches[i].size > longest &&
            starts_with(text, arches[i]))
            longest = arches[i].size;
    }
    return longest;
}

static int digit_of(uint8_t c, unsigned base)
{
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    return value < (int)base ? value : -1;
}

static unsigned number_of(struct bytes text, unsigned base)
{
    unsigned number = 0;
    if (text.size == 0 || text.size > DIGITS_MAX || text.data[0] == '0')
        return 0;
    for (size_t i = 0; i < text.size; i++) {
        int digit = digit_of(text.data[i], base);
        if (digit < 0)
            return 0;
        number = number * base + (unsigned)digit;
    }
    return number;
}

/* Parses the number of compute units. Accepts only one spelling of each number; otherwise, two
 * different texts could be the same id. */
static bool units_of(struct bytes text, unsigned *ret_units)
{
    bool decimal = text.data[0] == '_';
    unsigned units =
        decimal ? number_of(bytes_of(text.data + 1, text.size - 1), 10) : number_of(text, 16);
    if (units == 0 || decimal != (units <= DATABASE_ID_DECIMAL_MAX))
        return false;
    *ret_units = units;
    return true;
}

static bool is_nvidia_target(struct bytes text)
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    return text.size < DATABASE_ID_MAX && target_parse(text, &target, &ignored) == KILN_OK &&
           target.family == TARGET_NVIDIA && bytes_equal(text, bytes_of_text(target.text));
}

static bool parse_nvidia_id(struct bytes text, struct database_id *id)
{
    size_t begin = strlen(NVIDIA_PREFIX), device = text.size;
    const uint8_t *at = NULL;
    if (starts_with(text, bytes_of_text(NVIDIA_PREFIX)))
        at = memchr(text.data + begin, '_', text.size - begin);
    if (at)
        device = (size_t)(at - text.data);
    if (!is_nvidia_target(bytes_of(text.data, device)))
        return false;
    memcpy(id->device, text.data, device);
    if (!at)
        return true;
    bool has_letter = digit_of(text.data[device - 1], 10) < 0;
    id->compute_units = number_of(bytes_of(at + 1, text.size - device - 1), 10);
    return !has_letter && id->compute_units > 0;
}

static bool parse_opencl_id(struct bytes text, struct database_id *id)
{
    size_t begin = strlen(OPENCL_PREFIX);
    if (!starts_with(text, bytes_of_text(OPENCL_PREFIX)) || text.size != begin + HASH_DIGITS)
        return false;
    for (size_t i = begin; i < text.size; i++) {
        if (digit_of(text.data[i], 16) < 0)
            return false;
    }
    memcpy(id->device, text.data, text.size);
    return true;
}

bool database_id_is_miopens(const struct database_id *id)
{
    return arch_length(bytes_of_text(id->device)) > 0;
}

enum kiln_code database_id_parse(struct bytes text, struct database_id *ret_id,
                                 struct kiln_err *err)
{
    struct database_id id = { .compute_units = 0 };
    size_t device = arch_length(text);
    if (device == 0) {
        if (!parse_nvidia_id(text, &id) && !parse_opencl_id(text, &id))
            return refuse_id(text, "it does not begin with a known arch", err);
        *ret_id = id;
        return KILN_OK;
    }
    if (starts_with(bytes_of(text.data + device, text.size - device), bytes_of_text(XNACK_SUFFIX)))
        device += strlen(XNACK_SUFFIX);
    if (text.size >= DATABASE_ID_MAX)
        return refuse_id(text, "it is too long", err);
    memcpy(id.device, text.data, device);
    if (text.size > device &&
        !units_of(bytes_of(text.data + device, text.size - device), &id.compute_units))
        return refuse_id(text, "its compute units are not such a number", err);
    *ret_id = id;
    return KILN_OK;
}

static bool is_version(struct bytes text)
{
    if (text.size == 0 || text.size > DATABASE_VERSION_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i], letter = c | 0x20;
        if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
            c != '-')
            return false;
    }
    return true;
}

enum kiln_code database_version_check(struct bytes version, struct kiln_err *err)
{
    if (is_version(version))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "a version of MIOpen has 1 to %d letters, digits, '.', '_' and '-', like "
                     "'3.2.0'",
                     DATABASE_VERSION_MAX);
}

enum kiln_code database_id_split(struct bytes text, struct bytes *ret_id, struct bytes *ret_version,
                                 struct kiln_err *err)
{
    const uint8_t *at = text.size ? memchr(text.data, '@', text.size) : NULL;
    size_t id = at ? (size_t)(at - text.data) : text.size;
    *ret_id = bytes_of(text.data, id);
    *ret_version = at ? bytes_of(at + 1, text.size - id - 1) : (struct bytes){ 0 };
    return at ? database_version_check(*ret_version, err) : KILN_OK;
}

void database_id_join(const char *id, const char *version, char text[VERSIONED_ID_MAX])
{
    snprintf(text, VERSIONED_ID_MAX, "%s%s%s", id, version[0] ? "@" : "", version);
}

static bool is_kilns_file(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, ".kpkg") == 0;
}

enum kiln_code database_id_of_file(const char *file_name, struct database_id *ret_id,
                                   struct kiln_err *err)
{
    struct database_id id;
    if (strchr(file_name, '/'))
        return kiln_fail(err, KILN_INVALID, "'%.200s' is a path, not a file name", file_name);
    enum kiln_code rc = database_id_parse(bytes_of(file_name, strcspn(file_name, ".")), &id, err);
    if (rc)
        return kiln_while(err, "the file name '%.200s' does not begin with a device", file_name);
    bool is_miopens = database_id_is_miopens(&id);
    if (!is_miopens &&
        (id.compute_units || starts_with(bytes_of_text(id.device), bytes_of_text(OPENCL_PREFIX))))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' names a single device, but only packages for AMD's GPUs do: "
                         "NVIDIA's are for a target (sm_90.kpkg, sm_90a.kpkg), and there are none "
                         "for OpenCL devices",
                         file_name);
    if (!is_miopens && !is_kilns_file(file_name))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' is named like MIOpen's files, which are for AMD's GPUs only: "
                         "packages for %s have kiln's own format (kilnctl pkg build --format kiln "
                         "-o %s.kpkg)",
                         file_name, id.device, id.device);
    *ret_id = id;
    return KILN_OK;
}

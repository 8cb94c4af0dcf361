/* SPDX-License-Identifier: MIT */
#include "engine/miopen/database_id.h"

#include "common/target.h"

#include <stdio.h>
#include <string.h>

#define DECIMAL_MOST 64       /* compute units up to here are decimal behind '_' */
#define DIGITS_MOST 6         /* no device has millions of compute units */
#define XNACK_SUFFIX "_xnack" /* the only feature that MIOpen's ids carry */

static const char *const arches[] = {
#define AMDGPU_MACHINE(arch, number) arch,
#include "common/amdgpu_machines.def"
#undef AMDGPU_MACHINE
};

static enum kiln_code refuse(struct bytes text, const char *why, struct kiln_err *err)
{
    int shown = text.size > 80 ? 80 : (int)text.size;
    return kiln_fail(err, KILN_INVALID,
                     "'%.*s' is not a database id: %s (an id is an arch and its compute units, "
                     "decimal after '_' up to 64, hexadecimal above: gfx906_60, gfx90a68; for "
                     "NVIDIA's GPUs it is the target: sm_90)",
                     shown, (const char *)text.data, why);
}

bool database_id_write(const struct database_id *id, char text[DATABASE_ID_MOST])
{
    char whole[2 * DATABASE_ID_MOST];
    if (id->compute_units == 0)
        snprintf(whole, sizeof(whole), "%s", id->device);
    else if (id->compute_units <= DECIMAL_MOST)
        snprintf(whole, sizeof(whole), "%s_%u", id->device, id->compute_units);
    else
        snprintf(whole, sizeof(whole), "%s%x", id->device, id->compute_units);
    if (strlen(whole) >= DATABASE_ID_MOST)
        return false;
    memcpy(text, whole, strlen(whole) + 1);
    return true;
}

static bool starts_with(struct bytes text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

/* The length of the longest arch that |text| begins with; 0 when none. */
static size_t arch_length(struct bytes text)
{
    size_t longest = 0;
    for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++) {
        size_t size = strlen(arches[i]);
        if (size > longest && starts_with(text, arches[i]))
            longest = size;
    }
    return longest;
}

static int digit_of(uint8_t c, unsigned base)
{
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    return value < (int)base ? value : -1;
}

/* All of |text|, without leading zeros; 0 for anything else. */
static unsigned number_of(struct bytes text, unsigned base)
{
    unsigned number = 0;
    if (text.size == 0 || text.size > DIGITS_MOST || text.data[0] == '0')
        return 0;
    for (size_t i = 0; i < text.size; i++) {
        int digit = digit_of(text.data[i], base);
        if (digit < 0)
            return 0;
        number = number * base + (unsigned)digit;
    }
    return number;
}

/* One spelling for each number: else two files could claim one id. */
static bool units_of(struct bytes text, unsigned *ret_units)
{
    bool decimal = text.data[0] == '_';
    unsigned units =
        decimal ? number_of(bytes_of(text.data + 1, text.size - 1), 10) : number_of(text, 16);
    if (units == 0 || decimal != (units <= DECIMAL_MOST))
        return false;
    *ret_units = units;
    return true;
}

static bool is_nvidias(struct bytes text)
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    return text.size < DATABASE_ID_MOST && target_parse(text, &target, &ignored) == KILN_OK &&
           target.family == TARGET_NVIDIA &&
           bytes_equal(text, bytes_of_text(target.text)); /* one spelling for each */
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
    if (device == 0 && is_nvidias(text)) {
        memcpy(id.device, text.data, text.size);
        *ret_id = id;
        return KILN_OK;
    }
    if (device == 0)
        return refuse(text, "it begins with no arch that kiln knows", err);
    if (starts_with(bytes_of(text.data + device, text.size - device), XNACK_SUFFIX))
        device += strlen(XNACK_SUFFIX);
    if (text.size >= DATABASE_ID_MOST)
        return refuse(text, "it is too long", err);
    memcpy(id.device, text.data, device);
    if (text.size > device &&
        !units_of(bytes_of(text.data + device, text.size - device), &id.compute_units))
        return refuse(text, "its compute units are no such number", err);
    *ret_id = id;
    return KILN_OK;
}

static bool is_version(struct bytes text)
{
    if (text.size == 0 || text.size > DATABASE_VERSION_MOST)
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
                     "a version of MIOpen has 1 to %d letters, digits, '.', '_' and '-', as "
                     "'3.2.0'",
                     DATABASE_VERSION_MOST);
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

void database_id_join(const char *id, const char *version, char text[VERSIONED_ID_MOST])
{
    snprintf(text, VERSIONED_ID_MOST, "%s%s%s", id, version[0] ? "@" : "", version);
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
        return kiln_while(err, "the file name '%.200s' tells no device", file_name);
    if (!database_id_is_miopens(&id) && !is_kilns_file(file_name))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' has the name of one of MIOpen's files, which are for AMD's GPUs "
                         "only: packages for %s have kiln's own format (kilnctl pkg build --format "
                         "kiln -o %s.kpkg)",
                         file_name, id.device, id.device);
    *ret_id = id;
    return KILN_OK;
}

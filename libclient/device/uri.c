/* SPDX-License-Identifier: MIT */
#include "libclient/device/uri.h"

#include "common/base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define INDEX_MAX 9999

static const struct {
    const char *name;
    enum device_kind kind;
} kinds[] = {
    { "auto", DEVICE_AUTO },
    { "hip", DEVICE_HIP },
    { "cuda", DEVICE_CUDA },
    { "opencl", DEVICE_OPENCL },
};

/* Only CUDA has "MIG-...", which names a part of a GPU. */
static bool parse_uuid(const char *text, enum device_kind kind, char *ret_uuid, size_t size)
{
    bool is_known =
        strncmp(text, "GPU-", 4) == 0 || (kind == DEVICE_CUDA && strncmp(text, "MIG-", 4) == 0);
    if (!is_known || text[4] == '\0' || strlen(text) >= size)
        return false;
    for (const char *at = text + 4; *at; at++)
        if (!isxdigit((unsigned char)*at) && *at != '-')
            return false;
    snprintf(ret_uuid, size, "%s", text);
    return true;
}

static bool parse_rest(const char *rest, struct device_uri *uri)
{
    if (rest[0] == '\0')
        return true;
    if ((uri->kind == DEVICE_HIP || uri->kind == DEVICE_CUDA) && strncmp(rest, "://", 3) == 0)
        return parse_uuid(rest + 3, uri->kind, uri->uuid, sizeof(uri->uuid));
    uint64_t index;
    if (uri->kind == DEVICE_AUTO || rest[0] != ':' ||
        !units_parse_number(rest + 1, INDEX_MAX, &index))
        return false;
    uri->index = (unsigned)index;
    return true;
}

enum kiln_code device_uri_parse(const char *name, struct device_uri *ret_uri, struct kiln_err *err)
{
    for (size_t i = 0; name && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t size = strlen(kinds[i].name);
        struct device_uri uri = { .kind = kinds[i].kind };
        if (strncmp(name, kinds[i].name, size) == 0 && parse_rest(name + size, &uri)) {
            *ret_uri = uri;
            return KILN_OK;
        }
    }
    if (name && strchr(name, ','))
        return kiln_fail(err, KILN_INVALID, "'%.200s' is a list: give one device", name);
    return kiln_fail(
        err, KILN_INVALID,
        "'%.200s' is not the name of a device: use auto, hip:0, hip://GPU-<uuid>, cuda:0, "
        "cuda://GPU-<uuid>, cuda://MIG-<uuid> or opencl:0",
        name ? name : "(null)");
}

bool device_uri_next(const char **names, char ret_name[DEVICE_NAME_MAX])
{
    const char *at = *names;
    if (!at)
        return false;
    size_t size = strcspn(at, ",");
    snprintf(ret_name, DEVICE_NAME_MAX, "%.*s", (int)size, at);
    *names = at[size] ? at + size + 1 : NULL;
    return true;
}

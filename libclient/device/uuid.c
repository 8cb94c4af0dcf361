/* SPDX-License-Identifier: MIT */
#include "libclient/device/uuid.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *kind;
    const char *variable;
} hiding[] = {
    { "hip", "ROCR_VISIBLE_DEVICES" },
    { "hip", "HIP_VISIBLE_DEVICES" },
    { "hip", "CUDA_VISIBLE_DEVICES" }, /* HIP also reads this variable */
    { "cuda", "CUDA_VISIBLE_DEVICES" },
};

void device_hidden_note(const char *kind, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(hiding) / sizeof(hiding[0]) && used < size; i++) {
        const char *value = getenv(hiding[i].variable);
        if (!value || strcmp(hiding[i].kind, kind) != 0)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s='%.60s'", used ? ", " : "; ",
                                 hiding[i].variable, value);
    }
    if (used > 0 && used < size)
        snprintf(text + used, size - used, " decides which devices it sees");
}

static bool are_digits(const unsigned char bytes[DEVICE_UUID_BYTES])
{
    for (size_t i = 0; i < DEVICE_UUID_BYTES; i++)
        if (!isxdigit(bytes[i]))
            return false;
    return true;
}

void device_uuid_text(const char *prefix, const unsigned char bytes[DEVICE_UUID_BYTES],
                      char text[DEVICE_UUID_SIZE])
{
    static const unsigned char zero[DEVICE_UUID_BYTES];
    const unsigned char *b = bytes;
    if (memcmp(bytes, zero, sizeof(zero)) == 0)
        text[0] = '\0';
    else
        snprintf(text, DEVICE_UUID_SIZE,
                 "%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefix,
                 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                 b[13], b[14], b[15]);
}

void device_uuid_text_of_digits(const unsigned char bytes[DEVICE_UUID_BYTES],
                                char text[DEVICE_UUID_SIZE])
{
    if (are_digits(bytes))
        snprintf(text, DEVICE_UUID_SIZE, "GPU-%.16s", (const char *)bytes);
    else
        device_uuid_text("GPU-", bytes, text);
}

static enum kiln_code find_uuid(const struct device_census *c, const char *uuid, const char *note,
                                int *ret_index, struct kiln_err *err)
{
    char text[DEVICE_UUID_SIZE];
    bool has_uuids = false;
    for (int i = 0; i < c->count; i++) {
        if (!c->uuid(c->context, i, text))
            continue;
        has_uuids = true;
        if (strcasecmp(text, uuid) == 0) {
            *ret_index = i;
            return KILN_OK;
        }
    }
    if (!has_uuids)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the installed runtime does not report the uuids of %s devices: name them "
                         "by number, for example %s:0",
                         c->what, c->kind);
    return kiln_fail(err, KILN_NOT_FOUND,
                     "there is no %s://%s: none of the %d %s device(s) that this process sees has "
                     "this uuid%s",
                     c->kind, uuid, c->count, c->what, note);
}

enum kiln_code device_find(const struct device_census *census, const struct device_uri *uri,
                           int *ret_index, struct kiln_err *err)
{
    char note[260];
    device_hidden_note(census->kind, note, sizeof(note));
    if (uri->uuid[0])
        return find_uuid(census, uri->uuid, note, ret_index, err);
    if (uri->index >= (unsigned)census->count)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no %s:%u: this process sees %d %s device(s), counted from 0%s",
                         census->kind, uri->index, census->count, census->what, note);
    *ret_index = (int)uri->index;
    return KILN_OK;
}

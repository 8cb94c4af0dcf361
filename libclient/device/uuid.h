/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds devices by number or uuid among the devices that this process sees.
 *
 * Role       formats uuids, resolves device names, and explains what hides devices
 * Threading  pure functions, except that they read the environment
 */
#include "common/base/err.h"
#include "libclient/device/uri.h"

#define DEVICE_UUID_BYTES 16

/* Writes |bytes| as a uuid.  |prefix| is "GPU-" or "MIG-".  Writes "" if all bytes are zero. */
void device_uuid_text(const char *prefix, const unsigned char bytes[DEVICE_UUID_BYTES],
                      char text[DEVICE_UUID_SIZE]);
/* Writes a uuid as HIP does: "GPU-1901ead3a2ecd4a6" if the bytes are 16 hexadecimal digits,
 * otherwise like device_uuid_text. */
void device_uuid_text_of_digits(const unsigned char bytes[DEVICE_UUID_BYTES],
                                char text[DEVICE_UUID_SIZE]);

struct device_census {
    const char *kind;
    const char *what;
    int count;
    /* Returns false if the runtime does not report the uuid. */
    bool (*uuid)(const void *context, int index, char text[DEVICE_UUID_SIZE]);
    const void *context;
};

/* Finds the device that |uri| names.  The message of KILN_NOT_FOUND says how many devices this
 * process sees, and which variable may hide others. */
KILN_MUST_CHECK enum kiln_code device_find(const struct device_census *census,
                                           const struct device_uri *uri, int *ret_index,
                                           struct kiln_err *err);

/* Writes "; CUDA_VISIBLE_DEVICES=1 decides which devices it sees", or "" if no variable is set that
 * hides devices. */
void device_hidden_note(const char *kind, char *text, size_t size);

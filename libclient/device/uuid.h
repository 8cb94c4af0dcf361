/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds devices by number or uuid among those that this process sees.
 *
 * Role       formats uuids, resolves names, explains what hides other devices
 * Threading  pure functions, except that they read the environment
 */
#include "common/base/err.h"
#include "libclient/device/uri.h"

#define DEVICE_UUID_BYTES 16

/* "6e2a...-...-...-...-..." after |prefix|, "GPU-" or "MIG-"; "" if all bytes are zero. */
void device_uuid_text(const char *prefix, const unsigned char bytes[DEVICE_UUID_BYTES],
                      char text[DEVICE_UUID_SIZE]);
/* HIP's form: "GPU-1901ead3a2ecd4a6" if the bytes are 16 hexadecimal digits, else as above. */
void device_uuid_text_of_digits(const unsigned char bytes[DEVICE_UUID_BYTES],
                                char text[DEVICE_UUID_SIZE]);

/* A runtime's devices, for device_find. */
struct device_census {
    const char *kind; /* "cuda" */
    const char *what; /* "CUDA" */
    int count;
    /* False if the runtime does not report it. */
    bool (*uuid)(const void *context, int index, char text[DEVICE_UUID_SIZE]);
    const void *context;
};

/* KILN_NOT_FOUND says how many devices this process sees, and which variable may hide some. */
KILN_MUST_CHECK enum kiln_code device_find(const struct device_census *census,
                                           const struct device_uri *uri, int *ret_index,
                                           struct kiln_err *err);

/* "; CUDA_VISIBLE_DEVICES=1 decides which devices it sees", or "" if no variable is set. */
void device_hidden_note(const char *kind, char *text, size_t size);

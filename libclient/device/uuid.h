/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Devices by number and by uuid, among those that a process sees.
 *
 * Role       the texts of uuids; which device a name means; what hides the others
 * Threading  pure functions, but for reading the environment
 */
#include "common/err.h"
#include "libclient/device/uri.h"

#define DEVICE_UUID_BYTES 16

/* "6e2a...-...-...-...-..." behind |prefix|, "GPU-" or "MIG-"; "" where all bytes are zero. */
void device_uuid_text(const char *prefix, const unsigned char bytes[DEVICE_UUID_BYTES],
                      char text[DEVICE_UUID_SIZE]);
/* HIP's: "GPU-1901ead3a2ecd4a6" where its bytes are 16 hexadecimal digits, else as above. */
void device_uuid_text_of_digits(const unsigned char bytes[DEVICE_UUID_BYTES],
                                char text[DEVICE_UUID_SIZE]);

/* A runtime's devices, for device_find. */
struct device_census {
    const char *kind; /* "cuda" */
    const char *what; /* "CUDA" */
    int count;
    /* False where the runtime does not tell. */
    bool (*uuid)(const void *context, int index, char text[DEVICE_UUID_SIZE]);
    const void *context;
};

/* KILN_NOT_FOUND says how many devices this process sees, and which variable may hide some. */
KILN_MUST_CHECK enum kiln_code device_find(const struct device_census *census,
                                           const struct device_uri *uri, int *ret_index,
                                           struct kiln_err *err);

/* "; CUDA_VISIBLE_DEVICES=1 decides which devices it sees", or "" where no variable is set. */
void device_hidden_note(const char *kind, char *text, size_t size);

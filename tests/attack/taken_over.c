/* SPDX-License-Identifier: MIT */
/* Simulates a decompressor that an attacker controls. This library is preloaded into kiln-transfer.
 * It replaces libbz2's output by the content of a file, which must be as long as the genuine
 * content. The environment variable ATTACK_FORGED has the file's path. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bzlib.h>

#define FORGED_MAX (1u << 20)

static char forged[FORGED_MAX];
static size_t size, given;

/* Reads the file when the program starts, because kiln-transfer cannot open the file once it has
 * entered its sandbox. */
__attribute__((constructor)) static void read_forged(void)
{
    const char *path = getenv("ATTACK_FORGED");
    FILE *file = path ? fopen(path, "re") : NULL;
    size = file ? fread(forged, 1, sizeof(forged), file) : 0;
    if (file)
        fclose(file);
}

__attribute__((visibility("default"))) int BZ2_bzDecompress(bz_stream *stream)
{
    int (*genuine)(bz_stream *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "BZ2_bzDecompress");
    memcpy(&genuine, &symbol, sizeof(genuine));
    char *out = stream->next_out;
    int rc = genuine(stream);
    size_t count = (size_t)(stream->next_out - out);
    for (size_t i = 0; i < count && given < size; i++)
        out[i] = forged[given++];
    return rc;
}

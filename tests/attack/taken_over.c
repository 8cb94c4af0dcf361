/* SPDX-License-Identifier: MIT */
/* Stands for a decompressor under an attacker's control. Preloaded into kiln-transfer, it
 * replaces what libbz2 unpacks by the bytes of the file in ATTACK_FORGED, which must be as long
 * as the genuine content. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bzlib.h>

#define FORGED_MAX (1u << 20)

static char forged[FORGED_MAX];
static size_t size, given;

/* Reads the file at the start, because kiln-transfer may not open it after it has confined
 * itself. */
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

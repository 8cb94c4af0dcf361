/* SPDX-License-Identifier: MIT */
#pragma once

/* Code that the fuzz targets share.
 *
 * A target is one fuzz_<name>.c with LLVMFuzzerTestOneInput. It is linked with libFuzzer (preset
 * fuzz) or with standalone.c, which runs the target on given files. The private directory is
 * removed when the process ends. */
#include "common/base/bytes.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* If |holds| is false, prints |promise| and aborts, which counts as a crash. */
void fuzz_expect(bool holds, const char *promise);

/* Reads a 16-bit length, then as many bytes. Returns fewer bytes if the input ends before. */
struct bytes fuzz_part(struct reader *r);
struct bytes fuzz_rest(struct reader *r);
/* Returns a copy up to the first NUL. The caller owns the copy. */
char *fuzz_text(struct bytes part);
/* Returns a copy of |part| in a separate allocation, so that AddressSanitizer finds reads beyond
 * the copy's end. The caller owns the copy. */
uint8_t *fuzz_copy(struct bytes part);

/* The directory is in $TMPDIR, or else in /tmp. */
const char *fuzz_directory(void);
/* Returns "<directory>/<name>", in static memory that the fourth later call overwrites. */
const char *fuzz_path(const char *name);
const char *fuzz_file(const char *name, struct bytes content);
void fuzz_remove(const char *path);
unsigned fuzz_descriptors(void);
/* The caller owns the memfd. */
int fuzz_memfd(struct bytes content, bool sealed);

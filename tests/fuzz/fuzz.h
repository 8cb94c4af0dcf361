/* SPDX-License-Identifier: MIT */
#pragma once

/* Code that the fuzz targets share.
 *
 * A target is one fuzz_<name>.c with LLVMFuzzerTestOneInput. It is linked with libFuzzer (preset
 * fuzz) or with standalone.c, which runs the target on given files. fuzz_directory is removed when
 * the process ends. */
#include "common/base/bytes.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* If |holds| is false, prints |promise| and aborts, which the fuzzer reports as a crash. */
void fuzz_expect(bool holds, const char *promise);

/* Reads a 16-bit length, then as many bytes. Returns what is left if the input is shorter. */
struct bytes fuzz_part(struct reader *r);
struct bytes fuzz_rest(struct reader *r);
/* Returns a copy of |part| up to the first NUL. The caller frees the copy. */
char *fuzz_text(struct bytes part);
/* Returns a copy of |part| in its own allocation, so that AddressSanitizer detects reads behind its
 * end. The caller frees the copy. */
uint8_t *fuzz_copy(struct bytes part);

/* Returns a private directory in $TMPDIR, or in /tmp if that is not set. */
const char *fuzz_directory(void);
/* Returns "<fuzz_directory>/<name>" in static memory, which the fourth later call overwrites. */
const char *fuzz_path(const char *name);
const char *fuzz_file(const char *name, struct bytes content);
void fuzz_remove(const char *path);
unsigned fuzz_descriptors(void);
/* The caller closes the memfd. */
int fuzz_memfd(struct bytes content, bool sealed);

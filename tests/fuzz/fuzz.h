/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the fuzz targets share.
 *
 * Role       splits an input into parts, writes files from it, aborts if a property does not hold
 * Ownership  see each call; the private directory is removed when the process ends
 * Threading  one thread
 *
 * A target is one fuzz_<name>.c with LLVMFuzzerTestOneInput.  It is linked with libFuzzer (preset
 * fuzz) or with standalone.c, which runs the target on given files.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints the property that does not hold and aborts, which counts as a crash. */
void fuzz_expect(bool holds, const char *promise);

/* Reads a u16 length, then that many bytes, or as many as are left. */
struct bytes fuzz_part(struct reader *r);
struct bytes fuzz_rest(struct reader *r);
/* A copy up to the first NUL; owned. */
char *fuzz_text(struct bytes part);
/* A copy in its own allocation, so that AddressSanitizer finds reads beyond it; owned. */
uint8_t *fuzz_copy(struct bytes part);

/* A private directory in $TMPDIR, else in /tmp. */
const char *fuzz_directory(void);
/* "<directory>/<name>"; borrowed until the fourth call from here. */
const char *fuzz_path(const char *name);
/* Writes |content| to that file and returns its path. */
const char *fuzz_file(const char *name, struct bytes content);
/* Removes a file, or a directory with its contents. */
void fuzz_remove(const char *path);
/* The number of open descriptors of this process. */
unsigned fuzz_descriptors(void);
/* A memfd with |content|, sealed or not; the caller owns it. */
int fuzz_memfd(struct bytes content, bool sealed);

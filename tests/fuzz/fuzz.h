/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the fuzz targets share.
 *
 * Role       takes an input apart, makes files of it, stops where a promise is broken
 * Ownership  see each call; the directory goes when the process ends
 * Threading  one thread
 *
 * A target is one fuzz_<name>.c with LLVMFuzzerTestOneInput; what it links beside this is
 * libFuzzer (preset fuzz), or standalone.c, which runs the files that it is given.
 */
#include "common/bytes.h"
#include "common/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints what was promised and aborts, so that it counts as a crash. */
void fuzz_expect(bool holds, const char *promise);

/* A u16 length, then so many bytes, or what there is. */
struct bytes fuzz_part(struct reader *r);
struct bytes fuzz_rest(struct reader *r);
/* Copied, up to its first NUL; owned. */
char *fuzz_text(struct bytes part);
/* The same bytes in memory of their own, so that one read beyond them is seen; owned. */
uint8_t *fuzz_copy(struct bytes part);

/* A private directory in $TMPDIR, else in /tmp. */
const char *fuzz_directory(void);
/* "<directory>/<name>"; borrowed until the fourth call from here. */
const char *fuzz_path(const char *name);
/* Makes that file hold |content|; its path. */
const char *fuzz_file(const char *name, struct bytes content);
/* A file, or a directory with all that is in it. */
void fuzz_remove(const char *path);
/* How many descriptors this process has open, as far as they may be. */
unsigned fuzz_descriptors(void);
/* A memfd with |content|, sealed or not; the caller's. */
int fuzz_memfd(struct bytes content, bool sealed);

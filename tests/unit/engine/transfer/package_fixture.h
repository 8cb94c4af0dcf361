/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/digest.h"
#include "engine/transfer/transfer.h"
#include "tests/support/test.h"

#define FIXTURE_PATH_MAX 512
#define PACKAGE "gfx90a68.kdb"

struct package_fixture {
    const char *directory;
    const char *staging, *keys, *files; /* in |directory| */
    struct kiln_err err;
};

void package_fixture_open(struct package_fixture *f);
/* Makes a job that trusts |keys|, writes to |staging|, and has no content yet. */
struct transfer_job package_job(const struct package_fixture *f);

/* Returns the path files/|name|. */
const char *package_path(const struct package_fixture *f, const char *name);
/* Makes a kernel database with |rows| incompressible objects of |size| bytes. */
void package_write(const struct package_fixture *f, const char *name, unsigned rows, size_t size);
/* Compresses files/|from| into files/|to|, each half as a separate bzip2 stream. */
void package_pack(const struct package_fixture *f, const char *from, const char *to);
/* Writes files/|name|.manifest, signed with a new key |key|. */
void package_sign(const struct package_fixture *f, const char *name, const char *key, bool trusted);
void package_damage(const struct package_fixture *f, const char *name);
struct digest package_digest(const char *path);
void assert_is_empty(const char *directory);

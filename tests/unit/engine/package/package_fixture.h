/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/package/package_set.h"
#include "engine/package/package_writer.h"

struct fixture {
    const char *directory; /* contains the directories below */
    const char *own;       /* directory/own, for packages that kiln installed */
    const char *incoming;
    const char *other; /* directory/other, for packages of a distribution */
    const char *keys;  /* directory/keys, for trusted keys */
    struct package_set *set;
    bool require_signature;
    unsigned came, went, refused;
    char last[PACKAGE_NAME_MAX];
    char refusal[600];
    /* results of the latest look-up */
    struct buffer raw;
    struct package_found found;
    struct kiln_err err;
};

void open_directories(struct fixture *f); /* Makes the directories and opens the set of packages. */
SET_UP(set_up_packages) { open_directories(f); }
FIXTURE(package, set_up_packages, NULL);

/* The number of a kernel determines its name, arguments and object. */
struct kernel_text {
    char name[64], args[200];
};
struct kernel_text text_of(unsigned number);
/* The caller owns the memory. */
struct buffer object_of(unsigned number);
struct digest key_of(unsigned number);
/* Writes kernels |first| to |first| + |count| - 1 as a package. */
void write_package(struct fixture *f, const char *path, enum package_format format, unsigned first,
                   unsigned count);
/* Writes a package to |directory|/|name|. The name determines the format. */
const char *put_package(struct fixture *f, const char *directory, const char *name, unsigned first,
                        unsigned count);
/* Returns the path in static memory, which the eighth later call overwrites. */
const char *path_in(const char *directory, const char *name);
struct buffer read_file(const char *path); /* the caller owns the memory */

enum kiln_code adopt_into(struct fixture *f, const struct package_upload *upload,
                          struct package_info *ret_info);
/* Returns a manifest that lists the upload as |name|, signed with the trusted key |signer|. The
 * caller frees the manifest. */
struct buffer sign_upload(struct fixture *f, const struct package_upload *upload, const char *name,
                          const char *signer);
enum kiln_code install(struct fixture *f, const char *name, unsigned first, unsigned count,
                       const char *signer);

enum kiln_code open_set(struct fixture *f);
void rescan(struct fixture *f);
/* Looks up kernel |number| by name for |database_id|. Sets f->raw and f->found. */
enum kiln_code look_up(struct fixture *f, const char *database_id, unsigned number);
enum kiln_code look_up_key(struct fixture *f, unsigned number);
/* Returns whether the kernel is found. Fails the test if the object is a wrong one. */
bool has(struct fixture *f, const char *database_id, unsigned number);
bool has_key(struct fixture *f, unsigned number);

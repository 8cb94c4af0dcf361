/* SPDX-License-Identifier: MIT */
#pragma once

/* A host without a GPU that builds and signs packages, serves them with nginx, or installs them. */
#include "tests/integration/cut_line.h"
#include "tests/integration/steps.h"
#include "tests/support/nginx.h"

struct product {
    const char *file, *target, *database_id;
};

struct site {
    struct daemon_process daemon;
    struct program_result result;
    struct nginx nginx;
    struct cut_line line;
    const char *keys;  /* path of the directory of trusted keys */
    const char *files; /* path of the directory of packages, manifests and secret keys */
};

/* Makes the directories. A kilnd that is started later trusts the keys in |keys|. */
void site_open(struct site *s);
/* Returns the path of the file |name| in |files|. The path is in static memory, which the fourth
 * later call overwrites. */
const char *site_file(const struct site *s, const char *name);
size_t site_file_size(const struct site *s, const char *name);
void site_flip_byte(const struct site *s, const char *name, size_t at);

/* Builds a package for the problems in the file |problems|, and signs it with the key "ops".
 * Returns its number of kernels. */
unsigned long long site_build(struct site *s, const struct product *p, const char *problems);
/* Makes the keys "ops" and "stranger", and builds all packages with a kilnd that it starts and
 * stops. */
void site_build_all(struct site *s, const struct product *products, size_t count,
                    const char *problems);

/* Serves the directory |files| with nginx. Skips the test if nginx is not installed. */
void site_serve(struct site *s, const char *files);
/* Returns the URL of |name| at |port| of this host, in static memory. */
const char *site_url(uint16_t port, const char *name);

/* SPDX-License-Identifier: MIT */
#pragma once

/* A host that builds and signs packages without a GPU, serves them with nginx, or installs them. */
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
    const char *keys;  /* directory of trusted keys */
    const char *files; /* directory of packages, manifests and secret keys */
};

/* Makes the directories. Does not start kilnd. A kilnd that is started later trusts |keys|. */
void site_open(struct site *s);
/* Returns the path of a file in |files|, in static memory that the fourth later call overwrites. */
const char *site_file(const struct site *s, const char *name);
size_t site_file_size(const struct site *s, const char *name);
void site_flip_byte(const struct site *s, const char *name, size_t at);

/* Builds a package for the file |problems|, signed with the key "ops". Returns the number of its
 * kernels. */
unsigned long long site_build(struct site *s, const struct product *p, const char *problems);
/* Makes the keys "ops" and "stranger", and builds all packages. Starts and stops kilnd. */
void site_build_all(struct site *s, const struct product *products, size_t count,
                    const char *problems);

/* Serves |files| with nginx. Skips the test if nginx is not installed. */
void site_serve(struct site *s, const char *files);
/* Returns a URL on this host in static memory. */
const char *site_url(uint16_t port, const char *name);

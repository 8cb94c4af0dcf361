/* SPDX-License-Identifier: MIT */
#include "tests/integration/numbered.h"

#include "tests/integration/steps.h"

#include <stdio.h>
#include <string.h>

#define WORDS (NUMBERED_BYTES / 4)

static char *make_source(unsigned number)
{
    static const char kernel[] = "};\nextern \"C\" __attribute__((global)) void pick(unsigned *x)\n"
                                 "{ x[0] = table[x[0] % (sizeof(table) / 4)]; }\n";
    size_t most = WORDS * 12 + 1000, used;
    char *text = malloc(most);
    assert_non_null(text);
    uint64_t x = number + 1;
    used =
        (size_t)snprintf(text, most, "__attribute__((device, used)) const unsigned table[] = {\n");
    for (unsigned i = 0; i < WORDS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        used += (size_t)snprintf(text + used, most - used, "0x%08x,", (unsigned)(x >> 32));
    }
    strcpy(text + used, kernel);
    return text;
}

int numbered_fetch(struct kiln_client *client, unsigned number, char *ret_key)
{
    KILN_AUTO(mem) char *text = make_source(number);
    const struct kiln_kernel_source source = { .size = sizeof(source),
                                               .target = NUMBERED_TARGET,
                                               .toolchain = "clang",
                                               .program = "pick.hip",
                                               .source = text };
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    must(kiln_kernel_fetch_source(client, &source, &kernel, &err), err);
    assert_true(kiln_kernel_size(kernel) > NUMBERED_BYTES);
    int tier = kiln_kernel_tier(kernel);
    if (ret_key)
        snprintf(ret_key, 65, "%s", kiln_kernel_key(kernel));
    kiln_kernel_unref(kernel);
    return tier;
}

int numbered_tier(const struct daemon_process *d, unsigned number)
{
    struct kiln_client *client = daemon_client(d);
    int tier = numbered_fetch(client, number, NULL);
    kiln_client_close(client);
    return tier;
}

struct options {
    struct daemon_process *daemon;
    unsigned count;
};

static bool are_stored(void *context)
{
    struct options *options = context;
    return daemon_stat(options->daemon, "store_objects") == options->count;
}

void numbered_stored(struct daemon_process *d, unsigned count)
{
    struct options options = { d, count };
    if (!holds_in_time(are_stored, &options))
        fail_msg("%llu kernels are stored, not %u", daemon_stat(d, "store_objects"), count);
}

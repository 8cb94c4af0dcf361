/* SPDX-License-Identifier: MIT */
#include "tests/gpu/network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA 0x3c /* value of every byte of the operands; it makes small numbers in each type */

enum memory { MEMORY_WORKSPACE = 3, MEMORIES };

void network_die(const char *what, const struct kiln_error *err)
{
    fprintf(stderr, "%s: %s: %s\n%s", program_invocation_short_name, what, err->text, err->log);
    exit(1);
}

void network_must(int rc, const char *what, const struct kiln_error *err)
{
    if (rc)
        network_die(what, err);
}

void network_read(struct network *n, const char *name)
{
    char text[2048];
    struct kiln_error err;
    FILE *file = fopen(name, "re");
    if (!file) {
        perror(name);
        exit(2);
    }
    while (fgets(text, sizeof(text), file)) {
        struct kiln_driver_line line = { .size = sizeof(line) };
        text[strcspn(text, "\n")] = '\0';
        int rc = kiln_driver_line_parse(text, &line, &err);
        if (rc == KILN_E_NOT_FOUND)
            continue;
        network_must(rc, name, &err);
        for (unsigned i = 0; i < line.count && n->count < NETWORK_MAX; i++)
            n->problems[n->count++] = line.problems[i];
    }
    fclose(file);
}

/* Returns the memory that all problems share for operand |which|.  The memory grows to the size of
 * the largest problem, and is filled with DATA. */
static struct kiln_memory *memory_of(struct network *n, int which, uint64_t bytes)
{
    struct kiln_memory **memory = &n->memories[which];
    struct kiln_error err;
    if (*memory && kiln_memory_bytes(*memory) >= bytes)
        return *memory;
    network_must(kiln_device_finish(n->device, &err), "device", &err);
    kiln_memory_destroy(*memory);
    network_must(kiln_memory_create(n->device, bytes, memory, &err), "memory", &err);
    network_must(kiln_memory_fill(*memory, DATA, NULL, &err), "memory", &err);
    return *memory;
}

static struct kiln_memory *tensor_of(struct network *n, unsigned index, int which)
{
    struct kiln_error err;
    uint64_t bytes = 0;
    network_must(kiln_problem_tensor(&n->problems[index], which, NULL, &bytes, &err), "tensor",
                 &err);
    return memory_of(n, which, bytes);
}

void network_allocate(struct network *n)
{
    for (unsigned i = 0; i < n->count; i++) {
        for (int which = 0; which < MEMORY_WORKSPACE; which++)
            (void)tensor_of(n, i, which);
    }
}

void network_launch(struct network *n, unsigned index, struct kiln_run *run, uint64_t workspace)
{
    struct kiln_error err;
    const struct kiln_tensors all = { .size = sizeof(all),
                                      .x = tensor_of(n, index, KILN_TENSOR_X),
                                      .w = tensor_of(n, index, KILN_TENSOR_W),
                                      .y = tensor_of(n, index, KILN_TENSOR_Y),
                                      .workspace = workspace
                                                       ? memory_of(n, MEMORY_WORKSPACE, workspace)
                                                       : NULL };
    network_must(kiln_run_launch(run, &all, NULL, &err), "launch", &err);
}

void network_done(struct network *n)
{
    for (int i = 0; i < MEMORIES; i++)
        kiln_memory_destroy(n->memories[i]);
    kiln_device_close(n->device);
}

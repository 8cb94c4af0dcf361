/* SPDX-License-Identifier: MIT */
/* A library whose load takes as long as a test says, in the place of the engine's and of a GPU
 * runtime: its constructor says that it runs, and waits for a word. */
#include "common/embedded_entry.h"

#include <stdlib.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static int is_loaded;

__attribute__((constructor)) static void load(void)
{
    char word = 'l';
    const char *says = getenv("SLOW_LIBRARY_SAYS"), *hears = getenv("SLOW_LIBRARY_HEARS");
    if (!says || !hears || write(atoi(says), &word, 1) != 1 || read(atoi(hears), &word, 1) != 1)
        abort();
    is_loaded = 1;
}

PUBLIC int slow_library_is_loaded(void);
int slow_library_is_loaded(void) { return is_loaded; }

/* The code says what the caller had. */
static enum kiln_code connect_engine(const struct embedded_options *options, int *ret_fd,
                                     struct kiln_err *err)
{
    (void)options;
    (void)ret_fd;
    err->code = is_loaded ? KILN_UNSUPPORTED : KILN_CORRUPT;
    return err->code;
}

static void let_go(void) {}
static void settle(void) {}
static void status(struct embedded_status *ret_status) { (void)ret_status; }
static bool answers(unsigned ms, uint64_t deadline_ns) { return ms > deadline_ns; }

PUBLIC const struct embedded_entry kiln_embedded_entry = { .version = EMBEDDED_ENTRY_VERSION,
                                                           .release = KILN_VERSION,
                                                           .connect = connect_engine,
                                                           .let_go = let_go,
                                                           .settle = settle,
                                                           .status = status,
                                                           .answers = answers };

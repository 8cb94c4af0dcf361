/* SPDX-License-Identifier: MIT */
/* A fake GPU runtime whose load lasts until the test continues it: its constructor writes to a
 * pipe and waits for a byte. */
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

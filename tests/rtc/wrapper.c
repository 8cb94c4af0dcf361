/* SPDX-License-Identifier: MIT */
/* Becomes the program $FAKE_CC_REAL. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *real = getenv("FAKE_CC_REAL");
    (void)argc;
    if (real)
        execv(real, argv);
    return 127;
}

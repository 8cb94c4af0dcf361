/* SPDX-License-Identifier: MIT */
#include <kiln/kiln.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    struct kiln_client *client = NULL;
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    struct kiln_kernel_source source = {
        .size = sizeof(source),
        .target = argc > 1 ? argv[1] : "gfx942",
        .program = "scale.hip",
        .options = "-O3 -DBY=2",
        .source = "extern \"C\" __attribute__((global)) void scale(float *x) { *x *= BY; }\n",
    };
    int rc = kiln_client_open(NULL, &client, &err);
    if (!rc)
        rc = kiln_kernel_fetch_source(client, &source, &kernel, &err);
    if (rc)
        fprintf(stderr, "consumer: %s\n", err.text);
    else
        printf("libkiln %s: %zu bytes for %s\n", kiln_version(), kiln_kernel_size(kernel),
               source.target);
    kiln_kernel_unref(kernel);
    kiln_client_close(client);
    return rc != 0;
}

/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target on the given files and on all files of the given directories, without
 * libFuzzer. So every build can test the corpora and the inputs of earlier crashes, even if its
 * compiler has no libFuzzer. The first argument is the directory of the corpus, which must contain
 * a file. */
#include "tests/fuzz/fuzz.h"

#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (16u << 20)
#define PATH_SIZE 1024

static unsigned files_run;

static void run_file(const char *path)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_MAX);
    if (fs_read_file(path, FILE_MAX, &content, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(EXIT_FAILURE);
    }
    uint8_t *data = fuzz_copy(buffer_view(&content));
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, content.size);
    free(data);
    files_run++;
}

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void run_directory(const char *path)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, is_shown, alphasort);
    if (count < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char file[PATH_SIZE];
        snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
        run_file(file);
        free(names[i]);
    }
    free((void *)names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat seen;
        if (stat(argv[i], &seen) < 0) {
            if (errno == ENOENT && i > 1) /* no crash has been found yet */
                continue;
            perror(argv[i]);
            return EXIT_FAILURE;
        }
        if (S_ISDIR(seen.st_mode))
            run_directory(argv[i]);
        else
            run_file(argv[i]);
        if (files_run == 0) {
            fprintf(stderr, "there is no file in '%s'\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    if (files_run == 0) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

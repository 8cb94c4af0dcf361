/* SPDX-License-Identifier: MIT */
#include "libclient/device/text_file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX 512
#define BLANKS " \t\n"

static bool is_version(const char *word)
{
    return isdigit((unsigned char)word[0]) && strspn(word, "0123456789.") == strlen(word) &&
           strchr(word, '.');
}

bool text_file_version(const char *path, char *ret_version, size_t size)
{
    char line[LINE_MAX];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool has_line = fgets(line, sizeof(line), file);
    fclose(file);
    char *rest = NULL;
    char *word = has_line ? strtok_r(line, BLANKS, &rest) : NULL;
    while (word && !is_version(word))
        word = strtok_r(NULL, BLANKS, &rest);
    if (!word || strlen(word) >= size)
        return false;
    memcpy(ret_version, word, strlen(word) + 1);
    return true;
}

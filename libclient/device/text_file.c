/* SPDX-License-Identifier: MIT */
#include "libclient/device/text_file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX 512
#define BLANKS " \t\n"

static bool is_version(const char *token)
{
    return isdigit((unsigned char)token[0]) && strspn(token, "0123456789.") == strlen(token) &&
           strchr(token, '.');
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
    char *token = has_line ? strtok_r(line, BLANKS, &rest) : NULL;
    while (token && !is_version(token))
        token = strtok_r(NULL, BLANKS, &rest);
    if (!token || strlen(token) >= size)
        return false;
    memcpy(ret_version, token, strlen(token) + 1);
    return true;
}

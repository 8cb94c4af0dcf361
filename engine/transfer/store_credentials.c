/* SPDX-License-Identifier: MIT */
#include "engine/transfer/store_credentials.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_SIZE_MAX (64u << 10)
#define DEFAULT_REGION "us-east-1"
#define SYSTEMD_NAME "aws"

struct member {
    const char *name, *variable;
    size_t offset, size;
};

#define MEMBER(name, variable, field)                              \
    {                                                              \
        name, variable, offsetof(struct store_credentials, field), \
            sizeof(((struct store_credentials *)0)->field)         \
    }
static const struct member members[] = {
    MEMBER("aws_access_key_id", "AWS_ACCESS_KEY_ID", id),
    MEMBER("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", secret),
    MEMBER("aws_session_token", "AWS_SESSION_TOKEN", token),
    MEMBER("region", "AWS_REGION", region),
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

static bool set_member(struct store_credentials *c, const struct member *m, const char *text)
{
    int size = snprintf((char *)c + m->offset, m->size, "%s", text);
    return size >= 0 && (size_t)size < m->size;
}

static bool is_complete(const struct store_credentials *c) { return c->id[0] && c->secret[0]; }

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && strchr(" \t\r", text[size - 1]))
        text[--size] = '\0';
    return text;
}

static bool read_member(struct store_credentials *c, char *line)
{
    char *value = strchr(line, '=');
    if (!value)
        return true;
    *value++ = '\0';
    for (size_t i = 0; i < MEMBERS; i++)
        if (strcmp(trim(line), members[i].name) == 0)
            return set_member(c, &members[i], trim(value));
    return true;
}

static bool is_section(const char *line, const char *profile)
{
    size_t size = strlen(profile);
    return strncmp(line + 1, profile, size) == 0 && strcmp(line + 1 + size, "]") == 0;
}

bool store_credentials_parse(struct bytes content, const char *profile, struct store_credentials *c)
{
    KILN_AUTO(mem) char *text = bytes_to_text(content);
    bool is_ours = false, fits = true;
    char *rest = NULL;
    if (!text)
        return false;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line = trim(line);
        if (line[0] == '[')
            is_ours = is_section(line, profile);
        else if (is_ours && line[0] != '#')
            fits = read_member(c, line) && fits;
    }
    explicit_bzero(text, content.size);
    return fits && is_complete(c);
}

static const char *find_file(char path[PATH_MAX])
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    const char *file = getenv("AWS_SHARED_CREDENTIALS_FILE");
    if (file && *file)
        return file;
    if (!directory)
        return NULL;
    int size = snprintf(path, PATH_MAX, "%s/" SYSTEMD_NAME, directory);
    return size > 0 && size < PATH_MAX && access(path, F_OK) == 0 ? path : NULL;
}

static enum kiln_code read_file(const char *path, struct store_credentials *c, struct kiln_err *err)
{
    const char *profile = getenv("AWS_PROFILE");
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_SIZE_MAX);
    if (!profile || !*profile)
        profile = "default";
    enum kiln_code rc = fs_read_file(path, FILE_SIZE_MAX, &content, err);
    bool is_read = !rc && store_credentials_parse(buffer_view(&content), profile, c);
    if (content.data)
        explicit_bzero(content.data, content.size);
    if (rc || is_read)
        return rc;
    return kiln_fail(err, KILN_INVALID, "'%s' has no complete credentials for the profile '%.80s'",
                     path, profile);
}

static bool read_environment(struct store_credentials *c)
{
    bool fits = true;
    for (size_t i = 0; i < MEMBERS; i++) {
        const char *text = getenv(members[i].variable);
        fits = (!text || set_member(c, &members[i], text)) && fits;
    }
    const char *region = getenv("AWS_DEFAULT_REGION");
    if (!c->region[0] && region)
        fits = set_member(c, &members[MEMBERS - 1], region) && fits;
    return fits;
}

enum kiln_code store_credentials_read(struct store_credentials *c, struct kiln_err *err)
{
    char path[PATH_MAX];
    enum kiln_code rc = KILN_OK;
    *c = (struct store_credentials){ 0 };
    if (!read_environment(c))
        return kiln_fail(err, KILN_INVALID, "a variable AWS_... is too long");
    if (!is_complete(c)) {
        const char *file = find_file(path);
        c->id[0] = '\0';
        rc = file ? read_file(file, c, err) : KILN_OK;
    }
    if (!c->region[0])
        strcpy(c->region, DEFAULT_REGION);
    return rc;
}

static void forget_variable(const char *name)
{
    char *text = getenv(name);
    if (text)
        explicit_bzero(text, strlen(text));
    unsetenv(name);
}

void store_credentials_forget(void)
{
    for (size_t i = 0; i < MEMBERS; i++)
        forget_variable(members[i].variable);
    forget_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
}

void store_credentials_wipe(struct store_credentials *c) { explicit_bzero(c, sizeof(*c)); }

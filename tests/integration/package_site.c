/* SPDX-License-Identifier: MIT */
#include "tests/integration/package_site.h"

#include "tests/support/test_files.h"

#include <stdio.h>
#include <sys/stat.h>

void site_open(struct site *s)
{
    daemon_process_init(&s->daemon);
    s->keys = test_subdirectory(s->daemon.directory, "keys");
    s->files = test_subdirectory(s->daemon.directory, "files");
    s->daemon.arguments[0] = "--trusted-keys";
    s->daemon.arguments[1] = s->keys;
}

const char *site_file(const struct site *s, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", s->files, name);
    return path;
}

size_t site_file_size(const struct site *s, const char *name)
{
    struct stat seen;
    assert_int_equal(stat(site_file(s, name), &seen), 0);
    return (size_t)seen.st_size;
}

void site_flip_byte(const struct site *s, const char *name, size_t at)
{
    FILE *target = fopen(site_file(s, name), "r+e");
    assert_non_null(target);
    assert_int_equal(fseek(target, (long)at, SEEK_SET), 0);
    int byte = fgetc(target);
    assert_true(byte != EOF);
    assert_int_equal(fseek(target, (long)at, SEEK_SET), 0);
    assert_true(fputc(byte ^ 1, target) != EOF);
    assert_int_equal(fclose(target), 0);
}

unsigned long long site_build(struct site *s, const struct product *p, const char *problems)
{
    kilnctl_ok(s, "pkg", "build", "--target", p->target, "--db-id", p->database_id, "--problems",
               problems, "--output", site_file(s, p->file), "--key", site_file(s, "ops.key"),
               "--json");
    KILN_AUTO(json) struct json *built = printed_json(&s->result);
    unsigned long long kernels = json_get_u64(json_get(built, "package"), "kernels", 0);
    assert_true(kernels > 0);
    print_message("%s: %llu kernels, %zu bytes\n", p->file, kernels, site_file_size(s, p->file));
    return kernels;
}

void site_build_all(struct site *s, const struct product *products, size_t count,
                    const char *problems)
{
    daemon_process_start(&s->daemon);
    kilnctl_ok(s, "pkg", "keygen", "ops", "--directory", s->files);
    kilnctl_ok(s, "pkg", "keygen", "stranger", "--directory", s->files);
    for (size_t i = 0; i < count; i++)
        site_build(s, &products[i], problems);
    assert_int_equal(daemon_process_stop(&s->daemon), 0);
}

void site_serve(struct site *s, const char *files)
{
    SKIP_IF(!nginx_start(&s->nginx, s->daemon.directory, files, NULL, NULL), "no nginx here");
}

const char *site_url(uint16_t port, const char *name)
{
    static char text[128];
    snprintf(text, sizeof(text), "http://127.0.0.1:%u/%s", port, name);
    return text;
}

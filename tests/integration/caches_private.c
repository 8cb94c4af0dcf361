/* SPDX-License-Identifier: MIT */
#include "tests/integration/cache_steps.h"
#include "tests/integration/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void become_another(void)
{
    if (!become_other_user())
        _exit(200);
}

/* Fetches the kernel of row |at| as another user: by |key|, or by name if |key| is NULL. Returns
 * the fetch's code, or 201 if the object is wrong. */
static int fetch_as_another(const struct caches *f, size_t at, const char *key)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return wait_program(pid);
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = f->daemon.socket };
    const struct row *row = &f->rows->rows[at];
    struct kiln_client *client = NULL;
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = CACHE_DEVICE, .name = row->name, .args = row->args
    };
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    BUFFER_AUTO struct buffer object = object_of(f->rows, at);
    become_another();
    int rc = kiln_client_open(&options, &client, &err);
    if (!rc && key)
        rc = kiln_kernel_fetch(client, key, 0, &kernel, &err);
    else if (!rc)
        rc = kiln_kernel_fetch_named(client, &name, &kernel, &err);
    if (rc)
        _exit(rc);
    bool right = kiln_kernel_size(kernel) == object.size &&
                 memcmp(kiln_kernel_data(kernel), object.data, object.size) == 0;
    _exit(right ? KILN_E_OK : 201);
}

static void find_key(struct caches *f, size_t at, bool is_private, char key[65])
{
    kilnctl_ok(f, "kernel", "ls", "--json");
    KILN_AUTO(json) struct json *listed = printed_json(&f->result);
    const struct json *j = json_first(json_get(listed, "kernels"));
    for (; j; j = json_next(j)) {
        if (strcmp(json_get_text(j, "options", ""), f->rows->rows[at].args) == 0 &&
            json_get_bool(j, "private", !is_private) == is_private)
            break;
    }
    assert_non_null(j);
    snprintf(key, 65, "%s", json_get_text(j, "key", ""));
}

TEST_F(caches, an_import_is_private_unless_an_administrator_imports_it_for_all)
{
    char key[65];
    use_small_cache(f);
    need_root();
    daemon_process_start(&f->daemon);
    admit_all_users(&f->daemon);
    import_cache(f, f->path);
    expect_status(&f->result, 0, "\"scope\":\"own\"");
    find_key(f, 5, true, key);

    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_NOT_FOUND);
    assert_int_equal(fetch_as_another(f, 5, key), KILN_E_NOT_FOUND);
    expect_rows(f, KILN_TIER_NONE);
    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_NOT_FOUND);
    assert_int_equal(fetch_as_another(f, 5, key), KILN_E_NOT_FOUND);

    kilnctl_ok(f, "kernel", "import", f->path, "--for-all");
    assert_says(f->result.output, "every user");
    find_key(f, 5, false, key);
    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_OK);
    assert_int_equal(fetch_as_another(f, 5, key), KILN_E_OK);
}

TEST_F(caches, each_user_exports_and_shares_their_own_kernels)
{
    char file[160], warm[160];
    use_small_cache(f);
    need_root();
    daemon_process_start(&f->daemon);
    admit_all_users(&f->daemon);
    shell(f->daemon.directory, "mkdir -m 0777 open && cp '%s' open && chmod 644 open/*", f->path);
    snprintf(file, sizeof(file), "%s/open/" CACHE, f->daemon.directory);
    snprintf(warm, sizeof(warm), "%s/open/warm", f->daemon.directory);
    import_cache(f, file);
    expect_status(&f->result, 0, "");
    run_programs_as(&f->daemon, OTHER_USER);

    kilnctl_fails(f, 5, "imported", "kernel", "export", warm);
    kilnctl_fails(f, 4, "administrator", "kernel", "import", file, "--for-all");
    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_NOT_FOUND);
    import_cache(f, file);
    expect_status(&f->result, 0, "\"imported\":40");

    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_OK);
    kilnctl_ok(f, "kernel", "export", warm);
    shell_says("40", warm, "sqlite3 " CACHE " 'select count(*) from kern_db'");
    f->daemon.user = 0;
    kilnctl_ok(f, "clear", "--uid", "45001", "--yes");
    assert_int_equal(fetch_as_another(f, 5, NULL), KILN_E_NOT_FOUND);
    expect_rows(f, KILN_TIER_NONE);
}

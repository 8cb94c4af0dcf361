/* SPDX-License-Identifier: MIT */
#include "tests/integration/cache_steps.h"

#include "common/base/fs.h"
#include "tests/support/test_data.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBJECT_MAX (1u << 20)

static struct fixture large_rows, *large = &large_rows;

int write_large_cache(void **state)
{
    char path[512];
    (void)state;
    open_rows(large);
    if (test_data_find(GENUINE_ROWS, path))
        add_genuine_rows(large);
    else
        add_rows(large, 978);
    /* bzip2 makes all these objects smaller, so they are compressed, as MIOpen would do. */
    for (size_t i = 0; i < large->count; i++)
        large->rows[i].packed = true;
    assert_int_equal(large->count, 978);
    add_row(large, "small.cl.o", "", 3, false);
    write_rows(large, NULL, NULL);
    return 0;
}

void caches_open(struct caches *f)
{
    daemon_process_init(&f->daemon);
    f->directory = test_subdirectory(f->daemon.directory, "miopen");
    f->path = test_path(f->directory, CACHE);
}

static void use_rows(struct caches *f, struct fixture *rows)
{
    f->rows = rows;
    shell(f->directory, "cp '%s' .", rows->path);
}

void use_large_cache(struct caches *f) { use_rows(f, large); }

void use_small_cache(struct caches *f)
{
    open_rows(&f->small);
    for (size_t i = 0; i < SMALL_CACHE_ROWS; i++) {
        char args[64];
        snprintf(args, sizeof(args), " -DN=%zu  -mcpu=gfx906", i);
        add_row(&f->small, "conv.cl.o", args, 3000 + i * 100, true);
    }
    write_rows(&f->small, NULL, NULL);
    use_rows(f, &f->small);
}

/* Returns whether |kernel| is the uncompressed object of row |at|. */
static bool is_object(const struct caches *f, size_t at, struct kiln_kernel *kernel)
{
    char path[PATH_LENGTH_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer object;
    buffer_init(&object, OBJECT_MAX);
    snprintf(path, sizeof(path), "%s/objects/%zu", f->rows->directory, at);
    must(fs_read_file(path, OBJECT_MAX, &object, &err), err);
    return kiln_kernel_size(kernel) == object.size &&
           memcmp(kiln_kernel_data(kernel), object.data, object.size) == 0;
}

int fetch_row(const struct caches *f, struct kiln_client *client, size_t at, int *ret_tier)
{
    const struct row *row = &f->rows->rows[at];
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = CACHE_DEVICE, .name = row->name, .args = row->args
    };
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    int rc = kiln_kernel_fetch_named(client, &name, &kernel, &err);
    if (rc)
        return rc;
    if (!is_object(f, at, kernel))
        fail_msg("row %zu, '%s': not its object", at, row->name);
    *ret_tier = kiln_kernel_tier(kernel);
    kiln_kernel_unref(kernel);
    return KILN_E_OK;
}

void expect_rows(struct caches *f, int tier)
{
    struct kiln_client *client = daemon_client(&f->daemon);
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    unsigned long long misses = daemon_stat(&f->daemon, "misses");
    for (size_t at = 0; at < f->rows->count; at++) {
        const struct row *row = &f->rows->rows[at];
        int from = KILN_TIER_NONE;
        int rc = fetch_row(f, client, at, &from);
        if (rc)
            fail_msg("row %zu, '%s' '%s': code %d", at, row->name, row->args, rc);
        assert_true(tier == KILN_TIER_NONE || from == tier);
    }
    kiln_client_close(client);
    assert_int_equal(daemon_stat(&f->daemon, "fetches") - fetches, f->rows->count);
    assert_int_equal(daemon_stat(&f->daemon, "misses"), misses);
}

void import_cache(struct caches *f, const char *path)
{
    kilnctl(f, "kernel", "import", path, "--json");
}

static void exec_sqlite(const char *path, int in, int out)
{
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    execlp("sqlite3", "sqlite3", "-bail", path, (char *)NULL);
    _exit(127);
}

void writer_start(struct writer *w, const char *path)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0)
        exec_sqlite(path, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    w->in = fdopen(in[1], "w");
    w->out = fdopen(out[0], "r");
    assert_true(w->in && w->out);
}

void writer_do(struct writer *w, const char *sql)
{
    char line[256];
    const char *got;
    fprintf(w->in, "%s;\nselect 'done';\n", sql);
    fflush(w->in);
    do {
        IN_TIME(got = fgets(line, sizeof(line), w->out));
        assert_non_null(got);
    } while (strcmp(line, "done\n") != 0);
}

void writer_kill(struct writer *w)
{
    kill(w->pid, SIGKILL);
    wait_program(w->pid);
    fclose(w->in);
    fclose(w->out);
}

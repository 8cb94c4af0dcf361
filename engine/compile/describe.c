/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "common/base/json.h"
#include "engine/compile/compiler.h"
#include "engine/compile/program.h"
#include "engine/compile/scratch.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define ROW_MAX (16u << 10)

static const char *const family_names[] = {
    [TARGET_AMDGPU] = "amdgpu",
    [TARGET_NVIDIA] = "nvidia",
    [TARGET_OPENCL] = "opencl",
};

static enum kiln_code describe_compiler(const struct compiler_ops *ops,
                                        struct toolchain *ret_toolchain, struct kiln_err *err)
{
    struct compiler *compiler = NULL;
    enum kiln_code rc = ops->open(&compiler, err);
    if (rc)
        return rc;
    rc = ops->describe(compiler, ret_toolchain, err);
    ops->close(compiler);
    return rc;
}

static struct json *row_of(const struct compiler_ops *ops)
{
    struct toolchain tc = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    char identity[DIGEST_HEX_SIZE], library[DIGEST_HEX_SIZE];
    struct json *row = json_object();
    json_set_text(row, "name", ops->name);
    if (describe_compiler(ops, &tc, &err)) {
        json_set_text(row, "reason", err.text);
        return row;
    }
    digest_to_hex(&tc.identity, identity);
    json_set_text(row, "family", family_names[ops->family]);
    json_set_text(row, "version", tc.version);
    json_set_text(row, "path", tc.path);
    digest_to_hex(&tc.library, library);
    json_set_text(row, "identity", identity);
    json_set_text(row, "library", library);
    json_set_text(row, "only_target", tc.only_target);
    return row;
}

int compiler_describe_to(const char *name, int fd)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct compiler_ops *ops = compiler_find(bytes_of_text(name));
    if (!ops) {
        fprintf(stderr, "kiln-compiler: there is no back end '%s'\n", name);
        return 2;
    }
    KILN_AUTO(json) struct json *row = row_of(ops);
    KILN_AUTO(mem) char *text = json_print(row, false);
    return text && fs_write_all(fd, bytes_of_text(text), &err) == KILN_OK ? 0 : 1;
}

struct inspection {
    const struct compiler_ops *ops;
    int row_fd;
    pid_t pid;
    struct kiln_err err;
};

static void start_description(struct inspection *l)
{
    const char *const argv[] = { "/proc/self/exe", "--describe", l->ops->name, NULL };
    if (scratch_unnamed(&l->row_fd, &l->err))
        return;
    struct program program = { .argv = argv, .out_fd = -1, .pass_fd = l->row_fd };
    if (program_start(&program, &l->pid, &l->err))
        l->pid = 0;
}

static struct json *describe_absence(const char *name, const char *reason)
{
    struct json *row = json_object();
    json_set_text(row, "name", name);
    json_set_text(row, "reason", reason);
    return row;
}

static struct json *finish_description(struct inspection *l)
{
    int status = 0;
    if (!l->pid || program_wait(l->pid, &status, &l->err))
        return describe_absence(l->ops->name, l->err.text);
    BUFFER_AUTO struct buffer text;
    struct json *row = NULL;
    buffer_init(&text, ROW_MAX);
    if (status == 0 && !fs_read_fd(l->row_fd, ROW_MAX, &text, &l->err) &&
        !json_parse(buffer_view(&text), l->ops->name, &row, &l->err))
        return row;
    if (WIFSIGNALED(status))
        kiln_fail(&l->err, KILN_UNAVAILABLE, "crashed while kiln inspected it (%s)",
                  strsignal(WTERMSIG(status)));
    else if (status)
        kiln_fail(&l->err, KILN_UNAVAILABLE, "failed while kiln inspected it (status %d)",
                  WEXITSTATUS(status));
    return describe_absence(l->ops->name, l->err.text);
}

enum kiln_code compilers_describe(struct buffer *ret_json, struct kiln_err *err)
{
    struct inspection inspections[COMPILERS];
    for (size_t i = 0; i < COMPILERS; i++) {
        inspections[i] =
            (struct inspection){ .ops = compilers[i], .row_fd = -1, .err = KILN_ERR_INIT };
        start_description(&inspections[i]);
    }
    KILN_AUTO(json) struct json *answer = json_object();
    struct json *present = json_array(), *absent = json_array();
    for (size_t i = 0; i < COMPILERS; i++) {
        struct json *row = finish_description(&inspections[i]);
        json_append(json_get(row, "identity") ? present : absent, row);
        fd_auto(&inspections[i].row_fd);
    }
    json_set(answer, "toolchains", present);
    json_set(answer, "absent", absent);
    KILN_AUTO(mem) char *text = json_print(answer, false);
    if (text)
        buffer_put(ret_json, text, strlen(text));
    if (!text || ret_json->failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot describe the toolchains");
    return KILN_OK;
}

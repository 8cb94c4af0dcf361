/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/kernel_files.h"
#include "tests/support/test_files.h"
#include "tests/support/test_problem.h"

#include "common/base/fs.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/kernels/program_job.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (64u << 20)

#define MACHINE_AMDGPU 224
#define MACHINE_GFX90A 0x3fu

struct amd_object amd_object(unsigned features, const char *mark)
{
    struct amd_object o;
    for (size_t i = 0; i < sizeof(o.bytes); i++)
        /* incompressible, so packages store it uncompressed */
        o.bytes[i] = (uint8_t)(i * i * 7919 >> 3);
    Elf64_Ehdr header = { .e_machine = MACHINE_AMDGPU, .e_flags = MACHINE_GFX90A | features };
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_ABIVERSION] = 2;
    memcpy(o.bytes, &header, sizeof(header));
    snprintf((char *)o.bytes + sizeof(header), sizeof(o.bytes) - sizeof(header), "%s", mark);
    return o;
}

static struct bytes content_of(const struct kernel_row *row)
{
    return row->size ? bytes_of(row->content, row->size) : bytes_of_text(row->content);
}

void write_kernel_file(const char *path, const struct kernel_row *rows, size_t count)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db_writer) struct kern_db_writer *writer = NULL;
    must(kern_db_create(path, &writer, &err), err);
    for (size_t i = 0; i < count; i++)
        must(kern_db_writer_add(writer, bytes_of_text(rows[i].name), bytes_of_text(rows[i].args),
                                content_of(&rows[i]), &err),
             err);
    must(kern_db_writer_finish(writer, &err), err);
}

struct comparison {
    const struct kernel_row *rows;
    size_t count, seen;
};

static bool compare(void *context, const struct kern_row *row)
{
    struct comparison *c = context;
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, FILE_MAX);
    must(kern_row_unpack(row, &raw, &err), err);
    assert_true(c->seen < c->count);
    const struct kernel_row *expected = &c->rows[c->seen++];
    assert_true(bytes_equal_text(row->name, expected->name));
    assert_true(bytes_equal_text(row->args, expected->args));
    assert_true(bytes_equal(buffer_view(&raw), content_of(expected)));
    return true;
}

void assert_kernel_file(const char *path, const struct kernel_row *rows, size_t count)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    struct comparison c = { .rows = rows, .count = count };
    must(kern_db_open(path, &db, &err), err);
    const struct kern_listing all = { .count = UINT32_MAX, .each = compare, .context = &c };
    must(kern_db_each(db, &all, &err), err);
    assert_int_equal(c.seen, count);
}

static void read_whole(const char *path, struct buffer *ret_content)
{
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(ret_content, FILE_MAX);
    must(fs_read_file(path, FILE_MAX, ret_content, &err), err);
}

void assert_same_bytes(const char *path, const char *other)
{
    assert_true(bytes_equal(test_read(path), test_read(other)));
}

void flip_bit(const char *path, struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer whole;
    read_whole(path, &whole);
    uint8_t *at = memmem(whole.data, whole.size, content.data, content.size);
    assert_non_null(at);
    *at ^= 1;
    must(fs_replace_file(path, buffer_view(&whole), 0644, &err), err);
}

int sealed_file(struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1;
    must(fs_memfd("test", &fd, &err), err);
    must(fs_write_all(fd, content, &err), err);
    must(fs_seal(fd, &err), err);
    return fd;
}

int open_copy(const char *path)
{
    BUFFER_AUTO struct buffer whole;
    read_whole(path, &whole);
    return sealed_file(buffer_view(&whole));
}

void write_object(const struct test_caller *c, size_t index, size_t number, const char *path)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_MAX);
    reply_object(c, index, number, &content);
    must(fs_replace_file(path, buffer_view(&content), 0600, &err), err);
}

const char *package_path(const struct engine_fixture *f, const char *file_name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->packages, file_name);
    return path;
}

void put_package(struct engine_fixture *f, const char *file_name, const struct kernel_row *rows,
                 size_t count)
{
    char making[256];
    snprintf(making, sizeof(making), "%s/making-%s", f->directory, file_name);
    write_kernel_file(making, rows, count);
    assert_int_equal(rename(making, package_path(f, file_name)), 0);
}

struct problem small_problem(uint32_t channels)
{
    struct problem problem = test_problem(1);
    problem.c = problem.k = channels;
    problem.pad = (struct extent){ 0 };
    return problem;
}

static void find_names(const struct problem *problem, const char *target, const char *solver,
                       const struct toolchain *tc, struct program_names *ret_names)
{
    const struct solver_choice choice = { .solver = bytes_of_text(solver) };
    static const struct toolchain none = { .name = "none" };
    struct kiln_err err = KILN_ERR_INIT;
    struct target parsed;
    struct solution solution;
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    struct program_names *n = ret_names;
    tc = tc ? tc : &none;
    must(target_parse(bytes_of_text(target), &parsed, &err), err);
    must(solver_solve(problem, &parsed, &choice, &solution, &err), err);
    n->program = solution.programs[0];
    must(program_job_make(&n->program, &parsed, tc, &p, &err), err);
    struct package_source source = program_job_source(&p.job);
    buffer_init(&n->name, LIMIT_OPTIONS_TEXT);
    buffer_init(&n->args, 2 * LIMIT_OPTIONS_TEXT);
    must(package_kernel_name(&source, &n->name, &err), err);
    must(package_kernel_args(&source, &parsed, &n->args, &err), err);
    buffer_put_u8(&n->name, '\0');
    buffer_put_u8(&n->args, '\0');
    assert_false(n->name.failed || n->args.failed);
    n->key = kernel_key(&p.job, &tc->identity);
}

void program_names_find(const struct problem *problem, const char *target,
                        const struct toolchain *tc, struct program_names *ret_names)
{
    find_names(problem, target, "", tc, ret_names);
}

void program_names_find_of(const struct problem *problem, const char *target, const char *solver,
                           struct program_names *ret_names)
{
    find_names(problem, target, solver, NULL, ret_names);
}

void program_names_done(struct program_names *names)
{
    buffer_done(&names->name);
    buffer_done(&names->args);
}

void send_plan(struct test_caller *c, uint64_t id, const struct message_plan *plan)
{
    SEND_MESSAGE(c, plan, id, plan);
    fake_executor_run_tasks(&c->fixture->executor);
}

struct message_result planned_result(const struct test_caller *c, size_t index)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_true(index < c->reply_count);
    if (c->replies[index].type == MESSAGE_error) {
        KILN_AUTO(mem) char *text = bytes_to_text(reply_error(c, index).text);
        fail_msg("no plan: '%s'", text);
    }
    assert_int_equal(c->replies[index].type, MESSAGE_planned);
    struct reader r = reader_of(c->replies[index].body);
    struct message_planned m = message_planned_read(&r);
    must(message_body_check(&r, MESSAGE_planned, &err), err);
    assert_true(m.object_count > 0);
    struct reader objects = reader_of(m.objects);
    struct message_result result = message_result_read(&objects);
    assert_false(objects.failed);
    return result;
}

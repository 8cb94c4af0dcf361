/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/import_fixture.h"

#include <stdio.h>
#include <unistd.h>

void write_cache(struct users *f, const struct kernel_row *rows, size_t count)
{
    unlink(f->file);
    write_kernel_file(f->file, rows, count);
}

void write_many(struct users *f, unsigned count)
{
    static char names[MANY][16], contents[MANY][48];
    static struct kernel_row rows[MANY];
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "k%u.o", i);
        snprintf(contents[i], sizeof(contents[i]), "the object of kernel number %u", i);
        rows[i] = (struct kernel_row)TEXT_KERNEL(names[i], ARGS, contents[i]);
    }
    write_cache(f, rows, count);
}

void begin_import(struct users *f, struct test_caller *c, const char *question)
{
    const int file = open_copy(f->file);
    test_caller_forget_replies(c);
    test_caller_send_files(c, MESSAGE_kernel_import, question, &file, 1);
}

void end_transfer(struct users *f)
{
    fake_executor_transfer(&f->engine.executor, f->file, ID ".ukdb", "");
}

void import_cache(struct users *f, struct test_caller *c, const char *question)
{
    begin_import(f, c, question);
    end_transfer(f);
    fake_executor_run_tasks(&f->engine.executor);
}

void import_one(struct users *f, struct test_caller *c, const char *question, const char *content)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, content);
    write_cache(f, &row, 1);
    import_cache(f, c, question);
    json_destroy(reply_json(c, 0));
}

struct message_result ask_imported(struct test_caller *c, const char *name)
{
    test_caller_forget_replies(c);
    test_caller_fetch_name(c, ID, name, ARGS);
    return last_result(c);
}

bool gets_content(struct test_caller *c, const char *content)
{
    struct message_result o = ask_imported(c, "conv.o");
    return o.code == KILN_OK && bytes_equal_text(o.content, content);
}

size_t listed_kernels(struct test_caller *c)
{
    KILN_AUTO(json)
    struct json *list = test_caller_ask(c, MESSAGE_kernel_list, NULL);
    return json_count(json_get(list, "kernels"));
}

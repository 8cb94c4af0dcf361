/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/made_plan.h"

#include "libclient/plans/plan.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

static void write_kernel(const struct made_plan *made, struct buffer *to)
{
    BUFFER_AUTO struct buffer arguments;
    buffer_init(&arguments, 4096);
    for (uint32_t i = 0; i < made->argument_count; i++)
        message_plan_argument_write(&arguments, &made->arguments[i]);
    for (uint32_t i = 0; i < made->map_count; i++)
        tensor_map_write(&arguments, &made->maps[i]);
    struct message_plan_kernel k = { .name = bytes_of_text(made->entry),
                                     .grid_x = made->grid[0],
                                     .grid_y = made->grid[1],
                                     .grid_z = made->grid[2],
                                     .group_x = made->group[0],
                                     .group_y = made->group[1],
                                     .group_z = made->group[2],
                                     .shared_bytes = made->shared_bytes,
                                     .argument_count = made->argument_count,
                                     .arguments = buffer_view(&arguments) };
    message_plan_kernel_write(to, &k);
}

static void write_object(const struct made_plan *made, struct buffer *to)
{
    struct message_result o = { .tier = TIER_HOT, .size = made->object.size };
    memcpy(o.key.bytes, &made->key, sizeof(made->key));
    if (!made->object.data)
        o.size = 1;
    message_result_write(to, &o);
}

struct kiln_plan *made_plan_create(const struct made_plan *made)
{
    BUFFER_AUTO struct buffer kernels, objects, body;
    buffer_init(&kernels, 8192);
    buffer_init(&objects, 8192);
    buffer_init(&body, 32768);
    write_kernel(made, &kernels);
    write_object(made, &objects);
    struct message_planned m = { .solver = bytes_of_text("Made"),
                                 .toolchain = bytes_of_text("made"),
                                 .workspace_size = made->workspace,
                                 .kernel_count = 1,
                                 .kernels = buffer_view(&kernels),
                                 .object_count = 1,
                                 .objects = buffer_view(&objects) };
    message_planned_write(&body, &m);
    uint32_t n = made->elements ? made->elements : MADE_ELEMENTS;
    struct plan_question question = { .target = bytes_of_text(made->target),
                                      .without_objects = !made->object.data,
                                      .problem = { .spatial_dims = 2,
                                                   .n = 1,
                                                   .c = n,
                                                   .k = n,
                                                   .groups = n,
                                                   .in = { 1, 1, 1 },
                                                   .filter = { 1, 1, 1 },
                                                   .stride = { 1, 1, 1 },
                                                   .dilation = { 1, 1, 1 } } };
    int fd = made->object.data ? fake_memfd(made->object, /* sealed= */ true) : -1;
    struct frame_header header = { .type = MESSAGE_planned };
    struct reply reply = { .header = &header,
                           .body = buffer_view(&body),
                           .descriptors = &fd,
                           .descriptor_count = made->object.data ? 1 : 0 };
    struct kiln_plan *plan = NULL;
    struct failure failure = FAILURE_INIT;
    bool damaged;
    must(plan_create(&reply, &question, &plan, &damaged, &failure), failure.err);
    if (fd >= 0)
        close(fd);
    return plan;
}

struct made_plan made_plan_scale(const char *target, struct bytes object)
{
    return (struct made_plan){ .object = object,
                               .target = target,
                               .entry = "scale",
                               .grid = { MADE_ELEMENTS / 16, 1, 1 },
                               .group = { 16, 1, 1 },
                               .arguments = { { .kind = ARGUMENT_X },
                                              { .kind = ARGUMENT_W },
                                              { .kind = ARGUMENT_Y },
                                              { .kind = ARGUMENT_U32, .value = 5 },
                                              { .kind = ARGUMENT_F32, .value = 0x40000000 },
                                              { .kind = ARGUMENT_U64, .value = 3ull << 32 } },
                               .argument_count = 6,
                               .key = 1 };
}

struct bytes made_object(unsigned machine, uint32_t flags, const char *names)
{
    size_t length = strlen(names) + 1;
    size_t sections = (sizeof(Elf64_Ehdr) + length + 15) / 16 * 16;
    size_t size = sections + sizeof(Elf64_Shdr);
    uint8_t *data = calloc(1, size);
    assert_non_null(data);
    Elf64_Ehdr header = { .e_machine = (Elf64_Half)machine,
                          .e_flags = flags,
                          .e_shoff = sections,
                          .e_shnum = 1,
                          .e_shentsize = sizeof(Elf64_Shdr) };
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(data, &header, sizeof(header));
    memcpy(data + sizeof(header), names, length);
    return bytes_of(data, size);
}

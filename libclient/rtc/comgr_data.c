/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/comgr_data.h"

#include "engine/digest/sha256.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESULTS_MAGIC 0x3141544bu /* "KTA1" */
#define RESULTS_MAX 64
#define SOURCES_MAX (64u << 20)

enum data_kind {
    DATA_SOURCE = 1,
    DATA_INCLUDE,
    DATA_PRECOMPILED_HEADER,
    DATA_LOG = 5,
    DATA_BITCODE,
    DATA_RELOCATABLE,
    DATA_EXECUTABLE,
    DATA_FATBIN = 0x10,
    DATA_LAST = 0x1f /* more than any kind of comgr 2 */
};

struct object {
    int kind;
    const char *name;
    struct bytes content;
};

typedef int copy_fn(struct comgr_handle data, size_t *size, char *ret_bytes);
typedef bool object_fn(void *context, const struct object *object);

struct visit {
    const struct comgr_functions *comgr;
    object_fn *each;
    void *context;
};

static char *copy_of(copy_fn *copy, struct comgr_handle data, size_t *ret_size)
{
    char *bytes = copy(data, ret_size, NULL) ? NULL : malloc(*ret_size + 1);
    if (!bytes || copy(data, ret_size, bytes)) {
        free(bytes);
        return NULL;
    }
    bytes[*ret_size] = '\0';
    return bytes;
}

static bool visit_object(const struct visit *v, int kind, struct comgr_handle data)
{
    size_t size, name_size;
    char *name = copy_of(v->comgr->get_name, data, &name_size);
    char *content = copy_of(v->comgr->get_bytes, data, &size);
    bool goes_on = name && content &&
                   v->each(v->context, &(struct object){ kind, name, bytes_of(content, size) });
    free(name);
    free(content);
    return goes_on;
}

/* Returns 0 if this version of comgr does not know the kind. */
static size_t count_objects(const struct comgr_functions *f, struct comgr_handle set, int kind)
{
    size_t count = 0;
    return f->data_count(set, kind, &count) ? 0 : count;
}

/* Visits the objects of a set, ordered by kind.  Objects of one kind keep their order.  Returns
 * false if an object cannot be read, or if |v->each| returned false. */
static bool visit_set(const struct visit *v, struct comgr_handle set)
{
    for (int kind = 1; kind <= DATA_LAST; kind++) {
        size_t count = count_objects(v->comgr, set, kind);
        for (size_t i = 0; i < count; i++) {
            struct comgr_handle data;
            if (v->comgr->find_data(set, kind, i, &data))
                return false;
            bool goes_on = visit_object(v, kind, data);
            (void)v->comgr->release_data(data);
            if (!goes_on)
                return false;
        }
    }
    return true;
}

bool comgr_set_is_empty(const struct comgr_functions *f, struct comgr_handle set)
{
    for (int kind = 1; kind <= DATA_LAST; kind++)
        if (count_objects(f, set, kind))
            return false;
    return true;
}

struct inputs {
    struct rtc_program *program;
    struct buffer source;
    int compiled; /* kind of the inputs that are compiled or linked; 0 if there is none yet */
    const char *trouble;
};

static bool is_text(int kind) { return kind == DATA_SOURCE || kind == DATA_INCLUDE; }

static bool is_compiled(int kind)
{
    return kind == DATA_SOURCE || (kind >= DATA_BITCODE && kind <= DATA_EXECUTABLE);
}

static const char *object_obstacle(const struct inputs *in, const struct object *o)
{
    if (o->kind > DATA_FATBIN)
        return "an input is of an unknown kind";
    if (strstr(o->name, "../"))
        return "an input's name leads out of its directory";
    if (is_text(o->kind) && o->content.size && memchr(o->content.data, '\0', o->content.size))
        return "a source contains a NUL";
    /* comgr returns the results in the order of the inputs, but visit_set shows this order only
     * among inputs of one kind */
    if (is_compiled(o->kind) && in->compiled && in->compiled != o->kind)
        return "the inputs are of several kinds";
    return NULL;
}

static bool take_input(void *context, const struct object *o)
{
    struct inputs *in = context;
    struct rtc_program *p = in->program;
    if (o->kind == DATA_LOG) /* no action reads a log */
        return true;
    in->trouble = object_obstacle(in, o);
    if (in->trouble)
        return false;
    if (is_compiled(o->kind))
        in->compiled = o->kind;
    if (is_compiled(o->kind) && !p->name)
        p->name = strdup(o->name);
    if (is_text(o->kind))
        buffer_put(&in->source, o->content.data, o->content.size);
    const struct digest digest = sha256_of(o->content);
    buffer_put_u32(&p->action, (uint32_t)o->kind);
    buffer_put_sized(&p->action, bytes_of_text(o->name));
    buffer_put_u64(&p->action, o->content.size);
    buffer_put(&p->action, digest.bytes, DIGEST_SIZE);
    return true;
}

const char *comgr_take_inputs(const struct comgr_functions *f, struct comgr_handle set,
                              struct rtc_program *p)
{
    struct inputs in = { .program = p };
    buffer_init(&in.source, SOURCES_MAX);
    bool are_read = visit_set(&(struct visit){ f, take_input, &in }, set);
    buffer_put_u8(&in.source, '\0');
    p->source = (char *)in.source.data;
    if (in.trouble)
        return in.trouble;
    if (!are_read)
        return "an input cannot be read";
    return in.source.failed ? "the sources are too large" : NULL;
}

static bool put_result(void *context, const struct object *o)
{
    struct buffer *to = context;
    buffer_put_u32(to, (uint32_t)o->kind);
    buffer_put_sized(to, bytes_of(o->name, strlen(o->name) + 1));
    buffer_put_sized(to, o->content);
    return !to->failed;
}

bool comgr_put_results(const struct comgr_functions *f, struct comgr_handle set, struct buffer *to)
{
    buffer_put_u32(to, RESULTS_MAGIC);
    return visit_set(&(struct visit){ f, put_result, to }, set);
}

static bool read_result(struct reader *r, struct object *ret_object)
{
    uint32_t kind = reader_u32(r);
    struct bytes name = reader_sized(r), content = reader_sized(r);
    if (r->failed || kind == 0 || kind > DATA_FATBIN || !name.size ||
        name.data[name.size - 1] != '\0')
        return false;
    *ret_object = (struct object){ (int)kind, (const char *)name.data, content };
    return true;
}

static int read_results(struct bytes results, struct object objects[RESULTS_MAX])
{
    struct reader r = reader_of(results);
    int count = 0;
    if (reader_u32(&r) != RESULTS_MAGIC)
        return -1;
    while (reader_left(&r))
        if (count == RESULTS_MAX || !read_result(&r, &objects[count++]))
            return -1;
    return count;
}

/* Sets an empty content, such as that of an empty log. comgr's set_bytes rejects a size of 0, but
 * set_bytes_from_file accepts it. */
static bool set_no_bytes(const struct comgr_functions *f, struct comgr_handle data)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool is_set = file >= 0 && f->set_bytes_from_file(data, file, 0, 0) == 0;
    if (file >= 0)
        close(file);
    return is_set;
}

static bool add_result(const struct comgr_functions *f, struct comgr_handle set,
                       const struct object *o)
{
    struct comgr_handle data;
    if (f->create_data(o->kind, &data))
        return false;
    bool has_bytes = o->content.size
                         ? f->set_bytes(data, o->content.size, (const char *)o->content.data) == 0
                         : set_no_bytes(f, data);
    bool is_added = has_bytes && f->set_name(data, o->name) == 0 && f->add_data(set, data) == 0;
    (void)f->release_data(data);
    return is_added;
}

bool comgr_add_results(const struct comgr_functions *f, struct comgr_handle set,
                       struct bytes results)
{
    struct object objects[RESULTS_MAX];
    int count = read_results(results, objects), added = 0;
    while (added < count && add_result(f, set, &objects[added]))
        added++;
    if (added == count)
        return true;
    for (int i = 0; i < added; i++)
        (void)f->remove_data(set, objects[i].kind);
    return false;
}

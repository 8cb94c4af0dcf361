/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/why.h"

#include <stdio.h>
#include <string.h>

struct comparison {
    struct json *same, *different;
};

static void compare_texts(struct comparison *c, const char *part, const char *wanted,
                          const char *there)
{
    if (strcmp(wanted, there) == 0) {
        json_append(c->same, json_text(part));
        return;
    }
    struct json *j = json_object();
    json_set_text(j, "part", part);
    json_set_text(j, "wanted", wanted);
    json_set_text(j, "there", there);
    json_append(c->different, j);
}

#define SHORT_DIGEST 12

static bool are_known(const struct digest *a, const struct digest *b)
{
    static const struct digest unknown;
    return !digest_equal(a, &unknown) && !digest_equal(b, &unknown);
}

static void compare_digests(struct comparison *c, const char *part, const struct digest *wanted,
                            const struct digest *there)
{
    char a[DIGEST_HEX_SIZE], b[DIGEST_HEX_SIZE];
    if (!are_known(wanted, there))
        return;
    digest_to_hex(wanted, a);
    digest_to_hex(there, b);
    a[SHORT_DIGEST] = b[SHORT_DIGEST] = '\0';
    compare_texts(c, part, a, b);
}

/* Writes for example "AMD clang version 15.0.0 (1f2e3d4c5b6a)", or "no longer installed
 * (1f2e3d4c5b6a)". */
static void show_version(const struct why *w, const struct digest *identity, char text[128])
{
    char hex[DIGEST_HEX_SIZE];
    const char *version = "no longer installed";
    digest_to_hex(identity, hex);
    for (size_t i = 0; i < w->here_count; i++) {
        if (digest_equal(&w->here[i].identity, identity))
            version = w->here[i].version;
    }
    snprintf(text, 128, "%s (%.*s)", version, SHORT_DIGEST, hex);
}

static void compare_versions(const struct why *w, struct comparison *c,
                             const struct kernel_record *there)
{
    char a[128], b[128];
    if (!are_known(&w->wanted.toolchain_id, &there->toolchain_id))
        return;
    show_version(w, &w->wanted.toolchain_id, a);
    show_version(w, &there->toolchain_id, b);
    compare_texts(c, "toolchain version", a, b);
}

static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at;) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, word, length) == 0)
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

static void only_here(const char *words, const char *others, struct buffer *ret_text)
{
    for (const char *at = words; *at;) {
        size_t size = strcspn(at, " ");
        if (size && !has_word(others, at, size)) {
            if (ret_text->size)
                buffer_put_u8(ret_text, ' ');
            buffer_put(ret_text, at, size);
        }
        at += size + strspn(at + size, " ");
    }
    buffer_put_u8(ret_text, '\0');
}

/* Shows only the options that differ, because there may be many. */
static void compare_options(struct comparison *c, const char *wanted, const char *there)
{
    BUFFER_AUTO struct buffer a, b;
    buffer_init(&a, LIMIT_NAMED_TEXT + 1);
    buffer_init(&b, LIMIT_NAMED_TEXT + 1);
    only_here(wanted, there, &a);
    only_here(there, wanted, &b);
    bool differ_in_words = !a.failed && !b.failed && (a.size > 1 || b.size > 1);
    if (differ_in_words)
        compare_texts(c, "options", (const char *)a.data, (const char *)b.data);
    else
        compare_texts(c, "options", wanted, there);
}

static void split_target(const char *target, char arch[LIMIT_TARGET_TEXT],
                         const char **ret_features)
{
    size_t length = strcspn(target, ":");
    bool is_opencl =
        strncmp(target, "opencl:", 7) == 0; /* the whole text is the arch: there are no features */
    size_t arch_length = is_opencl ? strlen(target) : length;
    if (arch_length >= LIMIT_TARGET_TEXT)
        arch_length = LIMIT_TARGET_TEXT - 1;
    memcpy(arch, target, arch_length);
    arch[arch_length] = '\0';
    *ret_features = is_opencl ? "" : target + length;
}

static void compare_targets(struct comparison *c, const char *wanted, const char *there)
{
    char a[LIMIT_TARGET_TEXT], b[LIMIT_TARGET_TEXT];
    const char *wanted_features, *there_features;
    split_target(wanted, a, &wanted_features);
    split_target(there, b, &there_features);
    compare_texts(c, "target", a, b);
    compare_texts(c, "features", wanted_features, there_features);
}

/* Compares names of MIOpen. In "gfx906_60@3.2.0", the version is after the '@'. */
static void compare_names(struct comparison *c, const char *const wanted[3],
                          const struct kernel_record *there)
{
    size_t a = strcspn(wanted[2], "@"), b = strcspn(there->database_id, "@");
    char a_id[DATABASE_ID_MAX], b_id[DATABASE_ID_MAX];
    snprintf(a_id, sizeof(a_id), "%.*s", (int)a, wanted[2]);
    snprintf(b_id, sizeof(b_id), "%.*s", (int)b, there->database_id);
    compare_texts(c, "program", wanted[0], there->program);
    compare_texts(c, "compute units", a_id, b_id);
    if (wanted[2][a] || there->database_id[b])
        compare_texts(c, "MIOpen version", wanted[2][a] ? wanted[2] + a + 1 : "",
                      there->database_id[b] ? there->database_id + b + 1 : "");
    compare_options(c, wanted[1], there->options);
}

static void compare_made(const struct why *w, struct comparison *c,
                         const struct kernel_record *there)
{
    const struct kernel_record *wanted = &w->wanted;
    compare_texts(c, "program", wanted->program, there->program);
    compare_targets(c, wanted->target, there->target);
    compare_texts(c, "toolchain", wanted->toolchain, there->toolchain);
    compare_versions(w, c, there);
    compare_options(c, wanted->options, there->options);
    compare_digests(c, "source", &wanted->source_id, &there->source_id);
    compare_digests(c, "headers", &wanted->headers_id, &there->headers_id);
}

/* Sets |ret_names| to the wanted kernel's name, arguments and database id. Returns false if clients
 * cannot request the kernel by name. */
static bool name_wanted(const struct why *w, const char *ret_names[3])
{
    const struct wanted_program *p = w->missing;
    if (!p && !w->wanted.database_id[0])
        return false;
    ret_names[0] = p ? p->name_text : w->wanted.program;
    ret_names[1] = p ? p->args_text : w->wanted.options;
    ret_names[2] = p && !w->by_name ? w->database_id : w->wanted.database_id;
    return true;
}

static bool is_reported(const struct why *w, const struct kernel_record *there)
{
    return w->namesakes_reported && strcmp(there->program, w->missing->name_text) == 0;
}

void why_compare(void *context, const struct kernel_record *there)
{
    struct why *w = context;
    const char *names[3] = { "", "", "" };
    char hex[DIGEST_HEX_SIZE];
    bool is_named = there->database_id[0];
    bool made = !w->by_name && (w->missing || !w->wanted.database_id[0]);
    bool comparable = is_named ? name_wanted(w, names) && !is_reported(w, there) : made;
    if (digest_equal(&there->key, &w->key) || !comparable)
        return;
    struct comparison c = { .same = json_array(), .different = json_array() };
    if (is_named)
        compare_names(&c, names, there);
    else
        compare_made(w, &c, there);
    struct json *j = json_object();
    digest_to_hex(&there->key, hex);
    json_set_text(j, "key", hex);
    json_set(j, "same", c.same);
    json_set(j, "different", c.different);
    json_append(w->nearest, j);
}

void why_compare_namesake(void *context, const struct kernel_record *there)
{
    const struct why *w = context;
    if (there->database_id[0] && strcmp(there->program, w->missing->name_text) == 0)
        why_compare(context, there);
}

void why_name_elsewhere(struct why *w)
{
    if (w->found || !w->elsewhere[0])
        return;
    struct comparison c = { .same = json_array(), .different = json_array() };
    json_append(c.same, json_text("program"));
    json_append(c.same, json_text("options"));
    compare_texts(&c, "compute units", w->database_id, w->elsewhere_id);
    struct json *j = json_object();
    json_set_text(j, "package", w->elsewhere);
    json_set(j, "same", c.same);
    json_set(j, "different", c.different);
    json_append(w->nearest, j);
}

/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/identity.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/preload.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NOTES_MAX (64u << 10)

static struct bytes build_id_of_notes(struct bytes notes)
{
    struct reader r = reader_of(notes);
    while (reader_left(&r) >= 12) {
        uint32_t name_size = reader_u32(&r), size = reader_u32(&r), type = reader_u32(&r);
        struct bytes name = reader_take(&r, name_size);
        (void)reader_take(&r, -name_size & 3u);
        struct bytes id = reader_take(&r, size);
        (void)reader_take(&r, -size & 3u);
        if (!r.failed && type == NT_GNU_BUILD_ID && name.size == 4 &&
            memcmp(name.data, "GNU", 4) == 0)
            return id;
    }
    return bytes_of(NULL, 0);
}

struct mapped_search {
    const void *base; /* address of the library to find; NULL if |parts| names the libraries */
    const char *const *parts; /* beginnings of the libraries' file names; NULL ends the list */
    struct sha256 *digest;
    unsigned found;
    /* receives the addresses of the libraries in |code|; may be NULL */
    struct rtc_library *library;
};

static struct bytes build_id_of_mapped(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE || p->p_memsz > NOTES_MAX)
            continue;
        struct bytes id =
            build_id_of_notes(bytes_of((const void *)(info->dlpi_addr + p->p_vaddr), p->p_memsz));
        if (id.size)
            return id;
    }
    return bytes_of(NULL, 0);
}

static bool is_wanted(const struct mapped_search *search, const struct dl_phdr_info *info)
{
    if (search->base)
        return (const void *)info->dlpi_addr == search->base;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    for (const char *const *part = search->parts; *part; part++)
        if (strncmp(name, *part, strlen(*part)) == 0)
            return true;
    return false;
}

static void add_code(struct rtc_library *library, const struct dl_phdr_info *info)
{
    size_t count = library->code_count;
    struct rtc_range *range = &library->code[count];
    if (count == RTC_FILES_MAX)
        return;
    range->begin = range->end = (const char *)info->dlpi_addr;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const char *end = (const char *)info->dlpi_addr + p->p_vaddr + p->p_memsz;
        if (p->p_type == PT_LOAD && end > range->end)
            range->end = end;
    }
    library->code_count = count + 1;
}

static int add_mapped(struct dl_phdr_info *info, size_t size, void *context)
{
    struct mapped_search *search = context;
    (void)size;
    if (!is_wanted(search, info))
        return 0;
    if (search->library)
        add_code(search->library, info);
    struct bytes id = build_id_of_mapped(info);
    search->found += id.size > 0;
    sha256_put_sized(search->digest, id);
    return 0;
}

static unsigned search_mapped(struct mapped_search search)
{
    dl_iterate_phdr(add_mapped, &search);
    return search.found;
}

static struct bytes read_at(int fd, uint64_t at, size_t size, uint8_t *to)
{
    ssize_t got = pread(fd, to, size, (off_t)at);
    return bytes_of(to, got == (ssize_t)size ? size : 0);
}

static bool digest_notes(int fd, const Elf64_Phdr *p, struct sha256 *digest)
{
    uint8_t notes[4096];
    if (p->p_type != PT_NOTE || p->p_filesz > sizeof(notes))
        return false;
    struct bytes id = build_id_of_notes(read_at(fd, p->p_offset, p->p_filesz, notes));
    if (id.size)
        sha256_put_sized(digest, id);
    return id.size > 0;
}

static bool digest_file(const char *path, struct sha256 *digest)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr header;
    if (fd < 0 || !read_at(fd, 0, sizeof(header), (uint8_t *)&header).size ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr p;
        if (!read_at(fd, header.e_phoff + i * sizeof(p), sizeof(p), (uint8_t *)&p).size)
            return false;
        if (digest_notes(fd, &p, digest))
            return true;
    }
    return false;
}

/* Writes the path of NVRTC's builtins library, such as "libnvrtc-builtins.so.13.0", in NVRTC's
 * directory, where NVRTC looks first.  Returns false if the path cannot be determined. */
static bool builtins_path(const struct rtc_library *library, const char *path,
                          char ret_path[PATH_MAX])
{
    char real[PATH_MAX];
    const char *version = strchr(library->name, ' ');
    if (!realpath(path, real) || !version)
        return false;
    char *slash = strrchr(real, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return snprintf(ret_path, PATH_MAX, "%s/libnvrtc-builtins.so.%s", real, version + 1) < PATH_MAX;
}

static void name_nvrtc(struct rtc_library *library, void *handle)
{
    int major = 0, minor = 0;
    int (*version)(int *, int *);
    void *found = preload_real_dlsym(handle, "nvrtcVersion");
    memcpy(&version, &found, sizeof(version));
    if (version && version(&major, &minor) == 0)
        snprintf(library->name, sizeof(library->name), "nvrtc %d.%d", major, minor);
}

static bool find_nvrtc(struct rtc_library *library, const char *path, struct sha256 *digest)
{
    char builtins[PATH_MAX];
    const struct mapped_search itself = { .base = library->base,
                                          .digest = digest,
                                          .library = library };
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        name_nvrtc(library, handle);
        dlclose(handle);
    }
    if (!search_mapped(itself))
        library->trouble = "the library has no build id";
    else if (!library->name[0] || !builtins_path(library, path, builtins) ||
             !digest_file(builtins, digest))
        library->trouble = "its builtins library is not in its directory, or has no build id";
    return true;
}

bool identity_holds(const struct rtc_library *library)
{
    static const char *const builtins[] = { "libnvrtc-builtins", NULL };
    if (library->kind != RTC_NVRTC)
        return true;
    struct sha256 digest;
    sha256_init(&digest);
    search_mapped((struct mapped_search){ .base = library->base, .digest = &digest });
    search_mapped((struct mapped_search){ .parts = builtins, .digest = &digest });
    struct digest now = sha256_end(&digest);
    return digest_equal(&now, &library->identity);
}

/* hiprtc compiles with comgr, which contains LLVM or links it. */
static bool find_hiprtc(struct rtc_library *library, struct sha256 *digest)
{
    static const char *const parts[] = { "libamd_comgr", "libLLVM", "libclang", NULL };
    static const char *const builtins[] = { "libhiprtc-builtins", NULL };
    snprintf(library->name, sizeof(library->name), "hiprtc");
    bool has_id = search_mapped(
        (struct mapped_search){ .base = library->base, .digest = digest, .library = library });
    (void)search_mapped(
        (struct mapped_search){ .parts = builtins, .digest = digest, .library = library });
    bool has_compiler = false;
    for (const char *const *part = parts; *part; part++)
        has_compiler |=
            search_mapped((struct mapped_search){ .parts = (const char *const[]){ *part, NULL },
                                                  .digest = digest,
                                                  .library = library }) > 0;
    library->trouble = !has_id         ? "the library has no build id"
                       : !has_compiler ? "its comgr is not loaded"
                                       : NULL;
    return has_compiler;
}

/* Returns whether libkiln-rtc knows the settings and the enum values of this version of comgr. */
static bool is_known_comgr(size_t major, size_t minor)
{
    return (major == 2 && minor >= 4 && minor <= 9) || (major == 3 && minor <= 1);
}

static void find_comgr(struct rtc_library *library, struct sha256 *digest)
{
    static const char *const parts[] = { "libLLVM", "libclang", NULL };
    size_t major = 0, minor = 0;
    library->comgr.version(&major, &minor);
    snprintf(library->name, sizeof(library->name), "comgr %zu.%zu", major, minor);
    bool has_id = search_mapped(
        (struct mapped_search){ .base = library->base, .digest = digest, .library = library });
    (void)search_mapped(
        (struct mapped_search){ .parts = parts, .digest = digest, .library = library });
    if (!has_id)
        library->trouble = "the library has no build id";
    else if (!is_known_comgr(major, minor) || !rtc_has_all_functions(library))
        library->trouble = "this version of comgr is not known";
}

bool identity_find(struct rtc_library *library)
{
    Dl_info info;
    struct link_map *map = NULL;
    struct sha256 digest;
    bool is_final = true;
    sha256_init(&digest);
    library->code_count = 0;
    if (!dladdr1(rtc_first_function(library), &info, (void **)&map, RTLD_DL_LINKMAP) || !map) {
        library->trouble = "its file cannot be found";
        return true;
    }
    switch (library->kind) {
    case RTC_NVRTC: is_final = find_nvrtc(library, map->l_name, &digest); break;
    case RTC_HIPRTC: is_final = find_hiprtc(library, &digest); break;
    case RTC_COMGR: find_comgr(library, &digest); break;
    case RTC_KINDS: break;
    }
    library->identity = sha256_end(&digest);
    return is_final;
}

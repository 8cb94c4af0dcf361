/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_directory.h"

#include "engine/fleet/fleet_tree.h"

static int root_of(struct fleet_store *store)
{
    return ((struct fleet_directory *)(void *)store)->root;
}

static enum kiln_code read_files(struct fleet_store *store, struct fleet_file *files, size_t count,
                                 struct kiln_err *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++) {
        struct fleet_file *file = &files[i];
        kiln_err_init(&file->err);
        file->tag[0] = '\0';
        file->rc = file->size
                       ? fleet_tree_read_range(root_of(store), file, &file->err)
                       : fleet_tree_read(root_of(store), file->name, &file->content, &file->err);
    }
    return KILN_OK;
}

static enum kiln_code add_file(struct fleet_store *store, const char *name, struct bytes content,
                               bool *ret_added, struct kiln_err *err)
{
    return fleet_tree_add(root_of(store), name, content, ret_added, err);
}

static enum kiln_code replace_file(struct fleet_store *store, const struct fleet_file *file,
                                   struct bytes content, struct kiln_err *err)
{
    return fleet_tree_replace(root_of(store), file->name, content, err);
}

static enum kiln_code list_files(struct fleet_store *store, const char *directory, fleet_each *each,
                                 void *context, struct kiln_err *err)
{
    return fleet_tree_list(root_of(store), directory, each, context, err);
}

static enum kiln_code remove_file(struct fleet_store *store, const char *name, struct kiln_err *err)
{
    return fleet_tree_remove(root_of(store), name, err);
}

struct fleet_directory fleet_directory_of(int root)
{
    static const struct fleet_store_ops ops = { read_files, add_file, replace_file, list_files,
                                                remove_file };
    return (struct fleet_directory){ .store = { &ops }, .root = root };
}

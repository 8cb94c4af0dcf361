/* SPDX-License-Identifier: MIT */
/* A filesystem implemented in Linux itself has its own number (statfs(2)).  All FUSE filesystems
 * have the same number; they are distinguished by their type in the list of mounts. */
#include "common/base/fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#define FUSE_NUMBER 0x65735546u
#define MOUNTS "/proc/self/mountinfo"
#define MOUNTS_MAX (4u << 20)
#define HEAD_MAX 64

const char *fs_network_name(long f_type)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        { 0x6969, "nfs" },       { 0x517b, "smb" },        { 0xfe534d42, "smb2" },
        { 0xff534d42, "cifs" },  { 0x0bd00bd0, "lustre" }, { 0x00c36400, "ceph" },
        { 0x5346414f, "afs" },   { 0x6b414653, "afs" },    { 0x47504653, "gpfs" },
        { 0xaad7aaea, "panfs" }, { 0x19830326, "beegfs" }, { 0x73757245, "coda" },
        { 0x7461636f, "ocfs2" }, { 0x01161970, "gfs2" },   { 0x01021997, "9p" },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].magic == ((unsigned long)f_type & 0xffffffffu))
            return known[i].name;
    }
    return NULL;
}

static bool begins_with_any(const char *type, const char *const *names)
{
    for (; *names; names++) {
        if (strncmp(type, *names, strlen(*names)) == 0)
            return true;
    }
    return false;
}

/* Compares only the beginning of the type: some types end in a version or the name of a volume. */
static void classify_fuse(struct fs_place *place)
{
    static const char *const networks[] = {
        "fuse.afp",         "fuse.beegfs",   "fuse.blobfuse",      "fuse.ceph",
        "fuse.curlftpfs",   "fuse.cvmfs",    "fuse.dav",           "fuse.dfuse",
        "fuse.gcsfuse",     "fuse.geesefs",  "fuse.gluster",       "fuse.goofys",
        "fuse.hdfs",        "fuse.juicefs",  "fuse.lizardfs",      "fuse.mfs",
        "fuse.moosefs",     "fuse.mount-s3", "fuse.mountpoint-s3", "fuse.nfs",
        "fuse.objectivefs", "fuse.orangefs", "fuse.quobyte",       "fuse.rclone",
        "fuse.s3",          "fuse.saunafs",  "fuse.seaweedfs",     "fuse.smb",
        "fuse.sshfs",       "fuse.weka",     "fuse.xtreemfs",      NULL
    };
    static const char *const local[] = { "fuseblk",        "fuse.bindfs",
                                         "fuse.encfs",     "fuse.fuse-overlayfs",
                                         "fuse.gocryptfs", "fuse.mergerfs",
                                         "fuse.ntfs",      "fuse.exfat",
                                         "fuse.ext",       NULL };
    place->network = begins_with_any(place->type, networks);
    place->unknown_fuse = !place->network && !begins_with_any(place->type, local);
    if (!place->network && !place->unknown_fuse)
        place->type[0] = '\0';
}

/* Replaces unprintable characters, because the user who mounts a filesystem chooses the type. */
static void copy_type(const char *from, size_t size, char type[FS_TYPE_MAX])
{
    size_t used = 0;
    for (; used < size && used < FS_TYPE_MAX - 1 && from[used] != ' '; used++)
        type[used] = (char)(from[used] > ' ' && from[used] < 0x7f ? from[used] : '?');
    type[used] = '\0';
}

/* Reads a line such as "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw". */
static bool read_mount(const char *line, size_t size, dev_t device, char type[FS_TYPE_MAX])
{
    static const char before_type[] = " - ";
    char head[HEAD_MAX];
    unsigned first = 0, second = 0;
    snprintf(head, sizeof(head), "%.*s", (int)(size < HEAD_MAX ? size : HEAD_MAX - 1), line);
    if (sscanf(head, "%*u %*u %u:%u ", &first, &second) != 2 || makedev(first, second) != device)
        return false;
    const char *found = memmem(line, size, before_type, sizeof(before_type) - 1);
    if (!found)
        return false;
    found += sizeof(before_type) - 1;
    copy_type(found, size - (size_t)(found - line), type);
    return type[0] != '\0';
}

static bool find_type(struct bytes mounts, dev_t device, char type[FS_TYPE_MAX])
{
    const char *at = (const char *)mounts.data, *end = at + mounts.size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((line_end ? line_end : end) - at);
        if (read_mount(at, size, device, type))
            return true;
        at += size + 1;
    }
    return false;
}

static void name_fuse(dev_t device, char type[FS_TYPE_MAX])
{
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer mounts;
    buffer_init(&mounts, MOUNTS_MAX);
    if (fs_read_file(MOUNTS, MOUNTS_MAX, &mounts, &ignored) != KILN_OK ||
        !find_type(buffer_view(&mounts), device, type))
        snprintf(type, FS_TYPE_MAX, "fuse");
}

int fs_look(const char *path, struct fs_place *ret_place)
{
    struct statfs seen;
    struct stat named;
    *ret_place = (struct fs_place){ .network = false };
    if (statfs(path, &seen) != 0 || stat(path, &named) != 0)
        return -1;
    const char *name = fs_network_name((long)seen.f_type);
    if (name) {
        ret_place->network = true;
        snprintf(ret_place->type, sizeof(ret_place->type), "%s", name);
    } else if (((unsigned long)seen.f_type & 0xffffffffu) == FUSE_NUMBER) {
        name_fuse(named.st_dev, ret_place->type);
        classify_fuse(ret_place);
    }
    return 0;
}

enum kiln_code fs_refuse_network(const char *path, const char *setting, struct kiln_err *err)
{
    struct fs_place place;
    if (fs_look(path, &place) != 0)
        return kiln_fail_errno(err, errno, "cannot determine the filesystem of '%s'", path);
    if (!place.network)
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "'%s' is on a network filesystem (%s), where databases get damaged: set %s to "
                     "a directory on a local disk",
                     path, place.type, setting);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/server/listener.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "common/protocol/server_socket.h"
#include "daemon/config/directories.h"
#include "daemon/name_service.h"
#include "daemon/server/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static enum kiln_code record_file(struct listener *l, struct kiln_err *err)
{
    struct stat st;
    if (lstat(l->path, &st) < 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", l->path);
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return KILN_OK;
}

static enum kiln_code check_inherited(int fd, struct sockaddr_un *address, struct kiln_err *err)
{
    int listens = 0, type = 0;
    socklen_t size = sizeof(int);
    socklen_t address_size = sizeof(*address);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockname(fd, (struct sockaddr *)address, &address_size) < 0)
        return kiln_fail_errno(err, errno, "LISTEN_FDS: descriptor %d is not a socket", fd);
    if (address->sun_family != AF_UNIX || !address->sun_path[0] || type != SOCK_STREAM || !listens)
        return kiln_fail(err, KILN_INVALID,
                         "LISTEN_FDS: descriptor %d is not a listening stream socket of a path "
                         "(ListenStream= with a path)",
                         fd);
    return KILN_OK;
}

enum kiln_code listener_adopt(int fd, struct listener *ret_listener, struct kiln_err *err)
{
    struct sockaddr_un address = { 0 };
    enum kiln_code rc = check_inherited(fd, &address, err);
    if (rc)
        return rc;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct listener l = { .fd = fd, .lock_fd = -1, .inherited = true };
    memcpy(l.path, address.sun_path, sizeof(l.path));
    l.path[sizeof(l.path) - 1] = '\0';
    struct kiln_err ignored = KILN_ERR_INIT;
    /* may fail, because the socket's path may be in another mount namespace */
    (void)record_file(&l, &ignored);
    *ret_listener = l;
    return KILN_OK;
}

static enum kiln_code add_advice(struct kiln_err *err)
{
    struct kiln_err why = *err;
    return kiln_fail(
        err, why.code, "%s; %schoose another socket with --socket", why.text,
        geteuid() == 0 ? "" : "set XDG_RUNTIME_DIR to a directory that only you may write to, or ");
}

/* Creates the directory of the socket.  Every user may pass through root's directory; the mode of
 * the socket limits who may connect. */
static enum kiln_code make_directory(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *directory = strdup(path);
    if (!directory)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the directory of '%s'", path);
    char *slash = strrchr(directory, '/');
    if (!slash || slash == directory)
        return KILN_OK;
    *slash = '\0';
    enum kiln_code rc = fs_make_directories_mode(directory, geteuid() == 0 ? 0755 : 0700, err);
    return rc ? add_advice(err) : KILN_OK;
}

/* Returns whether the process that holds the lock or the socket is alive.  |pid| is recorded in the
 * lock file or the socket.  If kilnd was killed while it started a child, the child may hold both,
 * but |pid| is that of the killed kilnd. */
static bool is_alive(pid_t pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

static enum kiln_code refuse_live(const char *path, pid_t pid, struct kiln_err *err)
{
    if (is_alive(pid))
        return kiln_fail(err, KILN_BUSY,
                         "a daemon with pid %d already listens on '%s': stop it, or choose another "
                         "socket with --socket",
                         (int)pid, path);
    return kiln_fail(err, KILN_BUSY,
                     "another daemon already listens on '%s': stop it, or choose another socket "
                     "with --socket",
                     path);
}

/* Returns KILN_OK if no daemon listens at |address|.  Otherwise |ret_pid| is the pid of that
 * daemon, or 0. */
static enum kiln_code probe_daemon(const struct sockaddr_un *address, pid_t *ret_pid,
                                   struct kiln_err *err)
{
    *ret_pid = 0;
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
        *ret_pid = peer_pid(fd);
        return refuse_live(address->sun_path, *ret_pid, err);
    }
    if (errno == EAGAIN) /* the queue of connections is full, so the daemon is alive */
        return refuse_live(address->sun_path, 0, err);
    if (errno == ECONNREFUSED || errno == ENOENT)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot find out whether a daemon listens on '%s'",
                           address->sun_path);
}

static enum kiln_code acquire_lock(const struct sockaddr_un *address, int *ret_fd,
                                   struct kiln_err *err)
{
    char path[sizeof(address->sun_path) + sizeof(LISTENER_LOCK_SUFFIX)];
    pid_t holder, pid;
    snprintf(path, sizeof(path), "%s" LISTENER_LOCK_SUFFIX, address->sun_path);
    enum kiln_code rc = server_lock_take(path, ret_fd, &holder, err);
    if (rc == KILN_BUSY) {
        struct kiln_err ignored = KILN_ERR_INIT;
        bool is_known = probe_daemon(address, &pid, &ignored) != KILN_OK && pid > 0;
        return refuse_live(address->sun_path, is_known ? pid : holder, err);
    }
    if (rc)
        return add_advice(err);
    fs_write_pid(*ret_fd);
    return KILN_OK;
}

static enum kiln_code remove_dead_socket(const struct sockaddr_un *address, struct kiln_err *err)
{
    const char *path = address->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT
                   ? KILN_OK
                   : kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    if (!S_ISSOCK(st.st_mode))
        return kiln_fail(err, KILN_INVALID,
                         "'%s' exists and is not a socket: remove it, or choose another socket "
                         "with --socket",
                         path);
    pid_t pid;
    enum kiln_code rc = probe_daemon(address, &pid, err);
    if (!rc && unlink(path) < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot remove the socket '%s' of a dead daemon", path);
    return rc;
}

static mode_t mode_of_socket(void) { return geteuid() == 0 ? 0660 : 0600; }

static enum kiln_code find_group_of_socket(const char *group, bool *ret_root_only, gid_t *ret_gid,
                                           struct kiln_err *err)
{
    bool root = geteuid() == 0;
    *ret_gid = root ? getegid() : (gid_t)-1;
    *ret_root_only = false;
    if (!root || !*group)
        return KILN_OK;
    enum kiln_code rc = name_service_group(group, ret_gid, err);
    *ret_root_only = rc == KILN_NOT_FOUND;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static enum kiln_code make_socket(const char *group, struct listener *l, struct kiln_err *err)
{
    gid_t gid;
    enum kiln_code rc = find_group_of_socket(group, &l->root_only, &gid, err);
    if (rc)
        return rc;
    rc = server_socket_listen(l->path, mode_of_socket(), gid, &l->fd, err);
    if (rc)
        return add_advice(err);
    rc = record_file(l, err);
    if (rc)
        unlink(l->path);
    return rc;
}

static enum kiln_code address_of(const char *path, struct sockaddr_un *ret_address,
                                 struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (!*path)
        return kiln_fail(err, KILN_INVALID, "the socket's path is empty");
    if (strlen(path) >= sizeof(address.sun_path))
        return kiln_fail(err, KILN_INVALID,
                         "the socket's path '%s' is longer than the %zu bytes that sockets allow",
                         path, sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    *ret_address = address;
    return KILN_OK;
}

static enum kiln_code open_own(const struct sockaddr_un *address, const char *group,
                               struct listener *l, struct kiln_err *err)
{
    enum kiln_code rc = make_directory(address->sun_path, err);
    if (!rc)
        rc = acquire_lock(address, &l->lock_fd, err);
    if (!rc)
        rc = remove_dead_socket(address, err);
    if (!rc)
        rc = make_socket(group, l, err);
    return rc;
}

enum kiln_code listener_open(const char *path, const char *group, struct listener *ret_listener,
                             struct kiln_err *err)
{
    struct sockaddr_un address;
    enum kiln_code rc = address_of(path, &address, err);
    if (rc)
        return rc;
    struct listener l = LISTENER_CLOSED;
    memcpy(l.path, address.sun_path, sizeof(l.path));
    rc = open_own(&address, group, &l, err);
    if (rc) {
        listener_close(&l);
        return rc;
    }
    *ret_listener = l;
    return KILN_OK;
}

bool listener_is_reachable(const struct listener *l)
{
    struct stat st;
    return lstat(l->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == l->device &&
           st.st_ino == l->inode;
}

void listener_name(const struct listener *l, char name[LISTENER_NAME_MAX])
{
    snprintf(name, LISTENER_NAME_MAX, LISTENER_NAME_PREFIX "%llx-%llx",
             (unsigned long long)l->device, (unsigned long long)l->inode);
}

static bool read_name(const char *name, struct listener *l)
{
    unsigned long long device, inode;
    char rest;
    if (sscanf(name, LISTENER_NAME_PREFIX "%llx-%llx%c", &device, &inode, &rest) != 2)
        return false;
    l->device = (dev_t)device;
    l->inode = (ino_t)inode;
    return true;
}

static enum kiln_code renew_access(struct listener *l, const char *group, struct kiln_err *err)
{
    if (chmod(l->path, mode_of_socket()) < 0)
        return kiln_fail_errno(err, errno, "cannot change the mode of the socket '%s'", l->path);
    gid_t gid;
    enum kiln_code rc = find_group_of_socket(group, &l->root_only, &gid, err);
    if (rc)
        return rc;
    if (lchown(l->path, (uid_t)-1, gid) < 0)
        return kiln_fail_errno(err, errno, "cannot change the group of the socket '%s'", l->path);
    return KILN_OK;
}

enum kiln_code listener_resume(struct inherited_fd *kept, const char *path, const char *group,
                               struct listener *ret_listener, struct kiln_err *err)
{
    struct listener l = LISTENER_CLOSED;
    struct sockaddr_un address = { 0 };
    if (!read_name(kept->name, &l))
        return kiln_fail(err, KILN_INVALID, "kilnd does not store sockets under such a name");
    enum kiln_code rc = check_inherited(kept->fd, &address, err);
    if (rc)
        return rc;
    snprintf(l.path, sizeof(l.path), "%.*s", (int)sizeof(address.sun_path) - 1, address.sun_path);
    if (strcmp(l.path, path) != 0)
        return kiln_fail(err, KILN_NOT_FOUND, "it listens on '%s', but the setting socket is '%s'",
                         l.path, path);
    if (!listener_is_reachable(&l))
        return kiln_fail(err, KILN_NOT_FOUND, "'%s' is now another file", path);
    rc = acquire_lock(&address, &l.lock_fd, err);
    if (rc)
        return rc;
    l.kept = true;
    rc = renew_access(&l, group, err);
    if (rc) {
        listener_close(&l);
        return rc;
    }
    fcntl(kept->fd, F_SETFL, fcntl(kept->fd, F_GETFL) | O_NONBLOCK);
    l.fd = kept->fd;
    kept->fd = -1;
    *ret_listener = l;
    return KILN_OK;
}

void listener_close(struct listener *l)
{
    if (!l->inherited && !l->kept && listener_is_reachable(l))
        unlink(l->path);
    if (l->fd >= 0)
        close(l->fd);
    if (l->lock_fd >= 0) {
        char lock[sizeof(l->path) + sizeof(LISTENER_LOCK_SUFFIX)];
        snprintf(lock, sizeof(lock), "%s" LISTENER_LOCK_SUFFIX, l->path);
        /* Another process may have opened the lock file already.  It notices that the file's name
         * is gone. */
        unlink(lock);
        close(l->lock_fd);
    }
    *l = LISTENER_CLOSED;
}

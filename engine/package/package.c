/* SPDX-License-Identifier: MIT */
#include "engine/package/package.h"

#include "engine/db/pool.h"
#include "engine/digest/sha256.h"
#include "engine/package/damaged_rows.h"
#include "engine/package/package_file.h"
#include "engine/package/package_format.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct package {
    const struct package_ops *ops;
    struct package_info info;
    struct file_identity identity;
    struct engine_item *item; /* borrowed; NULL: the package is a file */
    bool trusted;
    struct db_pool connections;
    pthread_mutex_t mutex;
    bool counted;
    uint64_t rows;
    bool is_hashed;
    struct digest sha256;
    struct damaged_rows damaged; /* includes rows that package_shun excluded */
    bool has_damage;
};

/* Sets the package's members from |options|. Accepts a package for an OpenCL device only if it is
 * built into the program: whoever builds a program knows on which device the program will run. */
static enum kiln_code set_info(struct package *package, const struct package_options *options,
                               struct kiln_err *err)
{
    struct package_info *info = &package->info;
    const char *slash = strrchr(options->path, '/');
    const char *name = options->name ? options->name : slash ? slash + 1 : options->path;
    package->ops = package_ops_of(name);
    if (!package->ops)
        return kiln_fail(err, KILN_INVALID,
                         "'%s' is not named like a package: gfx90a68.kdb, .ukdb or .kpkg",
                         options->path);
    if (strlen(name) >= sizeof(info->name) || strlen(options->path) >= sizeof(info->path))
        return kiln_fail(err, KILN_INVALID, "the path of the package '%.200s...' is too long",
                         options->path);
    snprintf(info->name, sizeof(info->name), "%s", name);
    snprintf(info->path, sizeof(info->path), "%s", options->path);
    info->format = package->ops->format;
    package->item = options->item;
    package->trusted = options->trusted;
    if (options->record) {
        info->sha256 = options->record->sha256;
        info->rows = options->record->rows;
        info->installed = options->record->installed;
        info->edition = options->record->edition;
        memcpy(info->signer, options->record->signer, sizeof(info->signer));
        memcpy(info->source, options->record->source, sizeof(info->source));
    }
    return options->item
               ? database_id_parse(bytes_of(name, strcspn(name, ".")), &info->database_id, err)
               : database_id_of_file(name, &info->database_id, err);
}

static enum kiln_code check_marks(const struct package *package, uint32_t application_id,
                                  uint32_t version, struct kiln_err *err)
{
    const struct package_ops *ops = package->ops;
    if (ops->application_id && application_id != ops->application_id)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a kiln package", package->info.path);
    if (ops->version && version > ops->version)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "'%s' has format %u, but this version of kiln supports formats up to %u: "
                         "install a newer kiln, or a package made for this version",
                         package->info.path, (unsigned)version, (unsigned)ops->version);
    return KILN_OK;
}

/* Returns whether the path still leads to the file that was opened. The file may be replaced at any
 * moment, so call this function after a connection was opened. */
static bool is_same_file(const struct package *package)
{
    struct file_identity now;
    if (package->item)
        return true;
    return file_identity_at(AT_FDCWD, package->info.path, &now) &&
           now.device == package->identity.device && now.inode == package->identity.inode;
}

static enum kiln_code open_connection(void *context, void **ret_connection, struct kiln_err *err)
{
    const struct package *package = context;
    struct package_place place = { .path = package->info.path };
    if (package->item)
        place.image = engine_item_view(package->item);
    void *connection = NULL;
    enum kiln_code rc = package->ops->open(&place, &connection, err);
    if (rc)
        return rc;
    if (!is_same_file(package)) {
        package->ops->close(connection);
        return kiln_fail(err, KILN_BUSY, "'%s' was replaced while kiln opened it: try again",
                         package->info.path);
    }
    *ret_connection = connection;
    return KILN_OK;
}

/* Opens only one connection, because a host may have hundreds of packages. Further connections are
 * opened when several threads search. */
static enum kiln_code open_first(struct package *package, unsigned readers, struct kiln_err *err)
{
    const struct db_pool_options options = {
        .open = open_connection, .close = package->ops->close, .context = package, .max = readers
    };
    db_pool_init(&package->connections, &options);
    return db_pool_open(&package->connections, 1, err);
}

static enum kiln_code read_header(struct package *package, struct kiln_err *err)
{
    const char *path = package->info.path;
    struct file_header header;
    enum kiln_code rc =
        package->item ? package_image_header(engine_item_view(package->item), path, &header, err)
                      : package_file_header(path, &header, err);
    if (rc)
        return rc;
    package->identity = header.identity;
    return check_marks(package, header.application_id, header.version, err);
}

enum kiln_code package_open(const struct package_options *options, struct package **ret_package,
                            struct kiln_err *err)
{
    KILN_AUTO(package) struct package *package = calloc(1, sizeof(*package));
    if (!package)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open '%s'", options->path);
    pthread_mutex_init(&package->mutex, NULL);
    enum kiln_code rc = set_info(package, options, err);
    if (!rc)
        rc = read_header(package, err);
    if (!rc)
        rc = open_first(package, options->readers, err);
    if (rc)
        return rc;
    package->info.size = package->identity.size;
    package->counted = options->record;
    package->rows = package->info.rows;
    *ret_package = KILN_TAKE(package);
    return KILN_OK;
}

void package_destroy(struct package *package)
{
    if (!package)
        return;
    if (package->connections.options.open)
        db_pool_done(&package->connections);
    pthread_mutex_destroy(&package->mutex);
    free(package);
}

const struct package_info *package_info(const struct package *package) { return &package->info; }

bool package_has_damaged_rows(struct package *package)
{
    pthread_mutex_lock(&package->mutex);
    bool has = package->has_damage;
    pthread_mutex_unlock(&package->mutex);
    return has;
}

/* Returns whether any row of the package is listed as unusable. If not, callers need not compute
 * the digest of the requested name. */
static bool knows_bad_rows(struct package *package)
{
    pthread_mutex_lock(&package->mutex);
    bool any = package->damaged.count > 0;
    pthread_mutex_unlock(&package->mutex);
    return any;
}

static bool is_known_bad(struct package *package, const struct digest *request)
{
    pthread_mutex_lock(&package->mutex);
    bool known = damaged_rows_has(&package->damaged, request);
    pthread_mutex_unlock(&package->mutex);
    return known;
}

static void note_bad(struct package *package, const struct digest *request, bool is_damage)
{
    pthread_mutex_lock(&package->mutex);
    damaged_rows_add(&package->damaged, request);
    package->has_damage |= is_damage;
    pthread_mutex_unlock(&package->mutex);
}

void package_shun(struct package *package, const struct kern_name *name)
{
    struct digest request = damaged_rows_name(name);
    note_bad(package, &request, /* is_damage= */ false);
}

static bool shows_damage(enum kiln_code rc, bool damaged) { return damaged || rc == KILN_CORRUPT; }

/* Returns true if a retry would fail, too, because the content is wrong. After a failed read, a
 * retry may succeed. */
static bool is_lasting(enum kiln_code rc, bool damaged)
{
    return shows_damage(rc, damaged) || rc == KILN_UNSUPPORTED;
}

/* Turns damage of the file into a miss. Only a failure of this process (out of memory) remains an
 * error. */
static enum kiln_code damage_as_miss(const struct package *package, enum kiln_code rc, bool damaged,
                                     bool *ret_damaged, struct kiln_err *err)
{
    bool is_final = rc == KILN_OK || rc == KILN_NO_MEMORY;
    *ret_damaged = damaged || (!is_final && rc != KILN_NOT_FOUND);
    if (is_final)
        return rc;
    err->code = KILN_NOT_FOUND;
    return *ret_damaged ? kiln_while(err, "searching the package '%s'", package->info.name)
                        : KILN_NOT_FOUND;
}

enum kiln_code package_find_named(struct package *package, const struct kern_name *name,
                                  struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err)
{
    bool damaged = false;
    *ret_damaged = false;
    if (package->item && !engine_item_use(package->item))
        return KILN_NOT_FOUND;
    if (knows_bad_rows(package)) {
        struct digest request = damaged_rows_name(name);
        if (is_known_bad(package, &request))
            return KILN_NOT_FOUND;
    }
    void *connection = db_pool_take(&package->connections);
    enum kiln_code rc = package->ops->find_named(connection, name, ret_raw, &damaged, err);
    db_pool_return(&package->connections, connection);
    if (is_lasting(rc, damaged)) {
        struct digest request = damaged_rows_name(name);
        note_bad(package, &request, shows_damage(rc, damaged));
    }
    return damage_as_miss(package, rc, damaged, ret_damaged, err);
}

enum kiln_code package_find_key(struct package *package, const struct digest *key,
                                struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err)
{
    bool damaged = false;
    *ret_damaged = false;
    if (package->item && !engine_item_use(package->item))
        return KILN_NOT_FOUND;
    if (!package->trusted || !package->ops->find_key || is_known_bad(package, key))
        return KILN_NOT_FOUND;
    void *connection = db_pool_take(&package->connections);
    enum kiln_code rc = package->ops->find_key(connection, key, ret_raw, &damaged, err);
    db_pool_return(&package->connections, connection);
    if (is_lasting(rc, damaged))
        note_bad(package, key, shows_damage(rc, damaged));
    return damage_as_miss(package, rc, damaged, ret_damaged, err);
}

enum kiln_code package_each(struct package *package, const struct package_listing *listing,
                            struct kiln_err *err)
{
    void *connection = db_pool_take(&package->connections);
    enum kiln_code rc = package->ops->each(connection, listing, err);
    db_pool_return(&package->connections, connection);
    return rc;
}

enum kiln_code package_rows(struct package *package, uint64_t *ret_rows, struct kiln_err *err)
{
    pthread_mutex_lock(&package->mutex);
    bool counted = package->counted;
    uint64_t rows = package->rows;
    pthread_mutex_unlock(&package->mutex);
    enum kiln_code rc = KILN_OK;
    if (!counted) {
        void *connection = db_pool_take(&package->connections);
        rc = package->ops->rows(connection, &rows, err);
        db_pool_return(&package->connections, connection);
    }
    if (rc)
        return rc;
    pthread_mutex_lock(&package->mutex);
    package->counted = true;
    package->rows = rows;
    pthread_mutex_unlock(&package->mutex);
    *ret_rows = rows;
    return KILN_OK;
}

bool package_is_trusted(const struct package *package) { return package->trusted; }

static enum kiln_code hash_file(const struct package *package, struct digest *ret_sha256,
                                struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(package->info.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", package->info.path);
    enum kiln_code rc = sha256_of_file(fd, ret_sha256, /* ret_size= */ NULL, err);
    struct file_identity now;
    if (!rc && (!file_identity_at(AT_FDCWD, package->info.path, &now) ||
                !file_identity_equal(&now, &package->identity)))
        rc = kiln_fail(err, KILN_BUSY, "'%s' changed while kiln read it: try again",
                       package->info.path);
    return rc;
}

enum kiln_code package_sha256(struct package *package, struct digest *ret_sha256,
                              struct kiln_err *err)
{
    pthread_mutex_lock(&package->mutex);
    bool is_hashed = package->is_hashed;
    struct digest sha256 = package->sha256;
    pthread_mutex_unlock(&package->mutex);
    enum kiln_code rc = is_hashed       ? KILN_OK
                        : package->item ? kiln_fail(err, KILN_UNSUPPORTED, "it is built in")
                                        : hash_file(package, &sha256, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&package->mutex);
    package->is_hashed = true;
    package->sha256 = sha256;
    pthread_mutex_unlock(&package->mutex);
    *ret_sha256 = sha256;
    return KILN_OK;
}

void package_report_damage(struct package_report *report, const struct kiln_err *why)
{
    if (report->damaged++ == 0)
        snprintf(report->first, sizeof(report->first), "%.255s", why->text);
}

static bool is_zero(const struct digest *digest)
{
    static const struct digest zero;
    return digest_equal(digest, &zero);
}

static enum kiln_code check_file(struct package *package, struct package_report *report,
                                 struct kiln_err *err)
{
    if (package->item) {
        struct digest found = sha256_of(engine_item_view(package->item));
        report->file_changed = !digest_equal(&found, &package->item->digest);
        return KILN_OK;
    }
    if (is_zero(&package->info.sha256))
        return KILN_OK;
    KILN_AUTO(fd) int fd = open(package->info.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", package->info.path);
    struct digest sha256;
    enum kiln_code rc = sha256_of_file(fd, &sha256, /* ret_size= */ NULL, err);
    if (rc)
        return kiln_while(err, "checking '%s'", package->info.path);
    report->file_changed = !digest_equal(&sha256, &package->info.sha256);
    return KILN_OK;
}

enum kiln_code package_check(struct package *package,
                             bool (*progress)(void *context, uint64_t done, uint64_t rows),
                             void *context, struct package_report *ret_report, struct kiln_err *err)
{
    struct package_progress notify = { .report = progress, .context = context };
    struct package_report report = { 0 };
    enum kiln_code rc = check_file(package, &report, err);
    if (rc)
        return rc;
    void *connection = db_pool_take(&package->connections);
    rc = package->ops->rows(connection, &report.rows, err);
    if (!rc)
        rc = package->ops->check(connection, &notify, &report, err);
    db_pool_return(&package->connections, connection);
    if (!rc && report.good + report.damaged < report.rows)
        rc = kiln_fail(err, KILN_CORRUPT, "'%s' has rows that are only in its index",
                       package->info.path);
    if (rc == KILN_CORRUPT) { /* rows that were not reached count as damaged */
        package_report_damage(&report, err);
        uint64_t seen = report.good + report.damaged;
        report.damaged += report.rows > seen ? report.rows - seen : 0;
        rc = KILN_OK;
    }
    if (!rc)
        *ret_report = report;
    return rc;
}

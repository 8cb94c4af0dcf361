/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_directories.h"

#include "common/base/fs.h"
#include "common/base/paths.h"
#include "common/base/units.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#define CONFIG_MAX (1u << 20)
/* Doctor fails if less space than this is free, in bytes: compilers and SQLite then cannot write
 * temporary files. */
#define FREE_FAIL (16ull << 20)
#define FREE_WARN (1ull << 30)
#define FREE_INODES_FAIL 100u
#define FREE_INODES_WARN 10000u

static const char *const known_settings[] = {
#define SETTING(key, ...) #key,
#include "daemon/config/config.def"
#undef SETTING
};

/* Fails if kilnd does not know one of the settings, because kilnd then does not start. */
static int check_settings(const char *file, const struct json *settings, struct kiln_error *err)
{
    for (const struct json *j = json_first(settings); j; j = json_next(j)) {
        bool known = false;
        for (size_t i = 0; i < sizeof(known_settings) / sizeof(known_settings[0]); i++)
            known |= strcmp(known_settings[i], json_name(j)) == 0;
        if (!known)
            return cli_fail(err, KILN_E_INVALID, "'%s': kilnd has no setting '%.60s'", file,
                            json_name(j));
    }
    return KILN_E_OK;
}

static int take_settings(const char *file, struct directory_facts facts[2], struct kiln_error *err)
{
    static const char *const keys[] = { "cache_dir", "state_dir" };
    BUFFER_AUTO struct buffer text;
    KILN_AUTO(json) struct json *settings = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    buffer_init(&text, CONFIG_MAX);
    enum kiln_code rc = fs_read_file(file, CONFIG_MAX, &text, &why);
    if (rc == KILN_NOT_FOUND)
        return KILN_E_OK;
    if (!rc)
        rc = json_parse(buffer_view(&text), file, &settings, &why);
    if (rc)
        return cli_fail(err, rc == KILN_DENIED ? KILN_E_DENIED : KILN_E_INVALID, "%s", why.text);
    if (check_settings(file, settings, err))
        return err->code;
    for (int i = 0; i < 2; i++) {
        const char *path = json_get_text(settings, keys[i], NULL);
        snprintf(facts[i].setting, sizeof(facts[i].setting), "%s in %s", keys[i], file);
        if (path)
            snprintf(facts[i].path, sizeof(facts[i].path), "%s", path);
    }
    return KILN_E_OK;
}

static int is_settings(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0;
}

/* Returns |next| if it is a failure, otherwise |rc|. So KILN_E_INVALID of a later file replaces
 * KILN_E_DENIED of an earlier file. */
static int worse_code(int rc, int next) { return next ? next : rc; }

/* Reads kilnd.json, and then the files in kilnd.json.d/ by name, as kilnd does. */
static int take_all_settings(const char *directory, struct directory_facts facts[2],
                             struct kiln_error *err)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    snprintf(path, sizeof(path), "%s/kilnd.json.d", directory);
    int count = scandir(path, &entries, is_settings, alphasort);
    int rc = count < 0 && errno != ENOENT && errno != ENOTDIR
                 ? cli_fail_errno(err, errno, "cannot read '%s'", path)
                 : KILN_E_OK;
    snprintf(path, sizeof(path), "%s/kilnd.json", directory);
    rc = worse_code(rc, take_settings(path, facts, err));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/kilnd.json.d/%s", directory, entries[i]->d_name);
        if (!rc || rc == KILN_E_DENIED)
            rc = worse_code(rc, take_settings(path, facts, err));
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int usual_places(bool is_system, struct directory_facts facts[2], char config[PATH_TEXT_MAX],
                        struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (is_system) {
        snprintf(facts[0].path, sizeof(facts[0].path), "/var/cache/kiln");
        snprintf(facts[1].path, sizeof(facts[1].path), "/var/lib/kiln");
        snprintf(config, PATH_TEXT_MAX, "/etc/kiln");
        return KILN_E_OK;
    }
    if (paths_cache_directory(facts[0].path, &why) || paths_state_directory(facts[1].path, &why) ||
        paths_config_directory(config, &why))
        return cli_fail(err, KILN_E_INVALID, "%s", why.text);
    return KILN_E_OK;
}

/* Reads facts about the directory's filesystem. If kilnd has not created the directory yet, uses
 * the nearest existing parent. */
static void read_filesystem(struct directory_facts *facts)
{
    char path[sizeof(facts->path)];
    struct statvfs seen;
    struct fs_place place;
    snprintf(path, sizeof(path), "%s", facts->path);
    if (fs_cut_to_existing(path) != 0 || statvfs(path, &seen) != 0 || fs_look(path, &place) != 0) {
        snprintf(facts->trouble, sizeof(facts->trouble), "%s", strerror(errno));
        return;
    }
    snprintf(facts->network, sizeof(facts->network), "%s", place.network ? place.type : "");
    snprintf(facts->fuse, sizeof(facts->fuse), "%s", place.unknown_fuse ? place.type : "");
    facts->read_only = seen.f_flag & ST_RDONLY;
    facts->bytes = (uint64_t)seen.f_blocks * seen.f_frsize;
    facts->free_bytes = (uint64_t)seen.f_bavail * seen.f_frsize;
    facts->inodes = seen.f_files;
    facts->free_inodes = seen.f_favail;
}

int directory_facts_gather(const char *config, bool is_system, struct directory_facts ret_facts[2],
                           struct kiln_error *err)
{
    char directory[PATH_TEXT_MAX];
    struct directory_facts facts[2] = { { .what = "cache" }, { .what = "state" } };
    int rc = usual_places(is_system, facts, directory, err);
    for (int i = 0; !rc && i < 2; i++)
        snprintf(facts[i].setting, sizeof(facts[i].setting), "%s in %s/kilnd.json",
                 i == 0 ? "cache_dir" : "state_dir", directory);
    if (!rc)
        rc = config ? take_settings(config, facts, err) : take_all_settings(directory, facts, err);
    if (rc && rc != KILN_E_DENIED)
        return rc;
    for (int i = 0; i < 2; i++)
        read_filesystem(&facts[i]);
    memcpy(ret_facts, facts, sizeof(facts));
    return rc;
}

void directory_facts_read(const struct json *directory, struct directory_facts *ret_facts)
{
    struct directory_facts facts = { 0 };
    snprintf(facts.what, sizeof(facts.what), "%s", json_get_text(directory, "what", "?"));
    snprintf(facts.path, sizeof(facts.path), "%s", json_get_text(directory, "path", "?"));
    snprintf(facts.trouble, sizeof(facts.trouble), "%s", json_get_text(directory, "trouble", ""));
    snprintf(facts.network, sizeof(facts.network), "%s", json_get_text(directory, "network", ""));
    snprintf(facts.fuse, sizeof(facts.fuse), "%s", json_get_text(directory, "fuse", ""));
    facts.read_only = json_get_bool(directory, "read_only", false);
    facts.bytes = json_get_u64(directory, "bytes", 0);
    facts.free_bytes = json_get_u64(directory, "free_bytes", 0);
    facts.inodes = json_get_u64(directory, "inodes", 0);
    facts.free_inodes = json_get_u64(directory, "free_inodes", 0);
    *ret_facts = facts;
}

static const char *setting_of(const struct directory_facts *d, char text[640])
{
    if (d->setting[0])
        snprintf(text, 640, "%s", d->setting);
    else
        snprintf(text, 640, "%s_dir in kilnd.json ('kilnctl config' shows where it is set)",
                 d->what);
    return text;
}

static void advise_space(const struct directory_facts *d, enum verdict verdict,
                         struct finding *finding)
{
    char setting[640], smaller[160] = "";
    unsigned long long half = d->database_bytes >> 21;
    bool is_full = verdict == VERDICT_FAIL && d->database_bytes > 0;
    if (half > 0)
        snprintf(smaller, sizeof(smaller), "; or shrink the cache: kilnctl gc --to %lluM --yes%s",
                 half, is_full ? ", or empty it: kilnctl clear --all --yes" : "");
    else if (is_full)
        snprintf(smaller, sizeof(smaller), "; or empty the cache: kilnctl clear --all --yes");
    findings_advise(finding,
                    "free space on that filesystem ('df -h' and 'df -i' show it)%s\n"
                    "or use another directory: set %s",
                    smaller, setting_of(d, setting));
}

static void judge_small(const struct directory_facts *d, const char *check, struct findings *f)
{
    char setting[640], whole[UNITS_TEXT_MAX], least[UNITS_TEXT_MAX];
    struct finding *finding =
        findings_add(f, check, VERDICT_FAIL, "'%s': the filesystem is too small: %s", d->path,
                     units_size(d->bytes, whole));
    findings_advise(finding,
                    "%s must stay free in addition to the cache: enlarge the filesystem, or set %s",
                    units_size(FREE_FAIL, least), setting_of(d, setting));
}

static void judge_space(const struct directory_facts *d, const char *check, struct findings *f)
{
    char space[UNITS_TEXT_MAX], whole[UNITS_TEXT_MAX];
    bool few_inodes = d->inodes > 0 && d->free_inodes < FREE_INODES_WARN;
    bool no_inodes = d->inodes > 0 && d->free_inodes < FREE_INODES_FAIL;
    /* Does not warn about a small filesystem that is mostly free. */
    bool little = d->free_bytes < FREE_WARN && d->free_bytes < d->bytes / 10;
    enum verdict verdict = d->free_bytes < FREE_FAIL || no_inodes ? VERDICT_FAIL
                           : little || few_inodes                 ? VERDICT_WARN
                                                                  : VERDICT_OK;
    struct finding *finding;
    if (d->bytes < 2 * FREE_FAIL && d->free_bytes < FREE_FAIL) {
        judge_small(d, check, f);
        return;
    }
    if (few_inodes && d->free_bytes >= FREE_FAIL)
        finding = findings_add(f, check, verdict, "'%s': %llu inodes are free", d->path,
                               (unsigned long long)d->free_inodes);
    else
        finding = findings_add(f, check, verdict, "'%s': %s of %s free%s", d->path,
                               units_size(d->free_bytes, space), units_size(d->bytes, whole),
                               verdict == VERDICT_FAIL ? ": the disk is full" : "");
    if (verdict != VERDICT_OK)
        advise_space(d, verdict, finding);
}

static void judge_fuse(const struct directory_facts *d, const char *check, struct findings *f)
{
    char setting[640];
    struct finding *finding =
        findings_add(f, check, VERDICT_WARN, "'%s' is on a FUSE filesystem (%s)", d->path, d->fuse);
    findings_advise(finding,
                    "if its files are on another machine, databases get damaged: in that case, set "
                    "%s to a directory on a local disk",
                    setting_of(d, setting));
}

void directory_judge(const struct directory_facts *facts, struct findings *f)
{
    char check[32], setting[640];
    snprintf(check, sizeof(check), "%s directory", facts->what);
    if (facts->trouble[0]) {
        findings_add(f, check, VERDICT_UNSEEN, "cannot examine '%s': %s", facts->path,
                     facts->trouble);
    } else if (facts->network[0]) {
        struct finding *finding =
            findings_add(f, check, VERDICT_FAIL, "'%s' is on a network filesystem (%s)",
                         facts->path, facts->network);
        findings_advise(finding,
                        "databases get damaged there: set %s to a directory on a local disk, then "
                        "restart kilnd",
                        setting_of(facts, setting));
    } else if (facts->read_only) {
        struct finding *finding =
            findings_add(f, check, VERDICT_FAIL, "'%s' is on a read-only filesystem", facts->path);
        findings_advise(finding,
                        "check with 'dmesg' whether the disk has errors; if so, unmount it and run "
                        "fsck; then mount it for writing (mount -o remount,rw), or set %s",
                        setting_of(facts, setting));
    } else {
        if (facts->fuse[0])
            judge_fuse(facts, check, f);
        judge_space(facts, check, f);
    }
}

/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/child.h"
#include "tests/support/repeats.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERNELS 40u
#define ROUNDS 80u
/* limit of the store, with which about half of the kernels fit */
#define TIGHT (400u << 10)

static enum kiln_code quarantine(struct fixture *f, unsigned number)
{
    struct digest key = key_of(number);
    return kernel_store_quarantine(f->store, &key, &f->err);
}

static void flip_content(struct fixture *f, unsigned number)
{
    struct digest key = key_of(number);
    meddle(f,
           "update object set bytes = cast(substr(bytes, 1, 100) || x'55aa55' ||"
           " substr(bytes, 104) as blob) where id = (select object from kernel where key = ?1)",
           &key);
}

TEST_F(store, damaged_bytes_are_a_miss_that_asks_for_quarantine)
{
    for (unsigned i = 0; i < 2; i++) {
        stored(f, (struct kernel){ .number = i, .size = 5000, .compressible = i });
        flip_content(f, i);

        assert_false(holds(f, i));
        assert_true(is_damaged(f, i));
        assert_int_equal(quarantine(f, i), KILN_OK);

        assert_false(is_damaged(f, i));
        assert_int_equal(ask(f, "select count(*) from quarantine"), i + 1);
        stored(f, (struct kernel){ .number = i, .size = 5000, .compressible = i });
        assert_true(holds(f, i));
    }
}

TEST_F(store, quarantine_keeps_the_evidence_and_the_counters_right)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000 });
    flip_content(f, 1);

    assert_int_equal(quarantine(f, 1), KILN_OK);

    assert_int_equal(ask(f, "select length(bytes) from quarantine"), 5000);
    assert_int_equal(ask(f, "select reason like '%SHA-256%' from quarantine"), 1);
    assert_int_equal(usage(f).objects + usage(f).kernels + usage(f).stored_bytes, 0);
}

TEST_F(store, a_damaged_object_is_removed_with_all_its_keys)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });
    stored(f, (struct kernel){ .number = 2, .size = 5000, .seed = 9 });
    flip_content(f, 1);

    assert_int_equal(quarantine(f, 1), KILN_OK);

    assert_int_equal(usage(f).kernels, 0);
    assert_false(is_damaged(f, 2));
}

TEST_F(store, a_claim_for_another_object_is_never_served)
{
    struct digest key = key_of(1);
    stored(f, (struct kernel){ .number = 1, .size = 5000 });
    stored(f, (struct kernel){ .number = 2, .size = 6000 });
    meddle(f, "update kernel set object = (select max(id) from object) where key = ?1", &key);

    assert_true(is_damaged(f, 1));
    assert_int_equal(quarantine(f, 1), KILN_OK);

    assert_false(is_damaged(f, 1));
    assert_true(holds(f, 2));
}

TEST_F(store, a_kernel_without_its_object_is_damaged)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000 });
    meddle(f, "pragma foreign_keys = off", NULL);
    meddle(f, "update object set sha256 = x'00'", NULL);

    assert_true(is_damaged(f, 1));
    assert_int_equal(quarantine(f, 1), KILN_OK);

    assert_false(is_damaged(f, 1));
}

TEST_F(store, an_intact_kernel_is_not_quarantined)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000 });

    assert_int_equal(quarantine(f, 1), KILN_OK);
    assert_int_equal(quarantine(f, 2), KILN_OK);

    assert_true(holds(f, 1));
    assert_int_equal(ask(f, "select count(*) from quarantine"), 0);
}

TEST_F(store, an_object_in_a_form_of_a_newer_kiln_is_a_miss_until_it_is_stored_again)
{
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });
    stored(f, (struct kernel){ .number = 2, .size = 5000, .seed = 9 });
    meddle(f, "update object set codec = 77", NULL);

    assert_false(holds(f, 1));
    assert_false(is_damaged(f, 1));
    stored(f, (struct kernel){ .number = 1, .size = 5000, .seed = 9 });

    assert_true(holds(f, 1));
    assert_false(holds(f, 2));
    assert_int_equal(usage(f).objects, 1);
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_NONE);
}

TEST_F(store, the_quarantine_is_bounded)
{
    for (unsigned i = 0; i < 80; i++) {
        stored(f, (struct kernel){ .number = i, .size = 300000 });
        flip_content(f, i);
        assert_int_equal(quarantine(f, i), KILN_OK);
    }

    assert_in_range(ask(f, "select count(*) from quarantine"), 40, 64);
    assert_in_range(ask(f, "select sum(length(bytes)) from quarantine"), 12 << 20, 16 << 20);
}

TEST_F(store, wrong_counters_are_repaired)
{
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    for (unsigned i = 0; i < 5; i++)
        stored(f, (struct kernel){ .number = i, .size = 5000 });
    meddle(f, "update usage set stored_bytes = 1 << 60", NULL);
    meddle(f, "update usage_uid set bytes = 7", NULL);
    meddle(f, "delete from recency", NULL);

    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_OK);

    assert_int_equal(usage(f).kernels, 5);
    assert_int_equal(usage(f).stored_bytes, 25000);
    assert_int_equal(ask(f, "select bytes from usage_uid where uid = 1000"),
                     usage(f).stored_bytes + usage(f).row_bytes);
    assert_int_equal(ask(f, "select count(*) from recency where uid = 1000"), 5);
    assert_true(holds(f, 0));
}

TEST_F(store, kernels_without_a_recency_row_are_evicted_when_space_is_needed)
{
    for (unsigned i = 0; i < 8; i++)
        stored(f, (struct kernel){ .number = i, .size = 100000 });
    meddle(f, "delete from recency", NULL);
    meddle(f, "insert into object values (99, x'00', 0, 1, 1, zeroblob(400000), 0)", NULL);
    assert_int_equal(reopen(f, 1 << 20), KILN_OK);

    /* On a busy machine, a single put may not have enough time to evict all that is necessary. */
    for (unsigned i = 0; i < 100 && !holds(f, 9); i++)
        stored(f, (struct kernel){ .number = 9, .size = 100000 });

    assert_true(holds(f, 9));
    assert_true(taken(f) <= 1 << 20);
    assert_int_equal(ask(f, "select count(*) from object where id = 99"), 0);
}

struct image {
    uint8_t *data;
    size_t size;
};

static struct image image_of(struct fixture *f)
{
    struct buffer content;
    buffer_init(&content, 64 << 20);
    assert_int_equal(fs_read_file(f->file, 64 << 20, &content, &f->err), KILN_OK);
    return (struct image){ .data = content.data, .size = content.size };
}

static void write_image(struct fixture *f, const struct image *image, size_t size)
{
    test_write(f->file, bytes_of(image->data, size));
}

static void fill_and_close(struct fixture *f, unsigned count)
{
    struct object *object = object_of(3000, 77, true);
    struct kernel_record named = { .key = key_of(1000),
                                   .program = "a.s.o",
                                   .options = " -mcpu=gfx90a",
                                   .database_id = "gfx90a68",
                                   .uid = 1000,
                                   .is_private = true };
    uint64_t evicted = 0;
    assert_int_equal(kernel_store_import(f->store, &named, object, &evicted, &f->err), KILN_OK);
    object_unref(object);
    for (unsigned i = 0; i < count; i++)
        stored(f, (struct kernel){
                      .number = i, .size = 2000 + i * 100, .seed = i + 1, .compressible = i % 2 });
    close_store(f);
}

TEST_F(store, a_file_that_is_no_database_is_replaced)
{
    close_store(f);
    struct image text = { .data = (uint8_t *)"this is not a database, it only has its name",
                          .size = 44 };
    write_image(f, &text, text.size);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_says(f->notice, "was damaged");
    /* The three files are the database, its log and the log's index. No copy of the damaged
     * database was kept. */
    assert_int_equal(files(f, "kernels.db"), 3);
    stored(f, (struct kernel){ .number = 1, .size = 100 });
    assert_true(holds(f, 1));
}

TEST_F(store, a_database_of_another_program_is_replaced)
{
    meddle(f, "pragma application_id = 77", NULL);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_says(f->notice, "kernels database");
}

TEST_F(store, an_empty_file_is_a_fresh_store)
{
    close_store(f);
    struct image nothing = { 0 };
    write_image(f, &nothing, 0);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    assert_int_equal(usage(f).kernels, 0);
}

TEST_F(store, a_newer_schema_is_refused_with_a_clear_message)
{
    stored(f, (struct kernel){ .number = 1, .size = 100 });
    meddle(f, "pragma user_version = 42", NULL);

    assert_int_equal(reopen(f, ROOMY), KILN_UNSUPPORTED);

    assert_says(f->err.text, "schema 42");
    assert_says(f->err.text, "newer version");
    meddle(f, "pragma user_version = 9", NULL);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_true(holds(f, 1));
}

/* Returns whether the store works again after a few puts. Several may be needed, because some
 * damage is found only by a write to the damaged page. */
static bool heals(struct fixture *f)
{
    for (unsigned attempt = 0; attempt < 3; attempt++) {
        stored(f, (struct kernel){ .number = 99, .size = 3000 });
        if (holds(f, 99))
            return true;
        assert_true(is_damaged(f, 99));
        assert_int_equal(quarantine(f, 99), KILN_OK);
    }
    return false;
}

TEST_F(store, a_truncated_file_never_gives_a_wrong_object)
{
    fill_and_close(f, KERNELS);
    struct image image = image_of(f);
    for (size_t size = image.size; size > 0; size = size > 1500 ? size - 1500 : 0) {
        write_image(f, &image, size);
        assert_int_equal(reopen(f, ROOMY), KILN_OK);
        for (unsigned i = 0; i < KERNELS; i++) {
            if (is_damaged(f, i))
                assert_int_equal(quarantine(f, i), KILN_OK);
        }
        assert_true(heals(f));
        close_store(f);
    }
    free(image.data);
}

/* A failing disk or a careless tool might truncate the file under open connections. */
TEST_F(store, a_file_damaged_while_open_is_replaced_by_the_next_write)
{
    fill_and_close(f, KERNELS);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    struct image image = image_of(f);
    memset(image.data + 4096, 0xa5, image.size - 4096);
    int fd = open(f->file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, image.data, image.size, 0), image.size);

    assert_true(is_damaged(f, 3));
    assert_int_equal(quarantine(f, 3), KILN_OK);

    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_REPLACED);
    assert_says(f->notice, "was damaged");
    assert_false(kernel_store_take_notice(f->store, f->notice));
    assert_false(is_damaged(f, 3));
    stored(f, (struct kernel){ .number = 3, .size = 100 });
    assert_true(holds(f, 3));
    close(fd);
    free(image.data);
}

static void check_round(struct fixture *f, struct object *const expected[KERNELS])
{
    for (unsigned i = 0; i < KERNELS; i++) {
        struct digest key = key_of(i);
        struct object *object = NULL;
        bool damaged = false;
        enum kiln_code rc = kernel_store_get(f->store, &key, &object, &damaged, &f->err);
        if (rc == KILN_OK)
            assert_true(digest_equal(&object->digest, &expected[i]->digest));
        object_unref(object);
        if (damaged)
            assert_int_equal(quarantine(f, i), KILN_OK);
    }
}

static void ignore(void *context, const struct kernel_record *record)
{
    *(size_t *)context += strlen(record->target) + strlen(record->options);
}

static bool ignore_named(void *context, const struct kernel_record *record, struct bytes raw)
{
    ignore(context, record);
    /* Whatever is damaged, the store must return the right bytes or none. */
    struct digest sum = sha256_of(raw);
    assert_true(raw.size == 0 || digest_equal(&sum, &record->object));
    return true;
}

static void ignore_uid(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    *(size_t *)context += uid + kernels + bytes;
}

static void read_the_rest(struct fixture *f, unsigned round)
{
    const struct kernel_page page = { .filter = { .target = round % 4 ? "gfx90a" : NULL },
                                      .max = 100 };
    struct kernel_record wanted = { .program = "ConvDirectNaive.cl",
                                    .options = "-O3",
                                    .uid = 1000 };
    struct kernel_position position = { 0 };
    struct kernel_usage u;
    size_t length = 0;
    const struct kernel_export kernels = {
        .uid = 1000, .database_id = "gfx90a68", .max = 9, .each = ignore_named, .context = &length
    };
    bool end = false;
    if (kernel_store_usage(f->store, &u, &f->err) ||
        kernel_store_usage_by_uid(f->store, ignore_uid, &length, &f->err) ||
        kernel_store_nearest(f->store, &wanted, ignore, &length, &f->err) ||
        kernel_store_each_named(f->store, &kernels, &position, &end, &f->err) ||
        kernel_store_list(f->store, &page, ignore, &length, &f->err))
        f->err = KILN_ERR_INIT;
}

static void use_the_rest(struct fixture *f, unsigned round)
{
    struct kernel_filter filter = { .target = round % 4 ? "gfx90a" : NULL };
    struct kernel_gc gc = { .stale = round % 3, .shrink = round % 5 == 0, .to_bytes = 300000 };
    struct kernel_gc_result result;
    struct digest keys[4];
    uint64_t count = 0, bytes = 0;
    bool more = false;
    keys_of(0, 3, keys);
    read_the_rest(f, round);
    if (kernel_store_touch(f->store, keys, 4, 1800000000, &f->err) ||
        kernel_store_pin(f->store, &keys[round % 4], round % 2, &more, &f->err) ||
        kernel_store_tidy(f->store, &more, &f->err) ||
        (round % 7 == 0 && kernel_store_gc(f->store, &gc, &result, &f->err)) ||
        (round % 2 ? kernel_store_count(f->store, &filter, &count, &bytes, &f->err)
                   : kernel_store_clear(f->store, &filter, &count, &bytes, &f->err)))
        f->err = KILN_ERR_INIT;
    assert_true(heals(f));
}

TEST_F(store, random_flips_never_crash_and_never_give_a_wrong_object)
{
    struct object *expected[KERNELS];
    fill_and_close(f, KERNELS);
    for (unsigned i = 0; i < KERNELS; i++)
        expected[i] = object_of(2000 + i * 100, i + 1, i % 2);
    struct image image = image_of(f), copy = { malloc(image.size), image.size };
    const unsigned rounds = test_repeats(ROUNDS);
    unsigned opened = 0;
    srand48(20240611);
    for (unsigned round = 0; round < rounds; round++) {
        memcpy(copy.data, image.data, image.size);
        unsigned flips = 1 + (unsigned)(lrand48() % 12);
        for (unsigned i = 0; i < flips; i++) {
            size_t area = round % 2 ? image.size : 8 * 4096;
            copy.data[(size_t)lrand48() % area] ^= (uint8_t)(1 + lrand48() % 255);
        }
        write_image(f, &copy, copy.size);
        if (reopen(f, TIGHT) != KILN_OK)
            continue;
        opened++;
        check_round(f, expected);
        use_the_rest(f, round);
        close_store(f);
    }
    assert_true(opened > rounds / 2);
    for (unsigned i = 0; i < KERNELS; i++)
        object_unref(expected[i]);
    free(image.data);
    free(copy.data);
}

static void store_until_killed(struct fixture *f, unsigned first, int progress)
{
    if (reopen(f, TIGHT) != KILN_OK)
        _exit(1);
    for (unsigned i = first;; i++) {
        unsigned n = i % KERNELS;
        if (put(f,
                (struct kernel){
                    .number = n, .size = 2000 + n * 100, .seed = n + 1, .compressible = n % 2 }) !=
                KILN_OK ||
            write(progress, ".", 1) != 1)
            _exit(1);
    }
}

/* Starts a process that stores kernels, and kills it during the put after |puts| puts. */
static void kill_a_writer(struct fixture *f, unsigned first, unsigned puts)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        store_until_killed(f, first, ends[1]);
    close(ends[1]);
    await_progress(ends[0], puts);
    kill(child, SIGKILL);
    (void)await_child(child);
    close(ends[0]);
}

TEST_F(store, a_killed_writer_leaves_a_consistent_store)
{
    struct object *expected[KERNELS];
    close_store(f);
    for (unsigned i = 0; i < KERNELS; i++)
        expected[i] = object_of(2000 + i * 100, i + 1, i % 2);
    for (unsigned round = 0; round < 12; round++) {
        kill_a_writer(f, round * 5, 5 + round * 7);

        assert_int_equal(reopen(f, TIGHT), KILN_OK);

        assert_string_equal(f->notice, "");
        check_round(f, expected);
        assert_int_equal(ask(f, "select count(*) from quarantine"), 0);
        assert_int_equal(usage(f).stored_bytes, ask(f, "select sum(stored_size) from object"));
        close_store(f);
    }
    for (unsigned i = 0; i < KERNELS; i++)
        object_unref(expected[i]);
}

struct damages {
    unsigned count;
    char first_row[64], first_reason[64], package[64];
};

static void see_damage(void *context, const struct kernel_damage *damage)
{
    struct damages *seen = context;
    if (seen->count++ > 0)
        return;
    snprintf(seen->first_row, sizeof(seen->first_row), "%s", damage->row);
    snprintf(seen->first_reason, sizeof(seen->first_reason), "%s", damage->reason);
    snprintf(seen->package, sizeof(seen->package), "%s", damage->package);
    assert_true(damage->found > 0);
}

static struct damages damages_of(struct fixture *f, const char *package)
{
    struct damages seen = { 0 };
    assert_int_equal(kernel_store_quarantine_of(f->store, package, see_damage, &seen, &f->err),
                     KILN_OK);
    return seen;
}

static void note_damage(struct fixture *f, const char *package, const char *row, const char *why)
{
    const struct kernel_damage damage = { .package = package, .row = row, .reason = why };
    assert_int_equal(kernel_store_quarantine_packaged(f->store, &damage, &f->err), KILN_OK);
}

TEST_F(store, damage_in_a_package_is_recorded_once_per_row_and_survives_a_restart)
{
    note_damage(f, "gfx90a68.kdb", "a.o", "its md5 is another");
    note_damage(f, "gfx90a68.kdb", "b.o", "it is cut short");
    note_damage(f, "gfx90a68.kdb", "a.o", "its size is another");
    note_damage(f, "gfx906_60.kdb", "a.o", "elsewhere");

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    struct damages seen = damages_of(f, "gfx90a68.kdb");
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.first_row, "a.o");
    assert_string_equal(seen.first_reason, "its size is another");
    assert_string_equal(seen.package, "gfx90a68.kdb");
    assert_int_equal(usage(f).quarantined, 3);
    assert_int_equal(damages_of(f, "none.kdb").count, 0);
}

TEST_F(store, damage_in_packages_is_bounded_and_forgotten_with_the_package)
{
    for (unsigned i = 0; i < 100; i++) {
        char row[16];
        snprintf(row, sizeof(row), "k%u.o", i);
        note_damage(f, "gfx90a68.kdb", row, "it is damaged");
    }
    note_damage(f, "gfx906_60.kdb", "a.o", "elsewhere");
    assert_int_equal(damages_of(f, "gfx90a68.kdb").count, 63);
    assert_string_equal(damages_of(f, "gfx90a68.kdb").first_row, "k99.o");

    assert_int_equal(kernel_store_quarantine_forget(f->store, "gfx90a68.kdb", &f->err), KILN_OK);

    assert_int_equal(damages_of(f, "gfx90a68.kdb").count, 0);
    assert_int_equal(usage(f).quarantined, 1);
}

/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz.h"

#include "engine/db/log_salvage.h"
#include "engine/db/snapshot.h"

#include <stdio.h>
#include <unistd.h>

/* The linker (--wrap) redirects SQLite's sleeps to this function, which does not sleep. SQLite
 * sleeps while another process holds a lock, but here no other process holds one. */
int __wrap_sqlite3_sleep(int ms);
int __wrap_sqlite3_sleep(int ms) { return ms; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct log_state state = { 0 };
    struct reader r = reader_of(bytes_of(data, size));
    struct bytes file = fuzz_part(&r), log = fuzz_rest(&r);
    const char *log_path = fuzz_file("live.db-wal", log);
    const char *path = fuzz_file("live.db", file);
    const char *copy = fuzz_path("copy.db");
    if (log_inspect(log_path, &state, &err) == KILN_OK)
        fuzz_expect(state.lost <= state.pages, "no more is lost than there was");
    if (db_snapshot(path, copy, true, &err) == KILN_OK) {
        (void)!db_snapshot_save(copy, &state, &err);
        db_snapshot_remove(copy);
    }
    (void)!log_apply(log_path, path, &err);
    db_snapshot_remove(path);
    return 0;
}

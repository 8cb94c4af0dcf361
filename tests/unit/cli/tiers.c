/* SPDX-License-Identifier: MIT */
#include "cli/tiers.h"
#include "tests/support/test.h"

#include <string.h>

static const int seen[] = {
    KILN_TIER_HOT, KILN_TIER_DISK, KILN_TIER_HOT, KILN_TIER_COMPILED, -1, 99
};

static struct tier_counts count_seen(void)
{
    struct tier_counts counts = { 0 };
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
        tier_count(&counts, seen[i]);
    return counts;
}

TEST(plain, a_compile_is_not_a_hit_and_an_unknown_tier_counts_only_as_a_kernel)
{
    struct tier_counts counts = count_seen();
    assert_int_equal(counts.kernels, 6);
    assert_int_equal(counts.compiles, 1);
    assert_int_equal(counts.hits[KILN_TIER_HOT], 2);
    assert_int_equal(tier_hits(&counts), 3);
}

TEST(plain, every_tier_has_a_name_and_others_are_unknown)
{
    for (int tier = KILN_TIER_HOT; tier <= KILN_TIER_PROCESS; tier++)
        assert_string_not_equal(tier_name(tier), "unknown");
    assert_string_equal(tier_name(KILN_TIER_NONE), "unknown");
    assert_string_equal(tier_name(-1), "unknown");
    assert_string_equal(tier_name(KILN_TIER_PROCESS + 1), "unknown");
}

TEST(plain, rows_name_only_tiers_with_kernels)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_RIGHT } };
    struct tier_counts counts = count_seen();
    struct table *table = table_create(columns, 2);
    struct kiln_error err = { 0 };
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);

    tier_rows(&counts, table);

    must(table_print(table, out, &err), err);
    fclose(out);
    table_destroy(table);
    assert_string_equal(text, "kernels   6\ncompiles  1\nhits      3\n  hot     2\n  disk    1\n");
}

TEST(plain, json_has_every_tier_but_the_compiler)
{
    struct tier_counts counts = count_seen();
    KILN_AUTO(json) struct json *json = json_object();
    tier_json(&counts, json);
    KILN_AUTO(mem) char *text = json_print(json, false);
    assert_string_equal(text,
                        "{\"kernels\":6,\"compiles\":1,\"hits\":3,\"hits_by_tier\":{\"hot\":2,"
                        "\"disk\":1,\"package\":0,\"fleet\":0,\"table\":0}}");
}

/* SPDX-License-Identifier: MIT */
/* Tests problem_bytes: the least number of bytes that a problem moves, from which lower bounds of
 * times are computed. */
#include "tests/gpu/problems.h"
#include "tests/support/test.h"

static const struct problem_change unchanged = PROBLEM_UNCHANGED;

static enum kiln_code take(void *context, const struct problem *problem, struct kiln_err *err)
{
    (void)err;
    *(double *)context = problem_bytes(problem);
    return KILN_OK;
}

static double bytes_of_line(const char *line)
{
    struct kiln_err err = KILN_ERR_INIT;
    double bytes = 0;
    must(problems_take(line, &unchanged, take, &bytes, &err), err);
    return bytes;
}

TEST(plain, each_tensor_counts_once)
{
    double bytes =
        bytes_of_line("convfp16 -n 2 -c 8 -H 6 -W 5 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1");
    assert_true(bytes == 2.0 * (2 * 8 * 6 * 5 + 4 * 8 * 3 * 3 + 2 * 4 * 6 * 5));
}

/* If pixels that no output reads counted, the lower bound would be above correct times. */
TEST(plain, pixels_that_no_output_reads_do_not_count)
{
    static const char line[] = "conv -n 1 -c 8 -H 8 -W 8 -k 4 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -F %d";
    double others = 8 * 4 + 4 * 4 * 4;
    for (int direction = 1; direction <= 4; direction *= 2) {
        char text[128];
        snprintf(text, sizeof(text), line, direction);
        /* backward data writes all pixels of x; the other directions read 4 x 4 of them */
        double x = 8.0 * (direction == 2 ? 8 * 8 : 4 * 4);
        assert_true(bytes_of_line(text) == 4 * (x + others));
    }
}

TEST(plain, taps_that_are_apart_read_only_their_pixels)
{
    /* Along the height, the three outputs read rows 0 and 4, 2 and 6, 4 and 8: 5 of the 10 rows. */
    double bytes = bytes_of_line(
        "conv -n 1 -c 1 -H 10 -W 1 -k 1 -y 2 -x 1 -p 0 -q 0 -u 2 -v 1 -l 4 -j 1 -F 1");
    assert_true(bytes == 4.0 * (5 + 2 + 3));
}

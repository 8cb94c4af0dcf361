/* SPDX-License-Identifier: MIT */
#include "libclient/device/text_file.h"
#include "libclient/device/uuid.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const unsigned char bytes[DEVICE_UUID_BYTES] = { 0x6e, 0x2a, 0x0c, 0x1d, 0x11, 0x11,
                                                        0x22, 0x22, 0x33, 0x33, 0x44, 0x44,
                                                        0x55, 0x55, 0x66, 0xff };
static const unsigned char zero[DEVICE_UUID_BYTES];

SET_UP_STATIC(set_up)
{
    test_unsetenv("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES");
}

FIXTURE(device_names, set_up, NULL);

TEST(device_names, a_uuid_is_written_as_the_vendors_tools_do)
{
    char text[DEVICE_UUID_SIZE];
    device_uuid_text("GPU-", bytes, text);
    assert_string_equal(text, "GPU-6e2a0c1d-1111-2222-3333-4444555566ff");
    device_uuid_text("MIG-", bytes, text);
    assert_string_equal(text, "MIG-6e2a0c1d-1111-2222-3333-4444555566ff");
    device_uuid_text_of_digits(bytes, text);
    assert_string_equal(text, "GPU-6e2a0c1d-1111-2222-3333-4444555566ff");
    device_uuid_text_of_digits((const unsigned char *)"1901ead3a2ecd4a6", text);
    assert_string_equal(text, "GPU-1901ead3a2ecd4a6");
    /* Only HIP's UUIDs consist of hexadecimal digits in ASCII. device_uuid_text is for binary
     * UUIDs, so it treats these ASCII digits as binary bytes. */
    device_uuid_text("GPU-", (const unsigned char *)"1901ead3a2ecd4a6", text);
    assert_string_equal(text, "GPU-31393031-6561-6433-6132-656364346136");
}

TEST(device_names, a_uuid_of_zeros_counts_as_unknown)
{
    char text[DEVICE_UUID_SIZE] = "x";
    device_uuid_text("GPU-", zero, text);
    assert_string_equal(text, "");
    strcpy(text, "x");
    device_uuid_text_of_digits(zero, text);
    assert_string_equal(text, "");
}

static bool two_have_one(const void *context, int index, char text[DEVICE_UUID_SIZE])
{
    if (index == 1 || !context)
        return false;
    snprintf(text, DEVICE_UUID_SIZE, "GPU-aB0%d", index);
    return true;
}

static enum kiln_code find(const char *uuid, unsigned index, bool reports, int *ret_index,
                           struct kiln_err *err)
{
    struct device_census census = { .kind = "hip",
                                    .what = "HIP",
                                    .count = 3,
                                    .uuid = two_have_one,
                                    .context = reports ? &census : NULL };
    struct device_uri uri = { .kind = DEVICE_HIP, .index = index };
    snprintf(uri.uuid, sizeof(uri.uuid), "%s", uuid);
    *err = KILN_ERR_INIT;
    return device_find(&census, &uri, ret_index, err);
}

TEST(device_names, a_device_is_found_by_number_or_by_uuid_in_any_case)
{
    struct kiln_err err;
    int index = -1;
    must(find("", 2, false, &index, &err), err);
    assert_int_equal(index, 2);
    must(find("GPU-AB02", 0, true, &index, &err), err);
    assert_int_equal(index, 2);
    must(find("GPU-ab00", 7, true, &index, &err), err);
    assert_int_equal(index, 0);
}

TEST(device_names, a_device_that_is_not_found_leaves_the_index_unchanged)
{
    struct kiln_err err;
    int index = -1;
    assert_int_equal(find("", 3, false, &index, &err), KILN_NOT_FOUND);
    assert_says(err.text, "hip:3");
    assert_int_equal(find("GPU-ab01", 0, true, &index, &err), KILN_NOT_FOUND);
    assert_says(err.text, "hip://GPU-ab01");
    assert_int_equal(find("GPU-ab00", 0, false, &index, &err), KILN_UNSUPPORTED);
    assert_int_equal(index, -1);
}

TEST(device_names, the_variables_that_hide_devices_of_a_kind_are_named)
{
    char text[260];
    device_hidden_note("hip", text, sizeof(text));
    assert_string_equal(text, "");
    setenv("ROCR_VISIBLE_DEVICES", "GPU-1901ead3a2ecd4a6", 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    device_hidden_note("hip", text, sizeof(text));
    assert_says(text, "ROCR_VISIBLE_DEVICES='GPU-1901ead3a2ecd4a6'");
    assert_says(text, "CUDA_VISIBLE_DEVICES=''");
    device_hidden_note("cuda", text, sizeof(text));
    assert_says(text, "CUDA_VISIBLE_DEVICES=''");
    assert_null(strstr(text, "ROCR"));
    device_hidden_note("opencl", text, sizeof(text));
    assert_string_equal(text, "");
    setenv("HIP_VISIBLE_DEVICES", "1", 1);
    test_unsetenv("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES");
    device_hidden_note("hip", text, sizeof(text));
    assert_says(text, "HIP_VISIBLE_DEVICES='1'");
}

TEST(device_names, long_values_of_variables_are_truncated)
{
    static const char *const variables[] = { "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                             "CUDA_VISIBLE_DEVICES" };
    char value[500], text[260];
    memset(value, '7', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    for (size_t i = 0; i < 3; i++)
        setenv(variables[i], value, 1);
    for (size_t size = 1; size <= sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        device_hidden_note("hip", text, size);
        assert_non_null(memchr(text, '\0', size));
    }
    assert_int_equal(strspn(strchr(text, '7'), "7"), 60);
}

static bool version_of(const char *content, char *ret_version, size_t size)
{
    char path[] = "/tmp/kiln-test-version-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
    bool found = text_file_version(path, ret_version, size);
    unlink(path);
    return found;
}

TEST(device_names, a_drivers_version_is_the_first_word_like_one)
{
    char version[16];
    assert_true(version_of("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  "
                           "Release Build\nGCC version:  gcc 12.2.0\n",
                           version, sizeof(version)));
    assert_string_equal(version, "580.82.07");
    assert_true(version_of("6.8.5\n", version, sizeof(version)));
    assert_string_equal(version, "6.8.5");
}

TEST(device_names, a_text_without_a_version_has_no_result)
{
    char version[8] = "-";
    assert_false(version_of("", version, sizeof(version)));
    assert_false(version_of("none here\n1.2.3\n", version, sizeof(version)));
    assert_false(version_of("12 .5 x1.2\n", version, sizeof(version)));
    assert_false(version_of("123.456.789\n", version, sizeof(version)));
    assert_false(text_file_version("/nonexistent/version", version, sizeof(version)));
    assert_string_equal(version, "-");
}

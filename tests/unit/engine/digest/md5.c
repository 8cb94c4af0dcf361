/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/digest/md5.h"

TEST(plain, md5_matches_rfc_1321)
{
    static const struct {
        const char *content, *hex;
    } known[] = {
        { "", "d41d8cd98f00b204e9800998ecf8427e" },
        { "abc", "900150983cd24fb0d6963f7d28e17f72" },
        { "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
        { "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
          "57edf4a22be3c955ac49da2e2107b67a" },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char hex[MD5_HEX_SIZE];
        md5_hex_of(bytes_of_text(known[i].content), hex);
        assert_string_equal(hex, known[i].hex);
    }
}

TEST(plain, md5_accepts_empty_content)
{
    char hex[MD5_HEX_SIZE];
    md5_hex_of(bytes_of(NULL, 0), hex);
    assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
}

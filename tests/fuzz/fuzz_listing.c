/* SPDX-License-Identifier: MIT */
/* Tests the parser of an object store's listings. The input is one page of names from a hostile
 * store. */
#include "tests/fuzz/fuzz.h"

#include "engine/transfer/store_listing.h"

#include <stdlib.h>
#include <string.h>

static void check_names(struct bytes names)
{
    size_t length = 0;
    for (size_t i = 0; i < names.size; i++) {
        uint8_t byte = names.data[i];
        length = byte == '\n' ? 0 : length + 1;
        bool is_fine = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
                       (byte == '\n' && i > 0 && names.data[i - 1] != '\n');
        fuzz_expect(is_fine && length < FLEET_FILE_NAME_MAX, "a name is one of the tree's");
    }
    fuzz_expect(length == 0, "the last name is complete");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char token[FLEET_TOKEN_MAX];
    struct bytes input = bytes_of(data, size);
    KILN_AUTO(mem) uint8_t *page = fuzz_copy(input);
    BUFFER_AUTO struct buffer names;
    buffer_init(&names, STORE_PAGE_MAX);
    bool is_page = store_page_read(bytes_of(page, size), "v1/k", &names, token);
    fuzz_expect(memchr(token, '\0', sizeof(token)), "the token is terminated");
    if (is_page)
        check_names(buffer_view(&names));
    return 0;
}

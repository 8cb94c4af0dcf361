/* SPDX-License-Identifier: MIT */
/* Tests the parser of an object store's listings. The input is one page of names from a hostile
 * store. */
#include "tests/fuzz/fuzz.h"

#include "engine/transfer/store_listing.h"

#include <stdlib.h>
#include <string.h>

static bool is_of_name(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '.';
}

static size_t count_name(struct bytes line)
{
    size_t size = 0;
    while (size < line.size && is_of_name(line.data[size]))
        size++;
    return size;
}

/* |line| is a name, or a name, the size and the time. */
static void check_line(struct bytes line)
{
    size_t size = count_name(line), blanks = 0;
    fuzz_expect(size > 0 && size < FLEET_FILE_NAME_MAX, "a name is one of the tree's");
    for (size_t i = size; i < line.size; i++) {
        bool is_digit = line.data[i] >= '0' && line.data[i] <= '9';
        blanks += line.data[i] == ' ';
        fuzz_expect(is_digit || line.data[i] == ' ', "size and time are numbers");
    }
    fuzz_expect(size == line.size || blanks == 2, "a line has one or three parts");
}

static void check_names(struct bytes names)
{
    size_t start = 0;
    for (size_t i = 0; i < names.size; i++) {
        if (names.data[i] != '\n')
            continue;
        check_line(bytes_of(names.data + start, i - start));
        start = i + 1;
    }
    fuzz_expect(start == names.size, "the last name is complete");
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

/* SPDX-License-Identifier: MIT */
#include "engine/digest/program_key.h"

#include "engine/digest/sha256_headers.h"

struct digest program_key(const struct program_inputs *inputs, const struct digest *source)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-program-2"));
    sha256_put_number(&s, PROGRAM_INPUTS_RULES);
    sha256_put_sized(&s, bytes_of(inputs->library.bytes, DIGEST_SIZE));
    sha256_put_sized(&s, inputs->options);
    sha256_put_sized(&s, inputs->name);
    sha256_put_sized(&s, bytes_of(source->bytes, DIGEST_SIZE));
    sha256_put_number(&s, inputs->header_count);
    sha256_put_sized(&s, inputs->headers);
    sha256_put_sized(&s, inputs->expressions);
    return sha256_end(&s);
}

/* SPDX-License-Identifier: MIT */
#include "cli/text_stream.h"

#define TEXT_MAX (1u << 30)

static ssize_t append_text(void *cookie, const char *data, size_t size)
{
    struct text_stream *stream = cookie;
    buffer_put(&stream->text, data, size);
    return stream->text.failed ? 0 : (ssize_t)size;
}

bool text_stream_open(struct text_stream *stream)
{
    buffer_init(&stream->text, TEXT_MAX);
    stream->out = fopencookie(stream, "w", (cookie_io_functions_t){ .write = append_text });
    return stream->out;
}

char *text_stream_end(struct text_stream *stream)
{
    BUFFER_AUTO struct buffer text = { 0 };
    bool fine = fflush(stream->out) == 0 && !ferror(stream->out);
    fine = fclose(stream->out) == 0 && fine;
    text = stream->text;
    buffer_put_u8(&text, '\0');
    if (!fine || text.failed)
        return NULL;
    char *whole = (char *)text.data;
    text.data = NULL;
    return whole;
}

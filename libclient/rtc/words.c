/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/words.h"

#include "common/base/pasted_words.h"
#include "libclient/rtc/comments.h"

#include <string.h>

static const char *const times[] = { "__DATE__", "__TIME__", "__TIMESTAMP__", NULL };

static bool contains(struct bytes text, const char *word)
{
    return text.size && memmem(text.data, text.size, word, strlen(word));
}

/* Parts of a name in a comment cannot be put together.  For example, a comment in glibc's
 * <bits/types.h>, which most programs include, has the word __TIME. */
static bool have_parts(struct bytes text)
{
    BUFFER_AUTO struct buffer code;
    buffer_init(&code, text.size);
    return !comments_remove(text, &code) || pasted_words_possible(buffer_view(&code), times);
}

bool words_have_time(struct bytes text)
{
    BUFFER_AUTO struct buffer joined; /* because the end of a line may be in a name, or in "##" */
    buffer_init(&joined, text.size);
    comments_join_lines(text, &joined);
    if (joined.failed)
        return true;
    for (const char *const *time = times; *time; time++)
        if (contains(buffer_view(&joined), *time))
            return true;
    return pasted_words_possible(buffer_view(&joined), times) && have_parts(text);
}

/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/trace_tree.h"

#include <string.h>

static const char first[] = TRACE_FIRST_LINE "\n";

struct fleet_shard trace_shard(const char *job)
{
    return fleet_shard_named(bytes_of_text(TRACE_TARGET), FLEET_TRACES, bytes_of_text(job));
}

static bool is_allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._+=-", c));
}

bool trace_file_name_check(struct bytes name)
{
    const size_t ending = strlen(TRACE_ENDING);
    if (name.size <= ending || name.size > TRACE_FILE_NAME_MAX || name.data[0] == '.' ||
        name.data[0] == '-')
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (!is_allowed((char)name.data[i]))
            return false;
    return memcmp(name.data + name.size - ending, TRACE_ENDING, ending) == 0;
}

bool trace_content_check(struct bytes text)
{
    return text.size >= sizeof(first) - 1 && text.size <= TRACE_FILE_BYTES_MAX &&
           memcmp(text.data, first, sizeof(first) - 1) == 0;
}

/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BITS_OF_ONE 32

bool has_capability(int capability)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[capability / BITS_OF_ONE].effective >> (capability % BITS_OF_ONE)) & 1u;
}

/* Tries every number until the call fails, because Linux may have more capabilities than the
 * headers name. */
void give_up_future_capabilities(void)
{
    if (!has_capability(CAP_SETPCAP))
        return;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int c = 0; prctl(PR_CAPBSET_DROP, c, 0, 0, 0) == 0; c++) {
    }
}

bool give_up_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
    give_up_future_capabilities();
    return syscall(SYS_capset, &header, none) == 0;
}

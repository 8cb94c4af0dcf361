/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/preload.h"

#include "libclient/rtc/api.h"
#include "libclient/rtc/old_glibc.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

typedef void *dlsym_fn(void *handle, const char *name);

void preload_find_dlsym(void);
void *preload_dlsym(void *handle, const char *name);

/* libc's dlsym; NULL until the first call. */
extern dlsym_fn *preload_next_dlsym;
dlsym_fn *preload_next_dlsym;

void preload_find_dlsym(void)
{
    void *found = dlvsym(RTLD_NEXT, "dlsym", GLIBC_OLDEST);
    __atomic_store_n((void **)&preload_next_dlsym, found, __ATOMIC_RELEASE);
}

void *preload_real_dlsym(void *handle, const char *name)
{
    if (!__atomic_load_n((void **)&preload_next_dlsym, __ATOMIC_ACQUIRE))
        preload_find_dlsym();
    return preload_next_dlsym(handle, name);
}

void preload_find_next(const char *name, void *ret_function)
{
    void *found;
    memcpy(&found, ret_function, sizeof(found));
    if (found)
        return;
    found = preload_real_dlsym(RTLD_NEXT, name);
    memcpy(ret_function, &found, sizeof(found));
}

/* Does the work of dlsym for handles other than RTLD_NEXT.  Only the assembly below calls this
 * function. */
void *preload_dlsym(void *handle, const char *name)
{
    int number = name ? rtc_function_number(name) : -1;
    void *real = preload_real_dlsym(handle, name);
    if (number < 0 || !real)
        return real;
    return rtc_wrapper_of(number, real);
}

/* Defines dlsym.  For RTLD_NEXT, libc's dlsym finds out from its return address which library has
 * called it.  So this function must jump to libc's function instead of calling it. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    cmpq $-1, %rdi\n"
        "    jne preload_dlsym\n"
        "    movq preload_next_dlsym(%rip), %rax\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    pushq %rdi\n"
        "    pushq %rsi\n"
        "    subq $8, %rsp\n"
        "    call preload_find_dlsym\n"
        "    addq $8, %rsp\n"
        "    popq %rsi\n"
        "    popq %rdi\n"
        "    movq preload_next_dlsym(%rip), %rax\n"
        "1:  jmp *%rax\n"
        ".size dlsym, . - dlsym\n");
#else
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    cmn x0, #1\n"
        "    b.ne preload_dlsym\n"
        "    adrp x16, preload_next_dlsym\n"
        "    ldr x16, [x16, #:lo12:preload_next_dlsym]\n"
        "    cbnz x16, 1f\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    bl preload_find_dlsym\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    adrp x16, preload_next_dlsym\n"
        "    ldr x16, [x16, #:lo12:preload_next_dlsym]\n"
        "1:  br x16\n"
        ".size dlsym, . - dlsym\n");
#endif

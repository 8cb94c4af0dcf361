/* SPDX-License-Identifier: MIT */

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

/* LeakSanitizer would print the suppressions that it used, but tests read the programs' output. */
const char *__lsan_default_options(void) { return "print_suppressions=0"; }

const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libnvrtc\n";
}

const char *__tsan_default_suppressions(void)
{
    return "race:libpocl\nrace:libLLVM\nrace:libclang\nmutex:libpocl\nmutex:libLLVM\n"
           "thread:libpocl\ndeadlock:libpocl\ndeadlock:libLLVM\nsignal:libpocl\n";
}

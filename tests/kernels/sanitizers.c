/* SPDX-License-Identifier: MIT */
/* What PoCL and the LLVM inside it do is not ours to mend; everything else is still watched. */

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\n";
}

const char *__tsan_default_suppressions(void)
{
    return "race:libpocl\nrace:libLLVM\nrace:libclang\nmutex:libpocl\nmutex:libLLVM\n"
           "thread:libpocl\ndeadlock:libpocl\ndeadlock:libLLVM\nsignal:libpocl\n";
}

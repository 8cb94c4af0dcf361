# SPDX-License-Identifier: MIT
"""Tests that docs/migrating-from-miopen.md mentions the names of MIOpen's variables and options.

These are the names on the pages of MIOpen 3.5.1 about environment variables, building and caches,
and the names in its source that determine which files MIOpen reads.
"""
import fnmatch
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/migrating-from-miopen.md"
NAME = re.compile(r"MIOPEN_[A-Z0-9_*]+")

FILES = """
USER_DB_PATH SYSTEM_DB_PATH CUSTOM_CACHE_DIR DISABLE_CACHE DEVICE_ARCH DEBUG_ENFORCE_DEVICE
DEBUG_DISABLE_FIND_DB DEBUG_DISABLE_SYSTEM_DB DEBUG_DISABLE_USER_DB DEBUG_DISABLE_SQL_WAL
"""
FIND = """
FIND_MODE FIND_ENFORCE SEARCH_CUTOFF NAIVE_TIMEOUT NAIVE_TIMEOUT_FACTOR NAIVE_MAX_DRAINING
DEBUG_FIND_ONLY_SOLVER DEBUG_CONV_FFT DEBUG_CONV_DIRECT DEBUG_CONV_GEMM DEBUG_CONV_WINOGRAD
DEBUG_CONV_IMPLICIT_GEMM DEBUG_CONV_IMMED_FALLBACK DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK
DEBUG_FORCE_IMMED_MODE_FALLBACK DEBUG_LGBM_ONLY
DEBUG_CONV_DIRECT_ASM_3X3U DEBUG_CONV_DIRECT_ASM_1X1U_PERF_VALS DEBUG_CONV_DIRECT_ASM_1X1U_AI_HEUR
DEBUG_CONV_DIRECT_OCL_FWDGEN DEBUG_CONV_DIRECT_NAIVE_CONV_FWD DEBUG_AMD_WINOGRAD_3X3
DEBUG_AMD_WINOGRAD_RXS_F2X3_PERF_VALS DEBUG_AMD_WINOGRAD_FURY_RXS_F2X3 DEBUG_AMD_FUSED_WINOGRAD
DEBUG_AMD_WINOGRAD_MPASS_F3X2 DEBUG_AMD_MP_BD_WINOGRAD_F2X3 DEBUG_AMD_MP_BD_XDLOPS_WINOGRAD_F2X3
DEBUG_CONV_IMPLICIT_GEMM_HIP_FWD_V4R1 DEBUG_CONV_IMPLICIT_GEMM_XDLOPS
DEBUG_IMPLICIT_GEMM_XDLOPS_INLINE_ASM DEBUG_3D_CONV_IMPLICIT_GEMM_HIP_FWD_XDLOPS
"""
COMPILING = """
COMPILE_PARALLEL_LEVEL DEBUG_COMPILE_ONLY DEBUG_HIP_KERNELS DEBUG_GCN_ASM_KERNELS
DEBUG_OPENCL_CONVOLUTIONS DEBUG_OPENCL_WAVE64_NOWGP DEBUG_OPENCL_ENFORCE_CODE_OBJECT_VERSION
DEBUG_AMD_ROCM_METADATA_ENFORCE DEBUG_AMD_ROCM_METADATA_PREFER_OLDER
"""
LOGGING_AND_CHECKS = """
ENABLE_LOGGING ENABLE_LOGGING_CMD LOG_LEVEL ENABLE_LOGGING_MPMT ENABLE_LOGGING_ELAPSED_TIME
CHECK_NUMERICS DEBUG_CHECK_SUB_BUFFER_OOB_MEMORY_ACCESS GEMM_ENFORCE_BACKEND
CONVOLUTION_ATTRIB_FP16_ALT_IMPL DEBUG_CONVOLUTION_ATTRIB_FP16_ALT_IMPL
DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED
DEBUG_CONVOLUTION_DETERMINISTIC RNN_DYNAMIC_FORCE RNNFWD_EXP RNNBWDMS_EXP RNN_MS_STREAM_CNT
DEBUG_CONV_CK_IGEMM_FWD_BIAS_ACTIV DEBUG_CONV_MLIR_IGEMM_BWD_XDLOPS DEBUG_ATTN_SOFTMAX
DRIVER_PAD_BUFFERS_2M DRIVER_USE_GPU_REFERENCE DRIVER_SUBNORM_PERCENTAGE
"""
OPTIONS = """
BACKEND CACHE_DIR ENABLE_SQLITE ENABLE_SQLITE_KERN_CACHE ENABLE_SQLITE_BACKOFF USE_SQLITE_PERFDB
EMBED_BUILD EMBED_DB DB_PATH EMBED_BINCACHE BINCACHE_PATH DISABLE_SYSDB DISABLE_USERDB
USE_HIP_KERNELS USE_COMGR USE_HIPRTC HIP_COMPILER ENABLE_AI_IMMED_MODE_FALLBACK
ENABLE_AI_KERNEL_TUNING BUILD_DRIVER USE_ROCBLAS USE_HIPBLASLT USE_COMPOSABLEKERNEL
"""
WANTED = [f"MIOPEN_{name}"
          for name in (FILES + FIND + COMPILING + LOGGING_AND_CHECKS + OPTIONS).split()]


def missing(text):
    """Returns the wanted names that the page does not mention. A name with * on the page, such as
    MIOPEN_DRIVER_*, stands for all names of that form."""
    said = {name for line in text.splitlines() if line.startswith("| ")
            for name in NAME.findall(line)}
    return [name for name in WANTED if not any(fnmatch.fnmatchcase(name, pattern)
                                               for pattern in said)]


def options_of_embedded_builds(cmake):
    """Returns the options and cache variables: option(NAME ... and set(NAME "" CACHE ..."""
    return {a or b for a, b in re.findall(r'^option\((KILN_\w+)|^set\((KILN_\w+) "" CACHE', cmake,
                                          re.M)}


class Migration(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / PAGE).read_text()

    def test_the_migration_page_has_each_renamed_name(self):
        self.assertEqual(missing(self.text), [], f"{PAGE} has no row for these")

    def test_a_name_missing_on_the_migration_page_is_reported(self):
        for name in ("MIOPEN_DEVICE_ARCH", "MIOPEN_EMBED_DB", "MIOPEN_DRIVER_*"):
            self.assertTrue(missing(self.text.replace(f"`{name}`", "")), name)

    def test_the_migration_page_has_each_option_of_an_embedded_build(self):
        options = options_of_embedded_builds((ROOT / "cmake/embedded.cmake").read_text())
        self.assertGreaterEqual(len(options), 8, options)
        self.assertEqual([o for o in sorted(options) if f"`{o}`" not in self.text], [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""libkiln's public headers for ctypes: structs, callbacks and functions, and nothing else.

Names, order and types are those of <kiln/*.h>.  With a compiler's help, tests/python/test_abi.py
compares each of them with the headers.
"""
import ctypes
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_size_t, c_uint,
                    c_uint32, c_uint64, c_void_p)
from typing import Any, List, Tuple

# ---- structs and callbacks ----


class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", c_char * 512), ("log", c_char * 4096)]


KernelReady = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p, POINTER(Error))
PlanReady = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p, POINTER(Error))


class ClientOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("socket_path", c_char_p), ("timeout_ms", c_int),
                ("name", c_char_p), ("cache_entries", c_int), ("fallback", c_char_p)]


class Status(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("level", c_int), ("socket_path", c_char * 256),
                ("daemon", c_char * 64), ("daemon_pid", c_int), ("role", c_int),
                ("reason", c_char * 512), ("requests", c_uint64), ("reconnects", c_uint64),
                ("cache_hits", c_uint64), ("cache_entries", c_uint64)]


class AdminCall(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("request", c_char_p), ("json", c_char_p),
                ("timeout_ms", c_int), ("files", POINTER(c_int)), ("file_count", c_size_t),
                ("progress", c_void_p), ("context", c_void_p), ("ret_files", POINTER(c_int)),
                ("ret_files_max", c_size_t), ("ret_file_count", POINTER(c_size_t))]


class Header(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("text_size", c_size_t)]


class KernelSource(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("toolchain", c_char_p),
                ("program", c_char_p), ("options", c_char_p), ("source", c_char_p),
                ("source_size", c_size_t), ("headers", POINTER(Header)),
                ("header_count", c_size_t), ("priority", c_int), ("timeout_ms", c_int)]


class KernelName(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("database_id", c_char_p), ("name", c_char_p),
                ("args", c_char_p), ("timeout_ms", c_int)]


class KernelBatch(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("keys", POINTER(c_char_p)),
                ("sources", POINTER(KernelSource)), ("count", c_size_t), ("ready", KernelReady),
                ("context", c_void_p), ("timeout_ms", c_int)]


class Problem(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("direction", c_uint32), ("spatial_dims", c_uint32),
                ("type", c_uint32), ("x_layout", c_uint32), ("w_layout", c_uint32),
                ("y_layout", c_uint32), ("n", c_uint32), ("c", c_uint32), ("k", c_uint32),
                ("groups", c_uint32), ("in", c_uint32 * 3), ("filter", c_uint32 * 3),
                ("pad", c_uint32 * 3), ("stride", c_uint32 * 3), ("dilation", c_uint32 * 3),
                ("allow_tf32", c_uint32)]


class DriverLine(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("problems", Problem * 3), ("count", c_uint),
                ("iterations", c_uint), ("verify", c_int), ("time", c_int), ("wall", c_int),
                ("search", c_int), ("transposed", c_int), ("solver", c_char * 64)]


class PlanOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("database_id", c_char_p),
                ("solver", c_char_p), ("toolchain", c_char_p), ("priority", c_int),
                ("no_objects", c_int), ("config", c_char_p), ("heuristic", c_int),
                ("driver", c_char_p), ("timeout_ms", c_int), ("nearest", c_int),
                ("generic", c_int), ("no_packages", c_int)]


class PlanBatch(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("problems", POINTER(Problem)), ("count", c_size_t),
                ("options", POINTER(PlanOptions)), ("ready", PlanReady), ("context", c_void_p)]


class PlanLaunch(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("kernel", c_char_p), ("object", c_uint),
                ("grid", c_uint32 * 3), ("group", c_uint32 * 3), ("shared_bytes", c_uint32)]


class Solution(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("solver", c_char_p), ("algorithm", c_char_p),
                ("is_favoured", c_int), ("find_ms", c_double), ("config", c_char_p),
                ("workspace", c_uint64), ("best_config", c_char_p), ("best_ms", c_double),
                ("best_workspace", c_uint64), ("candidates", c_uint32), ("valid", c_uint32),
                ("valid_is_an_estimate", c_int)]


class TuningOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("database_id", c_char_p), ("backend", c_char_p),
                ("driver", c_char_p), ("toolchain", c_char_p), ("nearest", c_int),
                ("measurements", c_int), ("timeout_ms", c_int)]


class TuningBatch(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("problems", POINTER(Problem)), ("count", c_size_t),
                ("options", POINTER(TuningOptions))]


class TunedEntry(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("solver", c_char_p), ("algorithm", c_char_p),
                ("params", c_char_p), ("time_ms", c_double), ("workspace", c_uint64),
                ("samples", c_uint32), ("median_ms", c_double), ("spread_ms", c_double),
                ("measured_at", c_uint64), ("uid", c_uint32), ("device_uuid", c_char_p),
                ("device", c_char_p), ("driver", c_char_p), ("toolchain", c_char_p),
                ("library", c_char_p), ("clock_mhz", c_uint32)]


class Measurement(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("solver", c_char_p), ("algorithm", c_char_p),
                ("params", c_char_p), ("workspace", c_uint64), ("samples", c_uint32),
                ("median_ms", c_double), ("spread_ms", c_double)]


class Recording(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("database_id", c_char_p), ("backend", c_char_p),
                ("tier", c_int), ("device_uuid", c_char_p), ("device", c_char_p),
                ("driver", c_char_p), ("toolchain", c_char_p), ("library", c_char_p),
                ("clock_mhz", c_uint32), ("measurements", POINTER(Measurement)),
                ("measurement_count", c_size_t), ("timeout_ms", c_int)]


class ConvOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", c_void_p), ("timeout_ms", c_int), ("x", c_void_p),
                ("w", c_void_p), ("y", c_void_p), ("stream", c_void_p), ("mode", c_int),
                ("enforce", c_int), ("budget_ms", c_int), ("solver", c_char_p),
                ("toolchain", c_char_p), ("no_record", c_int), ("tier", c_int),
                ("journal", c_char_p), ("reported", c_void_p), ("context", c_void_p),
                ("frozen", c_int)]


class ConvRefreshed(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("is_new", c_int), ("is_tuned", c_int)]


class NativeTensors(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("x", c_void_p), ("w", c_void_p), ("y", c_void_p),
                ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("stream", c_void_p)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("model", c_char_p), ("target", c_char_p),
                ("database_id", c_char_p), ("uuid", c_char_p), ("driver", c_char_p),
                ("pci", c_char_p), ("compute_units", c_uint), ("clock_mhz", c_uint),
                ("memory", c_uint64)]


DeviceFound = CFUNCTYPE(None, c_void_p, POINTER(DeviceInfo), POINTER(Error))

# ---- functions: name, result, parameters; an opaque handle is a c_void_p ----

_err = POINTER(Error)
_handle = c_void_p
_ret_handle = POINTER(c_void_p)
_plan_question = [POINTER(Problem), POINTER(PlanOptions)]
_tuning_question = [_handle, POINTER(Problem), POINTER(TuningOptions), _ret_handle, _err]
_tuning_questions = [_handle, POINTER(TuningBatch), _ret_handle, _err]
_tuning_put = [_handle, POINTER(Problem), POINTER(Recording), _err]

FUNCTIONS: List[Tuple[str, Any, List[Any]]] = [
    ("kiln_error_name", c_char_p, [c_int]),
    ("kiln_error_text", c_char_p, [c_int]),
    ("kiln_error_is_retryable", c_int, [c_int]),
    ("kiln_version", c_char_p, []),
    ("kiln_client_open", c_int, [POINTER(ClientOptions), _ret_handle, _err]),
    ("kiln_client_close", None, [_handle]),
    ("kiln_client_ping", c_int, [_handle, c_int, POINTER(c_uint64), _err]),
    ("kiln_client_status", c_int, [_handle, POINTER(Status), _err]),
    ("kiln_admin", c_int, [_handle, POINTER(AdminCall), POINTER(c_char_p), _err]),
    ("kiln_free", None, [c_void_p]),
    ("kiln_kernel_fetch", c_int, [_handle, c_char_p, c_int, _ret_handle, _err]),
    ("kiln_kernel_fetch_source", c_int, [_handle, POINTER(KernelSource), _ret_handle, _err]),
    ("kiln_kernel_fetch_named", c_int, [_handle, POINTER(KernelName), _ret_handle, _err]),
    ("kiln_kernel_fetch_batch", c_int, [_handle, POINTER(KernelBatch), _err]),
    ("kiln_kernel_ref", _handle, [_handle]),
    ("kiln_kernel_unref", None, [_handle]),
    ("kiln_kernel_data", c_void_p, [_handle]),
    ("kiln_kernel_size", c_size_t, [_handle]),
    ("kiln_kernel_key", c_char_p, [_handle]),
    ("kiln_kernel_tier", c_int, [_handle]),
    ("kiln_kernel_compile_ns", c_uint64, [_handle]),
    ("kiln_driver_line_parse", c_int, [c_char_p, POINTER(DriverLine), _err]),
    ("kiln_driver_words_parse", c_int,
     [POINTER(c_char_p), c_size_t, POINTER(DriverLine), _err]),
    ("kiln_problem_to_driver", c_int, [POINTER(Problem), c_char_p, c_size_t, _err]),
    ("kiln_problem_check", c_int, [POINTER(Problem), _err]),
    ("kiln_problem_output", c_int, [POINTER(Problem), POINTER(c_uint32), _err]),
    ("kiln_problem_tensor", c_int,
     [POINTER(Problem), c_int, POINTER(c_uint64), POINTER(c_uint64), _err]),
    ("kiln_plan_get", c_int, [_handle, *_plan_question, _ret_handle, _err]),
    ("kiln_plan_batch", c_int, [_handle, POINTER(PlanBatch), _err]),
    ("kiln_plan_ref", _handle, [_handle]),
    ("kiln_plan_unref", None, [_handle]),
    ("kiln_plan_solver", c_char_p, [_handle]),
    ("kiln_plan_config", c_char_p, [_handle]),
    ("kiln_plan_source", c_int, [_handle]),
    ("kiln_plan_expected_ms", c_double, [_handle]),
    ("kiln_plan_toolchain", c_char_p, [_handle]),
    ("kiln_plan_toolchain_identity", c_char_p, [_handle]),
    ("kiln_plan_workspace", c_uint64, [_handle]),
    ("kiln_plan_ns", c_uint64, [_handle]),
    ("kiln_plan_object_count", c_uint, [_handle]),
    ("kiln_plan_object", _handle, [_handle, c_uint]),
    ("kiln_plan_object_key", c_char_p, [_handle, c_uint]),
    ("kiln_plan_object_tier", c_int, [_handle, c_uint]),
    ("kiln_plan_object_size", c_uint64, [_handle, c_uint]),
    ("kiln_plan_object_compile_ns", c_uint64, [_handle, c_uint]),
    ("kiln_plan_launch_count", c_uint, [_handle]),
    ("kiln_plan_launch", c_int, [_handle, c_uint, POINTER(PlanLaunch), _err]),
    ("kiln_solutions_get", c_int, [_handle, *_plan_question, _ret_handle, _err]),
    ("kiln_solutions_free", None, [_handle]),
    ("kiln_solutions_count", c_uint, [_handle]),
    ("kiln_solutions_at", c_int, [_handle, c_uint, POINTER(Solution), _err]),
    ("kiln_find_get", c_int, _tuning_question),
    ("kiln_perf_get", c_int, _tuning_question),
    ("kiln_find_get_batch", c_int, _tuning_questions),
    ("kiln_perf_get_batch", c_int, _tuning_questions),
    ("kiln_tuned_free", None, [_handle]),
    ("kiln_tuned_tier", c_int, [_handle]),
    ("kiln_tuned_key", c_char_p, [_handle]),
    ("kiln_tuned_text", c_char_p, [_handle]),
    ("kiln_tuned_is_stale", c_int, [_handle]),
    ("kiln_tuned_is_near", c_int, [_handle]),
    ("kiln_tuned_distance", None, [_handle, POINTER(c_double), POINTER(c_double)]),
    ("kiln_tuned_count", c_uint, [_handle]),
    ("kiln_tuned_entry", c_int, [_handle, c_uint, POINTER(TunedEntry), _err]),
    ("kiln_find_put", c_int, _tuning_put),
    ("kiln_perf_put", c_int, _tuning_put),
    ("kiln_conv_find", c_int,
     [_handle, POINTER(Problem), POINTER(ConvOptions), _ret_handle, _err]),
    ("kiln_conv_generation", c_uint64, [_handle]),
    ("kiln_conv_plan_refresh", c_int, [_handle, _handle, POINTER(ConvRefreshed), _err]),
    ("kiln_conv_result_free", None, [_handle]),
    ("kiln_conv_result_generation", c_uint64, [_handle]),
    ("kiln_conv_result_plan", _handle, [_handle]),
    ("kiln_device_list", c_int, [DeviceFound, c_void_p, _err]),
    ("kiln_device_open", c_int, [c_char_p, _ret_handle, _err]),
    ("kiln_device_close", None, [_handle]),
    ("kiln_device_target", c_char_p, [_handle]),
    ("kiln_device_database_id", c_char_p, [_handle]),
    ("kiln_device_driver", c_char_p, [_handle]),
    ("kiln_run_create", c_int, [_handle, _handle, _ret_handle, _err]),
    ("kiln_run_destroy", None, [_handle]),
    ("kiln_run_launch_native", c_int, [_handle, POINTER(NativeTensors), _err]),
]

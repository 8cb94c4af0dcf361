# SPDX-License-Identifier: MIT
"""Tuning databases: what was measured for a problem, and how to record more."""
import ctypes
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from . import _abi
from ._call import Handle, call, to_bytes, to_milliseconds, to_text, to_uint32, to_uint64
from ._library import library
from .enums import TuningTier


@dataclass(frozen=True)
class TunedEntry:
    """One solver in a record. The members from |samples| on are set only with measurements=True."""

    solver: str
    algorithm: str  #: only for find
    params: str  #: only for perf
    time_ms: float  #: for find, the recorded time; for perf, the measured median, 0 if not known
    workspace: int  #: only for find: bytes of workspace
    samples: int  #: number of samples; 0 if not known
    median_ms: float
    spread_ms: float  #: half the interquartile range
    measured_at: int  #: seconds since the epoch
    uid: int  #: the user who measured it
    device_uuid: str
    device: str
    driver: str
    toolchain: str
    library: str
    clock_mhz: int


@dataclass(frozen=True)
class Tuned:
    """The record of one problem; a plain value."""

    tier: TuningTier
    key: str  #: MIOpen's key of the record
    text: str  #: the record verbatim
    is_stale: bool  #: whether the record was measured with another driver or toolchain
    is_near: bool  #: whether the record is that of a similar problem
    batch_distance: float  #: the larger batch size divided by the smaller one
    spatial_distance: float  #: the larger input area (or volume) divided by the smaller one
    entries: Tuple[TunedEntry, ...]


@dataclass(frozen=True)
class Measurement:
    """A measurement of one solver, to be recorded."""

    solver: str
    median_ms: float
    spread_ms: float = 0.0  #: half the interquartile range; must not be 0 for several samples
    samples: int = 1
    algorithm: Optional[str] = None  #: for find, such as "miopenConvolutionFwdAlgoWinograd"
    params: Optional[str] = None  #: for perf: separated by commas, in MIOpen's form
    workspace: int = 0  #: only for find: bytes of workspace


@dataclass(frozen=True)
class Recording:
    """Measurements, with the device and the software that made them."""

    database_id: str  #: such as "gfx90a68" or "sm_90_132"
    measurements: Sequence[Measurement]  #: at most 256
    #: for find: "HIP", "CUDA", "OpenCL"; None: the backend of |database_id|
    backend: Optional[str] = None
    tier: TuningTier = TuningTier.USER  #: only members of group kiln-publish may use HOST
    device_uuid: Optional[str] = None
    device: Optional[str] = None
    driver: Optional[str] = None
    toolchain: Optional[str] = None
    library: Optional[str] = None  #: None: libkiln and its version
    clock_mhz: int = 0  #: 0: not known


def to_options(database_id: str, *, backend: Optional[str], driver: Optional[str],
               toolchain: Optional[str], nearest: bool, measurements: bool,
               timeout: Optional[float]) -> _abi.TuningOptions:
    return _abi.TuningOptions(
        size=ctypes.sizeof(_abi.TuningOptions), database_id=to_bytes(database_id, "database_id"),
        backend=to_bytes(backend, "backend"), driver=to_bytes(driver, "driver"),
        toolchain=to_bytes(toolchain, "toolchain"), nearest=int(nearest),
        measurements=int(measurements), timeout_ms=to_milliseconds(timeout))


def _measurements(measurements: Sequence[Measurement]) -> "ctypes.Array[_abi.Measurement]":
    made = (_abi.Measurement * len(measurements))()
    for place, m in zip(made, measurements):
        place.size = ctypes.sizeof(_abi.Measurement)
        place.solver = to_bytes(m.solver, "solver")
        place.algorithm = to_bytes(m.algorithm, "algorithm")
        place.params = to_bytes(m.params, "params")
        place.workspace = to_uint64(m.workspace, "workspace")
        place.samples = to_uint32(m.samples, "samples")
        place.median_ms, place.spread_ms = m.median_ms, m.spread_ms
    return made


def to_recording(r: Recording, timeout: Optional[float]) -> _abi.Recording:
    """Returns the C struct. The struct keeps the objects to which it points."""
    return _abi.Recording(
        size=ctypes.sizeof(_abi.Recording), database_id=to_bytes(r.database_id, "database_id"),
        backend=to_bytes(r.backend, "backend"), tier=TuningTier(r.tier),
        device_uuid=to_bytes(r.device_uuid, "device_uuid"), device=to_bytes(r.device, "device"),
        driver=to_bytes(r.driver, "driver"), toolchain=to_bytes(r.toolchain, "toolchain"),
        library=to_bytes(r.library, "library"), clock_mhz=to_uint32(r.clock_mhz, "clock_mhz"),
        measurements=_measurements(r.measurements), measurement_count=len(r.measurements),
        timeout_ms=to_milliseconds(timeout))


def _entry(tuned: int, index: int) -> TunedEntry:
    e = _abi.TunedEntry(size=ctypes.sizeof(_abi.TunedEntry))
    call("kiln_tuned_entry", tuned, index, ctypes.byref(e))
    return TunedEntry(solver=to_text(e.solver), algorithm=to_text(e.algorithm),
                      params=to_text(e.params), time_ms=e.time_ms, workspace=e.workspace,
                      samples=e.samples, median_ms=e.median_ms, spread_ms=e.spread_ms,
                      measured_at=e.measured_at, uid=e.uid, device_uuid=to_text(e.device_uuid),
                      device=to_text(e.device), driver=to_text(e.driver),
                      toolchain=to_text(e.toolchain), library=to_text(e.library),
                      clock_mhz=e.clock_mhz)


def from_handle(handle: Handle) -> Tuned:
    lib, tuned = library(), handle.pointer
    batch, spatial = ctypes.c_double(), ctypes.c_double()
    lib.kiln_tuned_distance(tuned, ctypes.byref(batch), ctypes.byref(spatial))
    return Tuned(tier=TuningTier(lib.kiln_tuned_tier(tuned)),
                 key=to_text(lib.kiln_tuned_key(tuned)),
                 text=to_text(lib.kiln_tuned_text(tuned)),
                 is_stale=bool(lib.kiln_tuned_is_stale(tuned)),
                 is_near=bool(lib.kiln_tuned_is_near(tuned)), batch_distance=batch.value,
                 spatial_distance=spatial.value,
                 entries=tuple(_entry(tuned, i) for i in range(lib.kiln_tuned_count(tuned))))


def from_array(pointers: Sequence[Optional[int]]) -> List[Optional[Tuned]]:
    """Copies records. Wraps all pointers before reading the first record, so that no pointer leaks
    if reading fails."""
    handles = [Handle("kiln_tuned_free", pointer) if pointer else None for pointer in pointers]
    return [from_handle(handle) if handle else None for handle in handles]

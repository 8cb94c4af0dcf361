# SPDX-License-Identifier: MIT
"""The devices that this process can use, for plans and tuning look-ups."""
import ctypes
from dataclasses import dataclass
from typing import Any, List, Optional

from . import _abi
from ._callback import Callback
from ._call import call, to_error, to_text
from .errors import KilnError


@dataclass(frozen=True)
class DeviceInfo:
    """What is known about a device without opening it; "" or 0 if not known."""

    name: str  #: such as "hip:0", or "hip" if there is no device of this kind
    model: str
    target: str  #: for plans and kernels
    database_id: str  #: for tuning records and packages
    uuid: str
    driver: str
    pci: str
    compute_units: int
    clock_mhz: int
    memory: int  #: bytes
    why_not: Optional[KilnError]  #: why the device cannot be opened; None if it can be


def devices() -> List[DeviceInfo]:
    """Returns every device of this host, then every kind that has no device, with the reason."""
    found: List[DeviceInfo] = []

    def on_device(info: Any, why_not: Any) -> None:
        d = info.contents
        found.append(DeviceInfo(
            name=to_text(d.name), model=to_text(d.model), target=to_text(d.target),
            database_id=to_text(d.database_id), uuid=to_text(d.uuid), driver=to_text(d.driver),
            pci=to_text(d.pci), compute_units=d.compute_units, clock_mhz=d.clock_mhz,
            memory=d.memory, why_not=to_error(why_not.contents) if why_not else None))

    Callback(on_device).run(call, _abi.DeviceFound, "kiln_device_list")
    return found

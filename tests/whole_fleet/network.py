# SPDX-License-Identifier: MIT
"""A network of hosts on this machine, whose packets a process delays or drops.

Each host has a network namespace with a TUN device.  The process reads the packets of all devices,
and writes each to the device of its receiver after half a round trip.  So connections need round
trips as between real hosts, also where the kernel has no netem.  Needs root and a network namespace
of its own (run.py).
"""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import mmap
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from typing import Iterator

STORE = "10.77.0.1"
PREFIX = 16
HOSTS_MAX = 250

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_MAX = 65536
COMMAND_MAX_S = 60
OPEN, CUT = 0, 1

_libc = ctypes.CDLL(None, use_errno=True)


def address_of(host: int) -> str:
    return f"10.77.1.{host + 1}"


def _call(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _add_device(address: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"fleet0", IFF_TUN | IFF_NO_PI))
    for command in (f"link set lo up", f"address add {address}/{PREFIX} dev fleet0",
                    "link set fleet0 up"):
        subprocess.run(["ip", *command.split()], timeout=COMMAND_MAX_S, check=True)
    return device


class Network:
    """A round trip between a host and the store takes |round_trip_s| longer than on loopback."""

    def __init__(self, hosts: int, round_trip_s: float) -> None:
        self.hosts = hosts
        self._own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._devices = {STORE: _add_device(STORE)}
        self._namespaces: list[int] = []
        self._cut = mmap.mmap(-1, HOSTS_MAX)
        for host in range(hosts):
            self._add_host(host)
        self._router = os.fork()
        if self._router == 0:
            self._route(round_trip_s / 2)

    def _add_host(self, host: int) -> None:
        _call(_libc.unshare(CLONE_NEWNET))
        try:
            self._namespaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
            self._devices[address_of(host)] = _add_device(address_of(host))
        finally:
            _call(_libc.setns(self._own, CLONE_NEWNET))

    @contextlib.contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """Makes processes that are started within this context run on the host."""
        _call(_libc.setns(self._namespaces[host], CLONE_NEWNET))
        try:
            yield
        finally:
            _call(_libc.setns(self._own, CLONE_NEWNET))

    def cut(self, host: int) -> None:
        """Drops all packets of the host, including those that are still delayed."""
        self._cut[host] = CUT

    def mend(self, host: int) -> None:
        self._cut[host] = OPEN

    def close(self) -> None:
        os.kill(self._router, signal.SIGKILL)
        os.waitpid(self._router, 0)
        for fd in [*self._devices.values(), *self._namespaces, self._own]:
            os.close(fd)

    def _is_cut(self, packet: bytes) -> bool:
        source, target = packet[12:16], packet[16:20]
        host = (target if target[2] == 1 else source)[3] - 1
        return self._cut[host] == CUT

    def _route(self, delay_s: float) -> None:
        """Forwards packets. It runs in a process with real-time priority, so that the processes
        of the hosts do not delay it."""
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        targets = {socket.inet_aton(address): fd for address, fd in self._devices.items()}
        # Each entry is the time to forward a packet, the packet's number, and the packet. By their
        # numbers, packets with the same time stay in order.
        waiting: list[tuple[float, int, bytes]] = []
        with selectors.DefaultSelector() as selector:
            for fd in targets.values():
                selector.register(fd, selectors.EVENT_READ)
            for number in range(1 << 62):
                pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
                for key, _ in selector.select(pause):
                    packet = os.read(key.fd, PACKET_MAX)
                    heapq.heappush(waiting, (time.monotonic() + delay_s, number, packet))
                self._deliver(waiting, targets)

    def _deliver(self, waiting: list[tuple[float, int, bytes]], targets: dict[bytes, int]) -> None:
        while waiting and waiting[0][0] <= time.monotonic():
            packet = heapq.heappop(waiting)[2]
            target = targets.get(packet[16:20])
            if packet[0] >> 4 == 4 and target is not None and not self._is_cut(packet):
                with contextlib.suppress(OSError):
                    os.write(target, packet)

# SPDX-License-Identifier: MIT
"""Runs a fleet of kilnds on this machine, with object stores and web servers of Debian.

Usage: scripts/test-fleet [OPTION]...
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Callable, NamedTuple, NoReturn

import hosts
import network
import reading
import scene as scenes
import stores
import writing

EVERY = reading.FIGURES + reading.SCENARIOS + writing.LOCAL + writing.FIGURES + writing.SCENARIOS
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED, FAILED = 77, 1
RUN_MAX_S = 4 * 3600
INSIDE = "KILN_FLEET_INSIDE"  # the directory, for the program in the namespaces

ABOUT = """\
Each host has a kilnd and a network namespace of its own. Packets between a host and the store need
15 ms in each direction. An nginx in front of each store logs the requests. The stores are:

  nginx    serves a directory, for reading only
  ceph     Ceph's radosgw, with a monitor and an OSD that has its objects in memory
  swift    Swift with its S3 interface
  s3rver   npm's s3rver, if it is in PATH

Needs root, because of the namespaces, and /dev/net/tun. All processes that this command starts end
with it. Figures are meaningful only on an otherwise idle machine.

Exit status: 0: all promises hold; 1: one is broken; 2: invalid command line; 77: skipped."""


class Outcome(NamedTuple):
    store: str
    name: str
    about: str
    seconds: float
    text: str
    is_good: bool


def parse(argv: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="scripts/test-fleet", description=ABOUT,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, metavar="DIR", default=ROOT / "build/release",
                   help="directory of a finished build (default: build/release)")
    p.add_argument("--store", action="append", choices=["nginx", *stores.STORES], metavar="NAME",
                   help="only scenarios with this store; may be given several times")
    p.add_argument("--only", action="append", metavar="NAME",
                   help="only this scenario; may be given several times")
    p.add_argument("--hosts", type=int, default=32, metavar="N",
                   help="hosts that start at the same time (default: 32)")
    p.add_argument("--busy", action="store_true",
                   help="do not check limits of time, because this machine has other work")
    p.add_argument("--keep", action="store_true", help="keep the directory with all logs")
    p.add_argument("--list", action="store_true", help="list the scenarios and end")
    return p.parse_args(argv)


def first_line(function: Callable[..., str]) -> str:
    return (function.__doc__ or "").strip()


class Stages:
    """Scenarios that measure use all kernels of a neural network; the other scenarios need
    fewer."""

    def __init__(self, given: argparse.Namespace, directory: pathlib.Path, wires: network.Network
                 ) -> None:
        self.directory = directory
        programs = given.build.resolve() / "bin"
        networks = ROOT / "scripts/networks"
        few, whole = networks / "smoke.txt", networks / "resnet50.txt"
        self.others = self._open("few", hosts.Build(programs, few), wires)
        wanted = [one.__name__ for one in reading.FIGURES + writing.FIGURES]
        needs_figures = not given.only or set(given.only) & set(wanted)
        self.figures = self._open("whole", hosts.Build(programs, whole), wires) \
            if needs_figures else self.others

    def _open(self, name: str, build: hosts.Build, wires: network.Network) -> writing.Stage:
        directory = self.directory / name
        directory.mkdir(mode=0o711)
        stage = writing.Stage(build, directory, wires)
        print(f"{build.problems.stem}: one host compiles {stage.cold.kernels} kernels in "
              f"{stage.cold.seconds:.1f} s", flush=True)
        return stage


class Run:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.outcomes: list[Outcome] = []
        self.absent: list[str] = []

    def wants(self, function: Callable[..., str]) -> bool:
        return not self.given.only or function.__name__ in self.given.only

    def one(self, store: str, function: Callable[..., str], scene: scenes.Scene) -> None:
        begin = time.monotonic()
        try:
            text, is_good = function(scene), True
        except Exception as error:  # pylint: disable=broad-except  # the next scenario still runs
            if not isinstance(error, scenes.Broken):
                traceback.print_exc()
            text, is_good = f"BROKEN: {error}", False
        finally:
            scene.end()
        outcome = Outcome(store, function.__name__, first_line(function),
                          time.monotonic() - begin, text, is_good)
        self.outcomes.append(outcome)
        print(f"{store:6} {outcome.name:25} {outcome.seconds:6.1f} s  {text}", flush=True)

    def with_store(self, kind: type[stores.Store], stages: Stages) -> None:
        """Runs the scenarios that need an object store."""
        begin = time.monotonic()
        store = kind(stages.directory / kind.name)
        try:
            store.start()
            print(f"{kind.name}: started in {time.monotonic() - begin:.1f} s", flush=True)
            with stages.figures.front(None) as front:
                for functions, stage in ((writing.FIGURES, stages.figures),
                                         (writing.SCENARIOS, stages.others)):
                    stage.store, stage.front_of_store = store, front
                    for function in filter(self.wants, functions):
                        stage.clear()
                        front.forget()
                        self.one(kind.name, function, stage)
        except stores.Missing as missing:
            self.absent.append(kind.name)
            print(f"{kind.name}: skipped: {missing}")
        finally:
            store.close()

    def all(self, directory: pathlib.Path) -> None:
        chosen = self.given.store or ["nginx", *stores.STORES]
        wires = network.Network(self.given.hosts, scenes.ROUND_TRIP_S)
        try:
            stages = Stages(self.given, directory, wires)
            if "nginx" in chosen:
                for function in filter(self.wants, reading.FIGURES):
                    self.one("nginx", function, stages.figures)
                for function in filter(self.wants, reading.SCENARIOS + writing.LOCAL):
                    self.one("nginx", function, stages.others)
            for name in filter(chosen.__contains__, stores.STORES):
                self.with_store(stores.STORES[name], stages)
        finally:
            wires.close()

    def status(self) -> int:
        bad = [one for one in self.outcomes if not one.is_good]
        print(f"{len(self.outcomes) - len(bad)} passed, {len(bad)} failed, "
              f"{len(self.absent)} skipped")
        return FAILED if bad or not self.outcomes else 0


def run_inside(argv: list[str], directory: pathlib.Path) -> int:
    """Runs this program again in its own namespaces of networks, processes and mounts. All its
    processes end with it."""
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
               sys.executable, "-B", __file__, *argv]
    with subprocess.Popen(command, env={**os.environ, INSIDE: str(directory)}) as inside:
        try:
            return inside.wait(RUN_MAX_S)
        finally:
            inside.kill()


def end(_signal: int, _frame: object) -> NoReturn:
    sys.exit(FAILED)


def main(argv: list[str]) -> int:
    given = parse(argv)
    if given.list:
        for function in EVERY:
            print(f"{function.__name__:25} {first_line(function)}")
        return 0
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        print("test-fleet: skipped: root and /dev/net/tun are needed for hosts of their own",
              file=sys.stderr)
        return SKIPPED
    if INSIDE in os.environ:
        scenes.BUSY = given.busy
        hosts.prefer(os.getpid(), hosts.MOST_PREFERRED)
        run = Run(given)
        run.all(pathlib.Path(os.environ[INSIDE]))
        return run.status()
    signal.signal(signal.SIGTERM, end)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-fleet-"))
    directory.chmod(0o711)
    try:
        return run_inside(argv, directory)
    finally:
        if given.keep:
            print(f"logs are in {directory}")
        else:
            shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: MIT
"""What the scenarios share: a host that compiled all kernels, a tree with them, and checks."""
from __future__ import annotations

import contextlib
import itertools
import pathlib
import shutil
import threading
from typing import Any, Callable, Iterator, NamedTuple, TypeVar

import hosts
import network
import stores

ROUND_TRIP_S = 0.030
BUILDER, INDEX, LIAR = "builder", "index", "liar"
PREFIX = f"{stores.BUCKET}/tree"  # prefix of the tree's names in an object store

BUSY = False  # whether something else runs on this machine, so that limits of time are not checked

T = TypeVar("T")


class Broken(Exception):
    """A promise does not hold."""


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def expect_at_most(what: str, value: float, limit: float) -> None:
    expect(value <= limit, f"{what}: {value:.6g}, but at most {limit:.6g} wanted")


def expect_quick(what: str, seconds: float, limit: float) -> None:
    """Checks the limit, unless the machine is busy."""
    if not BUSY:
        expect_at_most(f"seconds {what}", seconds, limit)


def expect_equal(what: str, value: object, wanted: object) -> None:
    expect(value == wanted, f"{what}: {value!r} instead of {wanted!r}")


class Cold(NamedTuple):
    """What one host compiles alone, with an empty cache and without a fleet."""
    seconds: float
    kernels: int
    objects: dict[str, str]


def at_once(function: Callable[[Any], T], items: list[Any]) -> list[T]:
    """Calls the function for all items at the same time, and returns the results in order."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def one(number: int, item: Any) -> None:
        try:
            results[number] = function(item)
        except BaseException as error:  # pylint: disable=broad-except  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(items)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(hosts.COMMAND_MAX_S)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(items))]


class Scene:
    """Directories, keys, and a tree that one builder filled. Each scenario gets new hosts."""

    def __init__(self, build: hosts.Build, directory: pathlib.Path, wires: network.Network) -> None:
        self.build, self.directory, self.wires = build, directory, wires
        self.tree, self.keys = directory / "tree", directory / "keys"
        self._numbers = itertools.count()
        self._open: list[hosts.Host] = []
        self.tree.mkdir()
        self.builder = hosts.Host(build, directory / "builder")
        self.cold = self._fill()

    def _fill(self) -> Cold:
        host = self.builder
        host.start()
        for name in (BUILDER, INDEX, LIAR):
            host.kilnctl("pkg", "keygen", name, "--directory", str(self.directory))
        self.trust(self.keys, BUILDER, "--targets", "gfx90a")
        self.trust(self.keys, INDEX, "--index")
        seconds = host.prefetch().seconds
        objects = host.objects()
        expect(len(objects) > 0, "the builder stored no kernel")
        self.push(self.tree)
        self.compact(self.tree)
        return Cold(seconds, host.compiled(), objects)

    def secret(self, name: str) -> str:
        return str(self.directory / f"{name}.key")

    def trust(self, keys: pathlib.Path, name: str, *rights: str) -> None:
        keys.mkdir(exist_ok=True)
        self.builder.kilnctl("fleet", "trust", str(self.directory / f"{name}.pub"), *rights,
                             "--directory", str(keys))

    def push(self, tree: pathlib.Path, key: str = BUILDER) -> None:
        self.builder.kilnctl("fleet", "push", "--key", self.secret(key), str(tree))

    def compact(self, tree: pathlib.Path | str, key: str = INDEX,
                keys: pathlib.Path | None = None, user: stores.User | None = None
                ) -> dict[str, int]:
        answer: dict[str, int] = self.builder.kilnctl(
            "fleet", "compact", "--key", self.secret(key), "--trust", str(keys or self.keys),
            "--json", str(tree), user=user).json()
        return answer

    def problems(self, count: int, kind: int = 0) -> pathlib.Path:
        """Writes a file with |count| small problems. Problems of another |kind| have other
        kernels."""
        path = self.directory / f"problems{next(self._numbers)}"
        path.write_text("".join(
            f"conv -n 1 -c 8 -H {8 + i} -W {9 + kind} -k 16 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 "
            "-j 1 -m conv -g 1 -F 1 -t 1\n" for i in range(count)), encoding="ascii")
        return path

    def copy_tree(self) -> pathlib.Path:
        copy = self.directory / f"tree{next(self._numbers)}"
        shutil.copytree(self.tree, copy)
        return copy

    def copy_keys(self) -> pathlib.Path:
        copy = self.directory / f"keys{next(self._numbers)}"
        shutil.copytree(self.keys, copy)
        return copy

    def host(self, place: int | None = 0) -> hosts.Host:
        """Makes a host of the network; or one next to the store, if |place| is None."""
        made = hosts.Host(self.build, self.directory / f"host{next(self._numbers)}",
                          None if place is None else (self.wires, place))
        self._open.append(made)
        return made

    # For many hosts on a machine with few processors: an answer that one host would get within
    # 300 ms takes as many times longer as there are hosts.
    PATIENT = ("--fleet-wait", "30s", "--workers", "1")

    def settings(self, url: str, *, writes: bool = False, keys: pathlib.Path | None = None
                 ) -> list[str]:
        made = ["--fleet", url, "--fleet-keys", str(keys or self.keys)]
        return made + ["--fleet-builder", self.secret(BUILDER)] if writes else made

    def reader(self, url: str, place: int | None = 0, keys: pathlib.Path | None = None,
               user: stores.User | None = None) -> hosts.Host:
        host = self.host(place)
        host.start("--workers", "1", *self.settings(url, keys=keys), user=user)
        return host

    @contextlib.contextmanager
    def front(self, root: pathlib.Path | None, rules: str = "") -> Iterator[stores.Front]:
        """Runs nginx, which serves the tree |root|, or is in front of the object store."""
        front = stores.Front(self.directory / f"front{next(self._numbers)}", root)
        front.start(rules)
        try:
            yield front
        finally:
            front.stop()

    def end(self) -> None:
        """Ends the hosts of a scenario."""
        for host in self._open:
            host.kill()
            if host.place:
                self.wires.mend(host.place[1])
        self._open.clear()

    def expect_all_from_fleet(self, host: hosts.Host) -> None:
        expect_equal(f"kernels that {host.name} compiled", host.compiled(), 0)
        self.expect_right_objects(host)

    def expect_right_objects(self, host: hosts.Host) -> None:
        """Checks that the host has all kernels, and the same objects as the builder."""
        found = host.objects()
        wrong = [key for key, value in self.cold.objects.items() if found.get(key) != value]
        expect_equal(f"kernels that {host.name} lacks, or has with another object", wrong, [])

    def expect_all_compiled(self, host: hosts.Host) -> None:
        expect_equal(f"kernels that {host.name} took from the fleet", host.from_fleet(), 0)
        expect_equal(f"kernels that {host.name} compiled", host.compiled(), self.cold.kernels)
        self.expect_right_objects(host)

# SPDX-License-Identifier: MIT
"""Attacks on data that others trust or see."""
from __future__ import annotations

import bz2
import hashlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
from typing import ClassVar

import host as hosts
import material
import wire
from attack import Attack, Skipped, Stage, Trust

DEVICE = material.DEVICE
PACKAGE = f"{DEVICE}.kdb.bz2"
OBJECT_SIZE = 20000


# ---- packages ----

class Vendor:
    """A signer whom the host trusts, with packages of one kernel each."""

    def __init__(self, host: hosts.Host, keys: pathlib.Path) -> None:
        self.host, self.keys = host, keys
        self._run("pkg", "keygen", "--directory", str(keys), "vendor")

    def _run(self, *words: str) -> None:
        status, output = self.host.kilnctl(*words)
        if status:
            raise RuntimeError(f"kilnctl {' '.join(words)}: {output.decode()}")

    def database(self, name: str, content: bytes) -> bytes:
        path = self.host.directory / "files" / name
        material.write_cache(path, [material.plain_row("packaged.o", content)])
        return path.read_bytes()

    def sign(self, directory: str, content: bytes) -> pathlib.Path:
        """Makes a signed package in a directory of its own."""
        place = self.host.directory / "files" / directory
        place.mkdir()
        path = place / PACKAGE
        path.write_bytes(bz2.compress(self.database(f"{directory}.kdb", content)))
        self._run("pkg", "sign", "--key", str(self.keys / "vendor.key"), str(path))
        return path

    def served(self) -> bytes:
        """Returns the SHA-256 of the object that the victim gets."""
        return self.host.as_user(hosts.VICTIM,
                                 lambda c: c.fetch_name(DEVICE, "packaged.o", "")).object


class PackageAttack(Trust):
    settings = {"require-signature": "yes"}

    def stage_of(self, stage: Stage, transfer: pathlib.Path | None) -> Stage:
        """Starts a further kilnd, which trusts the vendor and uses the given kiln-transfer."""
        other = Stage(stage.options, {**self.settings, "package-limit": "64MiB"})
        keys = other.host.directory / "keys"
        keys.mkdir()
        other.host.settings["trusted-keys"] = str(keys)
        if transfer:
            other.host.settings["transfer"] = str(transfer)
        other.start()
        return other


class Decompressor(PackageAttack):
    """Takes control of kiln-transfer's decompressor while a signed package is installed."""
    name, finding = "decompressor", "H5"

    def judge(self, stage: Stage) -> list[str]:
        library = stage.options.helpers / "libattack_taken_over.so"
        if not library.exists():
            raise Skipped(f"'{library}' was not built")
        if not self._install(stage, None)[0]:
            raise RuntimeError("a genuine package was refused")
        wrapper = stage.host.directory / "files" / "transfer"
        forged = stage.host.directory / "files" / "forged"
        wrapper.write_text(f"#!/bin/sh\nATTACK_FORGED='{forged}' LD_PRELOAD='{library}' "
                           f"exec '{stage.options.programs / 'kiln-transfer'}' \"$@\"\n", "utf-8")
        wrapper.chmod(0o755)
        _, is_forged = self._install(stage, wrapper)
        return ["an object that nobody signed was served with require_signature"] \
            if is_forged else []

    def _install(self, stage: Stage, transfer: pathlib.Path | None) -> tuple[bool, bool]:
        """Returns whether the package was installed, and whether its object is the forged one."""
        other = self.stage_of(stage, transfer)
        genuine, false = os.urandom(OBJECT_SIZE), os.urandom(OBJECT_SIZE)
        try:
            vendor = Vendor(other.host, other.host.directory / "keys")
            stage.host.file("forged", vendor.database("false.kdb", false))
            status, _ = other.host.kilnctl("pkg", "install", str(vendor.sign("new", genuine)))
            return status == 0, vendor.served() == hashlib.sha256(false).digest()
        finally:
            other.host.stop()


class Rollback(PackageAttack):
    """Offers an older package with a genuine signature, either in place of a newer one or in
    addition to it."""
    name, finding = "rollback", "suspected"
    NAMES = (f"{DEVICE}.a.kdb", f"{DEVICE}.z.kdb", f"{DEVICE}.ukdb")

    def judge(self, stage: Stage) -> list[str]:
        other = self.stage_of(stage, None)
        try:
            vendor = Vendor(other.host, other.host.directory / "keys")
            old, new = os.urandom(OBJECT_SIZE), os.urandom(OBJECT_SIZE)
            old_path = vendor.sign("old", old)
            # the second manifest needs a later time, and manifests state whole seconds
            time.sleep(1.1)
            new_path = vendor.sign("new", new)
            status, output = other.host.kilnctl("pkg", "install", str(new_path))
            if status:
                raise RuntimeError(f"the newer package was refused: {output.decode()}")
            other.host.kilnctl("pkg", "install", str(old_path))
            for name in self.NAMES:
                other.host.kilnctl("pkg", "install", "--name", name, f"file://{old_path}")
            return [] if vendor.served() == hashlib.sha256(new).digest() else \
                ["an older package is used instead of a newer one without a further option"]
        finally:
            other.host.stop()


# ---- compilers ----

class KilledCompiler(Trust):
    """Kills the compiler of a source that several users request, as the system does when memory is
    short."""
    name, finding = "killed_compiler", "H6"

    def judge(self, stage: Stage) -> list[str]:
        host, number = stage.host, int.from_bytes(os.urandom(3), "little")
        source, other = stage.sources.trivial(number), stage.sources.trivial(number + 1)
        # the compile makes kilnd learn that the target works
        host.as_user(hosts.VICTIM, lambda c: c.fetch_source(other))
        hosts.wait_until("compilers to start", host.compilers_are_idle)
        compilers = host.descendants("compiler")
        for pid in compilers:
            os.kill(pid, signal.SIGSTOP)
        attacker = hosts.start_as(hosts.ATTACKER, lambda: self._request(host, source))
        try:
            hosts.wait_until("the compile to begin",
                             lambda: bool(host.ask("stats")["compiling"] >= 1))
        finally:
            for pid in compilers:
                os.kill(pid, signal.SIGKILL)
        os.waitpid(attacker, 0)
        result = host.as_user(hosts.VICTIM, lambda c: c.fetch_source(source))
        return [] if result.code == wire.OK else \
            [f"the killed compile answers another user, too: code {result.code}, {result.text}"]

    @staticmethod
    def _request(host: hosts.Host, source: wire.Source) -> None:
        wire.Connection(str(host.socket)).fetch_source(source)


class SystemFiles(Trust):
    """Compiles sources that include files of /sys that identify the host, and reads the compilers'
    messages."""
    name, finding = "system_files", "H9"
    needs_compiler = True
    TARGETS: ClassVar[dict[str, str]] = {"hiprtc": "gfx90a", "clang": "gfx90a", "nvrtc": "sm_90"}

    def judge(self, stage: Stage) -> list[str]:
        broken: list[str] = []
        paths = sorted(pathlib.Path("/sys/class/net").glob("*/address"))[:1]
        targets = {name: self.TARGETS.get(name) or hosts.opencl_target(stage.host)
                   for name in hosts.toolchain_names(stage.host)}
        if not paths:
            raise Skipped("there is no network interface")
        address = paths[0].read_text(encoding="utf-8").strip()
        for toolchain, target in targets.items():
            source = stage.sources.including(str(paths[0]), toolchain, target)
            result = stage.host.as_user(hosts.ATTACKER, lambda c: c.fetch_source(source))
            if address in result.log + result.text:
                broken.append(f"{toolchain} shows the content of '{paths[0]}'")
        return broken


class SharedUser(Trust):
    """Checks as which users compilers and transfers run, because processes of the same user can
    attack each other."""
    name, finding = "shared_user", "suspected"

    def judge(self, stage: Stage) -> list[str]:
        path = material.write_cache(stage.host.directory / "files" / "small.ukdb",
                                    material.random_rows(1, 64, "small"))
        attacker = hosts.start_as(hosts.ATTACKER, lambda: self._import(stage.host, path))
        transfers: set[int] = set()
        try:
            hosts.wait_until("a transfer", lambda: self._sees_transfer(stage.host, transfers))
            compilers = set(map(uid_of, stage.host.descendants("compiler")))
        finally:
            hosts.end_process(attacker)
        return [f"compilers and transfers are both uid {uid}" for uid in transfers & compilers]

    @staticmethod
    def _sees_transfer(host: hosts.Host, uids: set[int]) -> bool:
        """Adds the uid of a transfer that has already changed from kilnd's user to another one."""
        for pid in host.descendants("kiln-transfer"):
            try:
                uids.add(uid_of(pid))
            except (FileNotFoundError, ProcessLookupError):  # the process has ended
                pass
        uids.discard(os.geteuid())
        return bool(uids)

    @staticmethod
    def _import(host: hosts.Host, path: pathlib.Path) -> None:
        """Installs repeatedly, because a transfer may end between two polls."""
        connection = wire.Connection(str(host.socket))
        while True:
            connection.ask("kernel_import", {"name": path.name, "database_id": DEVICE}, [path])


def uid_of(pid: int) -> int:
    """Returns the effective uid."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.findall(r"^Uid:\s+\d+\s+(\d+)", text, re.M)[0])


# ---- measurements ----

class FalseClaims(Trust):
    """Claims times that no GPU reaches, or times that are only slightly better, so that a promotion
    changes plans."""
    name, finding = "false_claims", "H7"
    TARGET = "gfx906"
    CLAIMS = (wire.Entry("", 1e-6, 4_000_000_000, 0.0),  # impossible
              # plausible, so kilnd records this claim; a promotion must not publish it
              wire.Entry("", 0.5, 9, 0.01))

    def judge(self, stage: Stage) -> list[str]:
        problems = [wire.problem(64), wire.problem(65)]
        before = [self._solvers(stage, problem) for problem in problems]
        recorded = [self._put(stage, problem, claim._replace(solver=solvers[-1]))
                    for problem, claim, solvers in zip(problems, self.CLAIMS, before)]
        if recorded != [False, True]:
            return [f"impossible and plausible times recorded: {recorded}"]
        stage.host.ask("tuning_promote")
        after = [self._solvers(stage, problem) for problem in problems]
        return [f"after a promotion, one user's claim changes the plan of another from {old[0]} to "
                f"{new[0]}" for old, new in zip(before, after) if old[0] != new[0]]

    def _solvers(self, stage: Stage, problem: bytes) -> list[str]:
        return stage.host.as_user(hosts.VICTIM,
                                  lambda c: c.solutions(problem, self.TARGET, DEVICE))

    @staticmethod
    def _put(stage: Stage, problem: bytes, entry: wire.Entry) -> bool:
        def put(connection: wire.Connection) -> bool:
            connection.send("tuning_put", wire.put_body(problem, DEVICE, entry))
            try:
                connection.answer()
            except wire.Refused:
                return False
            return True
        return stage.host.as_user(hosts.ATTACKER, put)


# ---- terminals ----

class ControlCharacters(Trust):
    """Sends names and sources with control characters of terminals."""
    name, finding = "control_characters", "H8"
    needs_compiler = True
    settings = {"log-level": "debug"}
    EVIL = "\u009b31m\u009d0;title\u009c\u0085\x1b[2J\x7f"

    def judge(self, stage: Stage) -> list[str]:
        host = stage.host
        events = subprocess.Popen([str(host.programs / "kilnctl"), "events", "--json"],
                                  env=host.environment(), stdout=subprocess.PIPE)
        try:
            hosts.wait_until("the subscription",
                             lambda: bool(host.ask("stats")["clients"] >= 2))
            shown = self._show(stage)
        finally:
            events.terminate()
            said, _ = events.communicate(timeout=hosts.STOP_MAX_S)
        shown["kilnctl events --json"] = said
        shown["the log"] = host.log.read_bytes()
        return [f"{where} contains {', '.join(sorted(found))}" for where, text in shown.items()
                if (found := control_characters(text))]

    def _show(self, stage: Stage) -> dict[str, bytes]:
        """Returns the output of an administrator's commands after the attacker's requests."""
        host, name = stage.host, f"evil{self.EVIL}.o"
        content = os.urandom(OBJECT_SIZE)
        damaged = material.plain_row(f"damaged{name}", content)._replace(md5="0" * 32)
        path = material.write_cache(host.directory / "files" / f"{DEVICE}.ukdb",
                                    [material.plain_row(name, content), damaged])
        false = stage.sources.trivial(1)
        false = false._replace(text=f'int "{self.EVIL}" @;\n')
        host.as_user(hosts.ATTACKER, lambda c: c.ask("kernel_import", {"name": path.name}, [path]))
        host.as_user(hosts.ATTACKER, lambda c: c.fetch_name(DEVICE, name, self.EVIL))
        host.as_user(hosts.ATTACKER, lambda c: c.fetch_source(false))
        host.as_user(hosts.ATTACKER,
                     lambda c: c.fetch_source(false._replace(options=f"-D{self.EVIL}")))
        words = (("kernel", "ls"), ("kernel", "ls", "--json"), ("stats", "--by", "program"),
                 ("kernel", "import", "--json", str(path)), ("kernel", "import", str(path)))
        return {f"kilnctl {' '.join(w[:3])}": host.kilnctl(*w)[1] for w in words}


def control_characters(text: bytes) -> set[str]:
    """Returns the control characters that a terminal could act on, as U+XXXX."""
    return {f"U+{ord(c):04X}" for c in text.decode("utf-8", errors="replace")
            if (ord(c) < 0x20 and c not in "\n\t\r") or 0x7f <= ord(c) < 0xa0}


# ---- directories of others ----

class ForeignRuntime(Trust):
    """Makes a client run with XDG_RUNTIME_DIR in the attacker's directory, and answers it there."""
    name, finding = "foreign_runtime", "suspected"

    def judge(self, stage: Stage) -> list[str]:
        place = stage.host.directory / "foreign"
        place.mkdir()
        os.chown(place, hosts.ATTACKER, hosts.ATTACKER)
        told = stage.host.directory / "files" / "told"
        told.write_bytes(b"")
        os.chown(told, hosts.ATTACKER, hosts.ATTACKER)
        attacker = hosts.start_as(hosts.ATTACKER, lambda: self._answer(place, told))
        try:
            path = place / "kiln" / "kilnd.sock"
            hosts.wait_until("the false kilnd", path.exists)
            environment = {**stage.host.environment(), "XDG_RUNTIME_DIR": str(place),
                           "KILN_FALLBACK": "off"}
            del environment["KILN_SOCKET"]
            command = [str(stage.options.programs / "kilnctl"), "--timeout", "2s", "status"]
            subprocess.run(command, env=environment, user=hosts.VICTIM, group=hosts.VICTIM,
                           extra_groups=[], timeout=60, check=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            hosts.end_process(attacker)
        requests = told.read_text(encoding="utf-8").split()
        return [f"another user's kilnd got the requests {', '.join(requests)}"] if requests else []

    @staticmethod
    def _answer(place: pathlib.Path, told: pathlib.Path) -> None:
        """Answers hello, and writes down the types of all later requests."""
        (place / "kiln").mkdir(mode=0o755)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(place / "kiln" / "kilnd.sock"))
        os.chmod(place / "kiln" / "kilnd.sock", 0o666)
        listener.listen()
        names = {number: name for name, number in wire.TYPES.items()}
        while True:
            peer, _ = listener.accept()
            while True:
                header = peer.recv(wire.HEADER.size, socket.MSG_WAITALL)
                if len(header) < wire.HEADER.size:
                    break
                _, _, kind, request, size, _, _ = wire.HEADER.unpack(header)
                peer.recv(size, socket.MSG_WAITALL)
                if kind == wire.TYPES["hello"]:
                    peer.sendall(wire.frame("welcome", request, wire.welcome_body()))
                    continue
                with told.open("a", encoding="utf-8") as f:
                    f.write(names.get(kind, str(kind)) + "\n")
                break


class ForeignCache(Trust):
    """Owns the directory above the cache of another user's kilnd, and replaces what it contains."""
    name, finding = "foreign_cache", "suspected"

    def judge(self, stage: Stage) -> list[str]:
        victim = hosts.Host(stage.options.programs, {}, user=hosts.VICTIM)
        try:
            return self._judge(victim)
        finally:
            victim.stop()

    @staticmethod
    def _judge(victim: hosts.Host) -> list[str]:
        above = victim.directory / "above"
        cache = above / "below" / "cache"
        cache.mkdir(parents=True)
        cache.chmod(0o700)
        os.chown(cache, hosts.VICTIM, hosts.VICTIM)
        for path in (above, above / "below"):
            os.chown(path, hosts.ATTACKER, hosts.ATTACKER)
        victim.cache = cache
        try:
            victim.start()
        except RuntimeError:
            return []  # kilnd has refused to start, as it must
        return ["kilnd uses a cache below a directory that another user can exchange"] \
            if (cache / "kernels.db").exists() else []


ATTACKS: tuple[type[Attack], ...] = (
    Decompressor, KilledCompiler, FalseClaims, ControlCharacters, SystemFiles, ForeignRuntime,
    ForeignCache, Rollback, SharedUser)

# SPDX-License-Identifier: MIT
"""The common part of all attacks, and the measurement of attacks that take time or memory."""
from __future__ import annotations

import mmap
import os
import pathlib
import statistics
import struct
import time
from typing import Callable, ClassVar, NamedTuple

import figures
import host as hosts
import material
import victim as victims
import wire

SETTLE_S = 1.0
LEAVE_S = 1.0  # after this time without attackers, everything must be as before the attack
PROCESSES_MAX = 16  # maximum number of processes that attack at the same time
COUNT = struct.Struct("<Q")
PROBES = 3
# While a request of the victim waits, kilnd may serve at most this many requests of attackers, or
# send this many frames to them. Generous, because on a busy machine an attacker counts late.
BEFORE_MAX = 16
RECOVER_MAX_S = 120.0


class Options(NamedTuple):
    programs: pathlib.Path  # directory of the built programs
    # directory of fault_compiler, and of the library that is preloaded into kiln-transfer
    helpers: pathlib.Path
    short: bool  # for CTest: implies |made|, runs one round, and has generous bounds
    made: bool  # use fault_compiler instead of real compilers
    seconds: float
    rounds: int


class Skipped(Exception):
    """Something that the attack needs is missing on this host."""


class Stage:
    """The environment of an attack: kilnd, the sources to compile, and memory shared with the
    attackers' processes."""

    def __init__(self, options: Options, settings: dict[str, str]) -> None:
        self.options = options
        settings = dict(settings)
        if options.made:
            settings["compiler"] = str(options.helpers / "fault_compiler")
        self.host = hosts.Host(options.programs, settings)
        self.ready = mmap.mmap(-1, PROCESSES_MAX)
        self.counts = mmap.mmap(-1, PROCESSES_MAX * COUNT.size)
        self.sources: material.Sources

    def start(self) -> None:
        self.host.start()
        try:
            self.sources = material.Sources(self.host, self.options.made)
        except LookupError as missing:
            raise Skipped(str(missing)) from missing

    def bound_s(self, seconds: float) -> float:
        """Returns how long an answer may take that usually takes less than |seconds|."""
        return figures.SHORT_WAIT_MAX_S if self.options.short else seconds

    def is_ready(self, count: int) -> bool:
        return all(self.ready[i] for i in range(count))

    def count(self, number: int, answered: int) -> None:
        """Stores how many requests of an attacker's process, or parts of requests, were served."""
        COUNT.pack_into(self.counts, number * COUNT.size, answered)

    def counted(self) -> int:
        """Returns the total over all attackers' processes."""
        return sum(int(row[0]) for row in COUNT.iter_unpack(self.counts[:]))


class Attack:
    """One attack.  The first sentence of a class's docstring says what the attacker does."""
    name: ClassVar[str]
    finding: ClassVar[str]  # number of the finding that this attack repeats, or "suspected"
    settings: ClassVar[dict[str, str]] = {}
    needs_compiler: ClassVar[bool] = False  # needs a real compiler, even with Options.short

    def says(self) -> str:
        return " ".join((self.__doc__ or "").split())

    def run(self, options: Options) -> figures.Outcome:
        raise NotImplementedError


class Load(Attack):
    """An attack on time or memory: a victim is measured before, during and after the attack."""
    uids: ClassVar[tuple[int, ...]] = (hosts.ATTACKER, hosts.ACCOMPLICE)
    processes: ClassVar[int] = 1  # number of processes of each uid
    ready_max_s: ClassVar[float] = 30.0  # maximum time until the attack is at its full strength

    def prepare(self, stage: Stage) -> None:
        """Prepares the attack, as the attackers, before the victim is measured."""

    def assail(self, stage: Stage, number: int) -> None:
        """Runs in a process of an attacker until the process is killed. Sets stage.ready[number]
        when the attack is at its full strength."""
        raise NotImplementedError

    def inspect(self, _stage: Stage) -> list[str]:
        """Returns further promises that are broken while the attack runs."""
        return []

    @staticmethod
    def first_come(stage: Stage) -> list[str]:
        """Returns, for inspect(), whether a look-up of the victim waits until kilnd has served what
        the attackers sent before it. This does not depend on speed."""
        def probe(connection: wire.Connection) -> int:
            before = stage.counted()
            connection.fetch(os.urandom(32))
            return stage.counted() - before
        served = min(stage.host.as_user(hosts.VICTIM, probe) for _ in range(PROBES))
        return [] if served <= BEFORE_MAX else \
            [f"a look-up waited for {served} (parts of) requests of the attackers"]

    def run(self, options: Options) -> figures.Outcome:
        return Measurement(self, options).run()


class Windows(NamedTuple):
    """Begin and end of each part of one round, as monotonic times."""
    quiet: tuple[float, float]
    attacked: tuple[float, float]
    after: tuple[float, float]


class Measurement:
    def __init__(self, attack: Load, options: Options) -> None:
        self.attack, self.options = attack, options
        self.stage = Stage(options, attack.settings)
        self.attackers: list[int] = []
        self.victim: victims.Victim
        # when the victim's first requests began, and when they ended; with Options.short, the quiet
        # window is the period between these two times
        self.first_requests: tuple[float, float]
        self.windows: list[Windows] = []
        self.memories: list[figures.Memory] = []
        # for each quiet window, the share of CPU time that was used
        self.busy: list[float] = []
        self.notes: list[str] = []
        self.broken: list[str] = []  # promises that inspections found broken

    def run(self) -> figures.Outcome:
        try:
            self.stage.start()
            self.victim = victims.Victim(self.stage.host, self.stage.sources)
            self.victim.prepare()
            self.attack.prepare(self.stage)
            self._start_victim()
            for _ in range(self.options.rounds):
                self._round()
                if not self._recovers():
                    break
            return self._outcome()
        finally:
            self._end_attackers()
            if hasattr(self, "victim"):
                self.victim.stop()
            self.stage.host.stop()

    def _window(self, seconds: float) -> tuple[float, float]:
        begin = time.monotonic()
        time.sleep(seconds)
        if self.options.short:
            self._wait_for("a request of each kind", lambda: self.victim.has_begun(begin))
        return begin, time.monotonic()

    def _start_victim(self) -> None:
        """Starts the victim and waits for SETTLE_S. In the short form, which compares no times with
        those of the quiet window, waits until a request of each kind was answered."""
        begin = time.monotonic()
        self.victim.start()
        if not self.options.short:
            time.sleep(SETTLE_S)
            return
        self._wait_for("a request of each kind", lambda: self.victim.has_begun(begin))
        self._wait_for_answers(time.monotonic(), figures.SHORT_WAIT_MAX_S)
        self.first_requests = begin, time.monotonic()

    def _start_attackers(self) -> None:
        self.stage.ready[:] = bytes(PROCESSES_MAX)
        number = 0
        for uid in self.attack.uids:
            for _ in range(self.attack.processes):
                self.attackers.append(hosts.start_as(uid, self._assault(number)))
                number += 1
        try:
            hosts.wait_until("the attack", lambda: self.stage.is_ready(number),
                             self.attack.ready_max_s)
        except TimeoutError:
            self._note("the attack did not reach its full strength")

    def _assault(self, number: int) -> Callable[[], None]:
        return lambda: self.attack.assail(self.stage, number)

    def _end_attackers(self) -> None:
        for pid in self.attackers:
            hosts.end_process(pid)
        self.attackers.clear()

    def _round(self) -> None:
        host, seconds = self.stage.host, self.options.seconds
        memory, waiting = host.memory(), host.waiting()
        processors = hosts.Processors()
        quiet = self.first_requests if self.options.short else self._window(seconds)
        self.busy.append(processors.busy())
        host.forget_peak()
        self._start_attackers()
        attacked = self._window(seconds)
        self._wait_for_answers(attacked[1], figures.SHORT_WAIT_MAX_S if self.options.short else 0)
        add_new(self.broken, self.attack.inspect(self.stage))
        peak = host.memory("VmHWM")
        objects = hosts.object_memory([host.pid, *self.attackers])
        self._end_attackers()
        time.sleep(LEAVE_S)
        add_new(self.broken, self._leftovers(waiting))
        after_memory = self._memory_after(memory)
        after = self._window(0.0 if self.options.short else max(2.0, seconds / 2))
        self._wait_for_answers(after[1], figures.SHORT_WAIT_MAX_S)
        self.windows.append(Windows(quiet, attacked, after))
        users = 1 + len(self.attack.uids)
        self.memories.append(figures.Memory(memory, peak, after_memory, hosts.memory_limit(users),
                                            objects, hosts.objects_limit(users)))

    def _leftovers(self, before: hosts.Waiting) -> list[str]:
        """Returns a message for each request and connection that remains after the attackers have
        left."""
        begin = time.monotonic()
        most_s = figures.SHORT_WAIT_MAX_S if self.options.short else 0.0
        while (left := self.stage.host.waiting().beyond(before)) and \
                time.monotonic() < begin + most_s:
            time.sleep(0.1)
        return [f"after the attack, kilnd still has {one}" for one in left]

    def _memory_after(self, before: int) -> int:
        """Returns kilnd's memory after the attack. The short form first waits until kilnd has freed
        what it must free, because on a busy machine this may take longer than LEAVE_S."""
        host = self.stage.host
        if self.options.short:
            self._wait_for("kilnd to free memory",
                           lambda: host.memory() <= before + figures.AFTER_MEMORY_MORE)
        return host.memory()

    def _wait_for_answers(self, since: float, most_s: float) -> bool:
        """Waits, and returns False if a request that the victim sent before |since| is still
        unanswered."""
        return self._wait_for("answers", lambda: self.victim.are_answered(since), most_s + 0.2)

    @staticmethod
    def _wait_for(what: str, is_so: Callable[[], bool],
                  most_s: float = figures.SHORT_WAIT_MAX_S) -> bool:
        """Waits at most |most_s| until |is_so| returns True. Returns False if it does not."""
        try:
            hosts.wait_until(what, is_so, most_s)
        except TimeoutError:
            return False
        return True

    def _recovers(self) -> bool:
        """Waits until the victim is no longer delayed, so that the next round can begin."""
        if self.options.rounds == 1:
            return True
        if self._wait_for_answers(time.monotonic(), RECOVER_MAX_S):
            time.sleep(SETTLE_S)
            return True
        self._note(f"the victim still waited {RECOVER_MAX_S:.0f} s after the attack")
        return False

    def _note(self, text: str) -> None:
        add_new(self.notes, [text])

    def _waits(self, which: str) -> dict[str, figures.Wait]:
        waits = {}
        for operation in victims.OPERATIONS:
            samples = self.victim.records[operation.name].samples()
            waits[operation.name] = figures.median_wait(
                [figures.wait_of(operation, samples, *getattr(windows, which))
                 for windows in self.windows])
        return waits

    def _outcome(self) -> figures.Outcome:
        quiet, attacked, after = map(self._waits, Windows._fields)
        quiets, peaks, afters, limits, objects, objects_limits = zip(*self.memories)
        memory = figures.Memory(quiets[0], max(peaks), max(afters), limits[0], max(objects),
                                objects_limits[0])
        broken = self.broken + memory.broken()
        if self.options.short:
            broken += figures.broken_short_waits("under attack", attacked)
            broken += figures.broken_short_waits("after the attack", after)
        else:
            broken += figures.broken_waits("under attack", quiet, attacked)
            broken += figures.broken_waits("after the attack", quiet, after)
        return figures.Outcome(self.attack.name, self.attack.finding, self.attack.says(), quiet,
                               attacked, after, memory, broken, self.notes,
                               statistics.median(self.busy))


def add_new(texts: list[str], more: list[str]) -> None:
    texts += [text for text in more if text not in texts]


class Trust(Attack):
    """An attack on data that others trust or see. It measures no time."""

    def judge(self, stage: Stage) -> list[str]:
        """Runs the attack and returns the broken promises."""
        raise NotImplementedError

    def run(self, options: Options) -> figures.Outcome:
        stage = Stage(options._replace(made=options.made and not self.needs_compiler),
                      self.settings)
        try:
            stage.start()
            broken = self.judge(stage)
        finally:
            stage.host.stop()
        return figures.Outcome(self.name, self.finding, self.says(), {}, {}, {}, None, broken, [])

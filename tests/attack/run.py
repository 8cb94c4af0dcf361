# SPDX-License-Identifier: MIT
"""Attacks a kilnd as some users, and measures the effect on another user.

Usage: scripts/attack [OPTION]...
"""
from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
import traceback

import attack as attacks
import figures
import load_attacks
import report
import trust_attacks
import wire

ALL: tuple[type[attacks.Attack], ...] = load_attacks.ATTACKS + trust_attacks.ATTACKS
BY_NAME = {one.name: one for one in ALL}
SKIPPED = 77
FAILED = 3
SHORT_S = 1.0

ABOUT = """\
Starts a private kilnd of root for each attack, a victim and attackers under two or more other
users, and measures what the victim waits for each operation: quiet, under attack, and one second
after the attackers left.  Must run as root.  In attacks on time and memory, two users attack at
the same time, each at their full allowance.

Bounds: p99 under attack and afterwards within 5 times the quiet p99 plus 20 ms (compiles: plus one
trivial compile), kilnd's resident memory within the sum of its limits, and afterwards within 64 MiB
of before.  One second after the attackers left, nothing of theirs waits or is connected.  The
bounds are meaningful only on an idle machine: everything else that runs makes p99 worse.  Each
figure is the median of several rounds.

Exit status: 0: all bounds hold; 1: a bound is broken; 2: invalid command line; 3: an attack could
not be run; 77: skipped, for example because this is not root."""


def parse(argv: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="scripts/attack", description=ABOUT,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, metavar="DIR",
                   default=wire.ROOT / "build" / "release",
                   help="directory of a finished build (default: build/release)")
    p.add_argument("--only", action="append", choices=sorted(BY_NAME), metavar="NAME",
                   help="only this attack; may be given several times")
    p.add_argument("--seconds", type=float, default=10.0, metavar="N",
                   help="length of each window that is measured (default: 10)")
    p.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    p.add_argument("--made", action="store_true",
                   help="use a compiler that needs no time instead of a real one")
    p.add_argument("--short", action="store_true",
                   help="one short round with --made and with bounds that do not depend on speed: "
                        "every request is answered within 10 s, and memory is bounded")
    p.add_argument("--expect-broken", action="store_true",
                   help="exit with 0 if a bound is broken, and with 1 if all hold")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write all figures")
    p.add_argument("--markdown", type=pathlib.Path, metavar="FILE",
                   help="also write the tables as Markdown")
    p.add_argument("--docs", type=pathlib.Path, metavar="FILE",
                   help="also replace the table of this page (docs/security.md)")
    p.add_argument("--list", action="store_true", help="list the attacks and end")
    return p.parse_args(argv)


def options_of(given: argparse.Namespace) -> attacks.Options:
    build = given.build.resolve()
    return attacks.Options(programs=build / "bin", helpers=build / "tests", short=given.short,
                           made=given.made or given.short,
                           seconds=SHORT_S if given.short else given.seconds,
                           rounds=1 if given.short else given.rounds)


class Run:
    """The results of the attacks that were run."""

    def __init__(self) -> None:
        self.outcomes: list[figures.Outcome] = []
        self.skipped: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []

    def one(self, kind: type[attacks.Attack], options: attacks.Options) -> None:
        try:
            outcome = kind().run(options)
        except attacks.Skipped as missing:
            self.skipped.append((kind.name, str(missing)))
            print(f"{kind.name}: skipped: {missing}")
            return
        except Exception as error:  # pylint: disable=broad-except  # the next attack still runs
            traceback.print_exc()
            self.failed.append((kind.name, str(error)))
            return
        self.outcomes.append(outcome)
        print(report.text_of(outcome), flush=True)

    def status(self, expect_broken: bool) -> int:
        if self.failed:
            return FAILED
        if not self.outcomes:
            return SKIPPED
        is_broken = any(outcome.broken for outcome in self.outcomes)
        if expect_broken and not is_broken:
            print("attack: all bounds hold: remove the attack from tests/attack/known.cmake",
                  file=sys.stderr)
        return int(is_broken != expect_broken)


def main(argv: list[str]) -> int:
    given = parse(argv)
    if given.list:
        print("\n".join(f"{one.name:16} {one.finding:10} {one().says()}" for one in ALL))
        return 0
    if os.geteuid() != 0:
        print("attack: skipped: several users are needed, and only root can be all of them",
              file=sys.stderr)
        return SKIPPED
    # so that exit handlers, which stop kilnd, also run after SIGTERM
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    given.load = os.getloadavg()[0]
    run, options = Run(), options_of(given)
    for name in given.only or BY_NAME:
        run.one(BY_NAME[name], options)
        report.write_files(given, run.outcomes, run.skipped + run.failed)
    return run.status(given.expect_broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

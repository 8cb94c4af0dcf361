# SPDX-License-Identifier: MIT
"""Tests what docs/ promises about the units: limits of memory and processes, and who may use their
sockets."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# HELD_SHARES of engine/engine.c: code objects that users keep open may take hot_limit times this
# number
HELD_SHARES = 4
UNREAD = 2 << 30  # replies that clients have not read, and incomplete requests (docs/limits.md)


def size(text):
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]+)", text).groups()
    return int(number) * UNITS[unit]


def unit_value(name):
    text = (ROOT / "systemd" / "kilnd.service.in").read_text(encoding="utf-8")
    return re.search(rf"^{name}=(\S+)$", text, re.M)[1]


def default_of(setting):
    text = (ROOT / "daemon" / "config" / "config.def").read_text(encoding="utf-8")
    return re.search(rf'^SETTING\({setting}, SIZE, \w+, "([^"]+)"', text, re.M)[1]


class UnitLimits(unittest.TestCase):
    def test_the_units_memory_is_above_what_the_default_settings_permit(self):
        hot = size(default_of("hot_limit"))
        # queue_bytes limits waiting requests and, separately, kernels that wait to be stored
        waiting = 2 * size(default_of("queue_bytes"))
        needed = waiting + hot + HELD_SHARES * hot + UNREAD
        self.assertGreater(size(unit_value("MemoryHigh")), needed)
        self.assertGreater(size(unit_value("MemoryMax")), size(unit_value("MemoryHigh")))

    def test_the_documented_limits_are_those_of_the_unit(self):
        page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
        row = next(line for line in page.splitlines() if "`MemoryHigh=`" in line)
        for name, shown in (("MemoryHigh", "{} GiB"), ("MemoryMax", "{} GiB"), ("TasksMax", "{}")):
            self.assertIn(shown.format(unit_value(name).rstrip("G")), row)

    def test_only_kilnd_starts_compilers_and_transfers(self):
        for name in ("kiln-compiler.socket", "kiln-transfer.socket"):
            text = (ROOT / "systemd" / name).read_text(encoding="utf-8")
            self.assertEqual(re.findall(r"^Socket(?:User|Mode)=(\S+)$", text, re.M),
                             ["kiln", "0600"], name)

    def test_the_kernel_ends_compilers_rather_than_kilnd(self):
        self.assertLess(int(unit_value("OOMScoreAdjust")), 0)


if __name__ == "__main__":
    unittest.main()

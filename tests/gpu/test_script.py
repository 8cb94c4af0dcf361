# SPDX-License-Identifier: MIT
"""scripts/test-gpu as far as it runs without a GPU: on a CPU by OpenCL.

KILN_BUILD names the build whose programs are taken.
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LINE = "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n"


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kiln-test-gpu-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.network = self.folder / "network"
        self.network.write_text("# one\n" + LINE)

    def run_script(self, *arguments, device="opencl:0"):
        command = [SOURCE / "scripts/test-gpu", "--build", os.environ["KILN_BUILD"],
                   "--device", device, "--network", self.network, "--types", "fp32",
                   "--results", self.folder / "results", *arguments]
        done = subprocess.run(command, text=True, capture_output=True)
        if device == "opencl:0" and done.returncode == 77:
            self.skipTest("no OpenCL device here")
        return done.returncode, done.stdout + done.stderr

    def test_what_was_done_is_not_done_again(self):
        status, text = self.run_script("problems:1200")
        self.assertEqual(status, 0, text)
        self.assertIn("1 of 1 problems verified", text)
        self.assertIn("1 of 1 problems right on the GPU", text)
        self.assertIn("skipped: the reference on the CPU at batch 64", text)
        status, text = self.run_script("problems:0")
        self.assertEqual(status, 0, text)
        self.assertIn("problems-fp32-gpu: 1 of 1 were done before", text)
        self.assertIn("1 of 1 problems right on the GPU", text)

    def test_a_part_without_time_is_not_finished_and_its_results_are_of_its_options(self):
        status, text = self.run_script("problems:0", "random", "failures")
        self.assertEqual(status, 75, text)
        self.assertIn("problems-fp32-cpu: NOT FINISHED, 0 of 1 in 0 s", text)
        self.assertIn("test-gpu: skipped: random failures", text)
        self.assertIn("test-gpu: not finished: problems", text)
        status, text = self.run_script("--batch", "3", "problems:0")
        self.assertEqual(status, 2, text)
        self.assertIn("results of other programs or options", text)

    def test_without_the_device_all_is_skipped(self):
        status, text = self.run_script(device="cuda:99")
        self.assertEqual(status, 77, text)
        self.assertIn("there is no cuda:99 here", text)

    def test_words_that_are_no_parts_are_refused(self):
        for word, why in (("problem", "no part 'problem'"), ("problems:soon", "are no seconds")):
            status, text = self.run_script(word)
            self.assertEqual(status, 2, text)
            self.assertIn(why, text)


if __name__ == "__main__":
    unittest.main()

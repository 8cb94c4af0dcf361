# SPDX-License-Identifier: MIT
"""Tests scripts/pack-gpu, and the parts of scripts/test-gpu that run without a GPU (with OpenCL on
a CPU).

KILN_BUILD names the build whose programs are used.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LINE = "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n"


class Script(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kiln-test-gpu-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.directory.chmod(0o755)
        self.network = self.directory / "network"
        self.network.write_text("# one\n" + LINE)

    def run_script(self, *arguments, device="opencl:0", **variables):
        command = [SOURCE / "scripts/test-gpu", "--build", os.environ["KILN_BUILD"],
                   "--device", device, "--network", self.network, "--types", "fp32",
                   "--results", self.directory / "results", *arguments]
        done = subprocess.run(command, text=True, capture_output=True, env=os.environ | variables)
        if device == "opencl:0" and done.returncode == 77:
            self.skipTest("no OpenCL device here")
        return done.returncode, done.stdout + done.stderr

    def test_what_was_done_is_not_done_again(self):
        status, text = self.run_script("problems:1200")
        self.assertEqual(status, 0, text)
        self.assertIn("1 of 1 problems verified", text)
        self.assertIn("1 of 1 problems right", text)
        self.assertIn("at batch 64", text)
        status, text = self.run_script("problems:0")
        self.assertEqual(status, 0, text)
        self.assertIn("problems-fp32-gpu: 1 of 1 were done before", text)
        self.assertIn("1 of 1 problems right", text)

    def test_a_part_without_time_is_not_finished_and_its_results_are_of_its_options(self):
        status, text = self.run_script("problems:0", "random", "failures")
        self.assertEqual(status, 75, text)
        self.assertIn("problems-fp32-cpu: NOT FINISHED, 0 of 1 in 0 s", text)
        self.assertIn("skipped: random failures", text)
        self.assertIn("not finished: problems", text)
        status, text = self.run_script("--batch", "3", "problems:0")
        self.assertEqual(status, 2, text)
        self.assertIn("other programs", text)

    def test_results_of_another_library_or_network_are_refused(self):
        self.assertEqual(self.run_script("problems:0")[0], 75)
        library = pathlib.Path(os.environ["KILN_BUILD"]) / "lib/libkiln.so.0"
        other = self.directory / library.name
        shutil.copy(library, other)
        with other.open("ab") as file:
            file.write(b"another one")
        status, text = self.run_script("problems:0", LD_LIBRARY_PATH=str(self.directory))
        self.assertEqual(status, 2, text)
        self.assertIn("other programs", text)
        self.network.write_text(LINE.replace("-c 8", "-c 16"))
        status, text = self.run_script("problems:0")
        self.assertEqual(status, 2, text)
        self.assertIn("other programs", text)

    def test_without_the_device_all_is_skipped(self):
        status, text = self.run_script(device="cuda:99")
        self.assertEqual(status, 77, text)
        self.assertIn("cuda:99", text)

    def test_words_that_are_no_parts_are_refused(self):
        for word, why in (("problem", "no part 'problem'"), ("problems:soon",
                                                             "not a number of seconds")):
            status, text = self.run_script(word)
            self.assertEqual(status, 2, text)
            self.assertIn(why, text)


FAKE = """#!/bin/sh
case ${0##*/} in
kiln-driver) echo '{"devices": [{"name": "cuda:0"}]}' ;;
kilnd) exec sleep 600 ;;
esac
"""
# Replaces the programs of part torch. Each ends with the status that the variable of its name has.
PYTHON = f"""#!/bin/sh
case $1 in
tests/gpu/torch_*) name=${{1##*/torch_}} name=${{name%.py}} ;;
-c) case $2 in *kiln.torch*) name=language ;; esac ;;
esac
[ -n "$name" ] || exec {sys.executable} "$@"
echo "ran $name for '$KILN_TORCH_OPERATOR' with $(ls -A "$XDG_CACHE_HOME" | wc -l) files"
eval "exit \\${{$name:-0}}"
"""


class Torch(unittest.TestCase):
    """Tests part torch with fake programs."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kiln-test-gpu-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        for name in ("packed/bin", "packed/lib", "path"):
            (self.directory / name).mkdir(parents=True)
        for name in ("kilnd", "kilnctl", "kiln-driver", "kiln-compiler"):
            self.add(self.directory / "packed/bin" / name, FAKE)
        self.add(self.directory / "path/python3", PYTHON)

    def add(self, path, text):
        path.write_text(text)
        path.chmod(0o755)

    def run_part(self, **statuses):
        done = subprocess.run(
            [SOURCE / "scripts/test-gpu", "--packed", self.directory / "packed", "--results",
             self.directory / "results", "--torch-tests", "/dev/null", "torch"], text=True,
            capture_output=True, env=os.environ | statuses | {
                "PATH": f"{self.directory}/path:{os.environ['PATH']}"})
        return done.returncode, done.stdout + done.stderr

    def test_each_step_has_a_verdict_and_what_passed_is_not_repeated(self):
        status, text = self.run_part(ddp="77", step="1")
        self.assertEqual(status, 1, text)
        for line in ("language: passed", "layers: passed", "gradients: passed", "training: FAILED",
                     "two_gpus: skipped", "own_tests: passed"):
            self.assertIn(f"torch: {line}\n", text)
        self.assertEqual(text.count("for 'c' with 0 files"), 6)
        self.assertIn("test-gpu: skipped: torch/two_gpus\n", text)
        status, text = self.run_part()
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("passed before"), 4)
        self.assertEqual(text.count("for 'c' with 0 files"), 2)

    def test_without_a_module_that_they_need_pytorchs_tests_are_skipped(self):
        (self.directory / "torch.py").write_text("")
        tests = self.directory / "test_convolution.py"
        tests.write_text("import kiln_missing_module")
        done = subprocess.run(
            [sys.executable, "-B", SOURCE / "tests/gpu/torch_own_tests.py", tests], text=True,
            capture_output=True, env=os.environ | {"PYTHONPATH": str(self.directory)})
        self.assertEqual((done.returncode, done.stderr), (77, ""))
        self.assertIn("kiln_missing_module", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)

    def test_other_operators_than_those_wanted_end_the_part(self):
        status, text = self.run_part(language="1")
        self.assertEqual(status, 1, text)
        self.assertNotIn("layers", text)


class Pack(unittest.TestCase):
    """Tests with a build in which every program is the same small program."""

    LIBRARIES = ("libkiln-rtc.so.0", "libkiln-torch.so.0")
    PROGRAMS = ("kilnd", "kiln-compiler", "kiln-transfer", "kiln-driver", "kilnctl", "gpu_trials",
                "gpu_peaks", "gpu_failures", "first_pass", "job_steps")

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kiln-pack-gpu-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.library = self.directory / "libpart.so"
        self.compile("int part(void) { return 0; }", "-shared", "-Wl,-soname,libpart.so",
                     "-o", self.library)
        self.compile("int part(void); int main(void) { return part(); }", self.library,
                     f"-Wl,-rpath,{self.directory}", "-o", self.directory / "program")
        (self.directory / "lib").mkdir()
        for name in self.LIBRARIES:
            shutil.copy(self.library, self.directory / "lib" / name)
        (self.directory / "bin").mkdir()
        for name in self.PROGRAMS:
            shutil.copy(self.directory / "program", self.directory / "bin" / name)

    def compile(self, text, *arguments):
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-fPIC", *arguments], input=text,
                       text=True, check=True)

    def pack(self):
        done = subprocess.run([SOURCE / "scripts/pack-gpu", "--build", self.directory,
                               self.directory / "packed"], text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    def test_programs_come_with_their_libraries_but_the_c_librarys(self):
        status, text = self.pack()
        self.assertEqual(status, 0, text)
        self.assertIn("cudnn_baseline", text)
        self.assertIn("needs GLIBC_2.", text)
        packed = self.directory / "packed"
        self.assertEqual({p.name for p in (packed / "bin").iterdir()}, set(self.PROGRAMS))
        self.assertEqual({p.name for p in (packed / "lib").iterdir()},
                         {"libpart.so", *self.LIBRARIES})

    def test_a_program_that_was_not_built_is_named(self):
        (self.directory / "bin/gpu_peaks").unlink()
        status, text = self.pack()
        self.assertEqual(status, 1, text)
        self.assertIn("bin/gpu_peaks'", text)

    def test_a_library_that_is_not_here_is_named(self):
        self.library.unlink()
        status, text = self.pack()
        self.assertEqual(status, 1, text)
        self.assertIn("not found: libpart.so", text)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Makes the wheel from the programs of this build, and installs and uses it without a network."""
import base64
import csv
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

import pytest

from conftest import BUILD, SOURCE, TARGET, wait_until

STEP_MAX_S = 600  # long enough for a loaded machine
FAKE = BUILD / "tests/rtc/libnvrtc.so.99"
GLIBC = re.compile(r"(linux-vdso|/lib\S*/ld-linux|lib(c|m|dl|rt|pthread|resolv)\.so\.)")
JOB = f"""
import ctypes
library = ctypes.CDLL({str(FAKE)!r})
for i in range(3):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), b"void k%d();" % i, None, 0, None, None)
    assert library.nvrtcCompileProgram(program, 0, None) == 0
"""


def run(*command, status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_MAX_S, check=False,
                          **options)
    assert done.returncode == status, f"{command}: {done.stdout}{done.stderr}"
    return done


def find_pip():
    """Returns the file of the pip that Python copies into new environments. Running this file saves
    the seconds that copying takes. Skips all tests if there is none."""
    if sys.version_info < (3, 11):
        pytest.exit("skipped: scripts/gen_wheel.py needs Python 3.11", 77)
    bundled = pathlib.Path(sysconfig.get_path("stdlib"), "ensurepip/_bundled")
    for directory in (bundled, pathlib.Path("/usr/share/python-wheels")):
        for wheel in directory.glob("pip-*.whl"):
            return str(wheel / "pip")
    pytest.exit("skipped: no pip is here; install Debian's python3-venv", 77)


def make_wheel(directory):
    made = run(sys.executable, "-B", str(SOURCE / "scripts/gen_wheel.py"), str(BUILD),
               str(directory), env=dict(os.environ, SOURCE_DATE_EPOCH="1764400000"))
    return pathlib.Path(made.stdout.strip())


class Installed:
    """The wheel in a fresh environment, below a directory that the compilers' user may enter.  Jobs
    have a home of their own, and an environment without this build's libkiln."""

    def __init__(self):
        self.pip_program = find_pip()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-wheel-", dir="/tmp"))
        self.directory.chmod(0o755)
        self.bin = self.directory / "venv/bin"
        self.cache = self.directory / "home/.cache/kiln/private"
        for name in ("home", "run"):
            (self.directory / name).mkdir(mode=0o700)
        self.environment = {
            "HOME": str(self.directory / "home"), "XDG_RUNTIME_DIR": str(self.directory / "run"),
            "PATH": f"{self.bin}:/usr/bin:/bin", "KILND_IDLE_EXIT": "1s",
            "KILN_SOCKET": str(self.directory / "none.sock"), "KILN_RTC_PATIENCE": "60000",
            "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.wheel = make_wheel(self.directory / "wheel")
        run(sys.executable, "-m", "venv", "--without-pip", str(self.directory / "venv"),
            env=self.environment)
        self.pip("install", "--no-index", "--no-compile", str(self.wheel))
        self.package = pathlib.Path(self.python(
            "import kiln; print(kiln.__path__[0])").stdout.strip())

    def run(self, *command, **options):
        return run(*command, env=self.environment, cwd=self.directory, **options)

    def pip(self, *arguments, **options):
        return self.run(str(self.bin / "python"), self.pip_program, *arguments, **options)

    def python(self, code):
        return self.run(str(self.bin / "python"), "-c", code)

    def has_kilnd_ended(self):
        """Returns whether no private kilnd holds the lock in its directory."""
        lock = self.directory / "home/.local/state/kiln/private/private.lock"
        if not lock.exists():
            return True
        with lock.open("r+b") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return True

    def remove(self):
        wait_until("the private kilnd to end", self.has_kilnd_ended)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="module")
def installed():
    i = Installed()
    try:
        yield i
    finally:
        i.remove()


def elf_files(installed):
    return [*(installed.package / "bin").iterdir(), *(installed.package / "lib").iterdir()]


def test_the_record_has_every_file_with_its_digest(installed):
    with zipfile.ZipFile(installed.wheel) as archive:
        name, = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        rows = {row[0]: row[1:] for row in csv.reader(archive.read(name).decode().splitlines())}
        assert sorted(rows) == sorted(archive.namelist()) and rows.pop(name) == ["", ""]
        for path, (digest, size) in rows.items():
            content = archive.read(path)
            encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            assert digest == "sha256=" + encoded.rstrip("=") and int(size) == len(content), path


def test_kiln_cc_and_kiln_ptxas(installed):
    fakes = BUILD / "tests/rtc/compilers"
    (installed.directory / "k.hip").write_text("int k;\n")
    link = installed.directory / "linked/kiln-ptxas"
    link.parent.mkdir()
    link.symlink_to(installed.bin / "kiln-ptxas")
    environment = dict(installed.environment, KILN_PTXAS=str(fakes / "ptxas"),
                       FAKE_CC_LOG=str(installed.directory / "runs"))
    for program in (["kiln-cc", str(fakes / "clang"), "-x", "hip", "-c"], ["kiln-ptxas"],
                    [str(link)]):
        for _ in range(2):
            done = run(*program, "k.hip", "-o", "k.o", cwd=installed.directory,
                       env=dict(environment, KILN_RTC_DEBUG="1"))
        assert "answered by kilnd" in done.stderr, program
    assert len((installed.directory / "runs").read_text().splitlines()) == 2


def test_the_same_input_makes_the_same_bytes(installed, tmp_path):
    again = make_wheel(tmp_path)
    assert again.name == installed.wheel.name
    assert again.read_bytes() == installed.wheel.read_bytes()


def test_the_tag_names_the_newest_glibc_that_a_file_needs(installed):
    needed = {tuple(map(int, version)) for path in elf_files(installed)
              for version in re.findall(rb"\0GLIBC_(\d+)\.(\d+)[.\d]*(?=\0)", path.read_bytes())}
    major, minor = max(needed)
    assert f"-py3-none-manylinux_{major}_{minor}_{os.uname().machine}.whl" in installed.wheel.name


def test_debians_glibc_is_not_required(installed):
    """The wheel must also work with older glibcs: Red Hat Enterprise Linux 9 has glibc 2.34, and
    Ubuntu 22.04 has 2.35."""
    if 'VERSION_ID="12"' not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("this host is not Debian 12, whose libraries need only glibc 2.34")
    assert "-manylinux_2_34_" in installed.wheel.name


@pytest.mark.parametrize("family", ["musllinux_1_2", "manylinux_2_17"])
def test_pip_refuses_the_wheel_where_it_cannot_run(installed, tmp_path, family):
    refused = installed.pip("install", "--no-index", "--only-binary=:all:", "--platform",
                            f"{family}_{os.uname().machine}", "--target", str(tmp_path),
                            str(installed.wheel), status=1)
    assert "not a supported wheel" in refused.stderr


def test_programs_load_only_glibc_from_the_host(installed):
    for program in (installed.package / "bin").iterdir():
        lines = installed.run("ldd", str(program)).stdout.splitlines()
        others = [line for line in map(str.strip, lines) if not GLIBC.match(line)]
        lib = str(installed.package / "lib")
        wrong = [line for line in others
                 if os.path.dirname(os.path.normpath(line.split(" => ")[1].split()[0])) != lib]
        assert not wrong, f"{program.name}: {wrong}"


def test_compilers_of_the_host_do_not_find_libraries_in_the_wheel(installed):
    """DT_RPATH of a program also applies to the libraries that it opens, DT_RUNPATH does not."""
    tags = run("readelf", "-d", str(installed.package / "bin/kiln-compiler")).stdout
    assert "(RUNPATH)" in tags and "(RPATH)" not in tags


def test_each_library_of_the_host_has_its_licence(installed):
    info, = installed.package.parent.glob("kiln-*.dist-info")
    text = (info / "licenses/LIBRARIES.txt").read_text()
    for library in (installed.package / "lib").iterdir():
        if not library.name.startswith("libkiln"):
            debian = re.search(rf"^{re.escape(library.name)}: package ([^:,]+)", text, re.M)[1]
            assert (info / f"licenses/{debian}.txt").stat().st_size > 0


def test_the_package_uses_the_libkiln_of_its_wheel(installed):
    said = installed.python("import kiln; print(kiln.load_library(), kiln.version())").stdout
    version = os.environ["KILN_VERSION"]
    assert said == f"{installed.package}/lib/libkiln.so.0 {version}\n"


def test_kilnctl_replaces_the_interpreter_that_finds_it(installed):
    said = installed.run("sh", "-c", "echo $$; exec kilnctl run -- sh -c 'echo $$ $LD_PRELOAD'")
    shell, job, preloaded = said.stdout.split()
    assert shell == job
    assert preloaded == str(installed.package / "lib/libkiln-rtc.so.0")


def test_kilnctl_finds_the_package_for_a_program_of_pytorch(installed):
    said = installed.run(
        "env", f"PYTHONPATH={SOURCE}/tests/packages/fake_torch", "kilnctl", "run", "--torch", "--",
        "/usr/bin/python3", "-Bc", "import torch, kiln; print(*torch.replaced, kiln.__path__[0])")
    assert said.stderr == ""
    assert said.stdout == f"convolution convolution_backward {installed.package}\n"


def test_a_job_is_answered_by_a_private_kilnd_of_the_wheel(installed):
    job = installed.directory / "job.py"
    job.write_text(JOB)
    counts = []
    for _ in range(2):
        done = installed.run("kilnctl", "run", "--explain", "--json", "--", "python", str(job))
        report = json.loads(done.stderr.splitlines()[-1])
        counts.append([report[name] for name in ("compiles", "stored", "answered",
                                                 "without_kilnd")])
    assert counts == [[3, 3, 0, 0], [3, 0, 3, 0]]
    assert (installed.cache / "kernels.db").exists()


def test_kilnd_compiles_with_the_compiler_program_of_the_wheel(installed):
    names = installed.python("import kiln; print(*[t['family'] for t in kiln.Client().admin("
                             "'toolchains')['toolchains']])").stdout.split()
    if "amdgpu" not in names:
        pytest.skip(f"no compiler for {TARGET} here; scripts/install-deps test brings one")
    said = installed.python(
        "import kiln\n"
        f"source = kiln.KernelSource(target='{TARGET}', program='k.cpp',"
        " source='extern \"C\" __global__ void k(float *p) { p[0] = 1; }')\n"
        "client = kiln.Client()\n"
        "print(bytes(client.fetch_source(source).data[1:4]), client.status().level.name)")
    assert said.stdout == "b'ELF' PRIVATE\n"

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make a Python wheel of the Python package, kiln's libraries, kilnd, kilnctl and kiln-cc.

Usage: scripts/gen_wheel.py BUILD OUT

BUILD is a build directory, OUT the directory for the wheel.  The wheel also contains the libraries
of this host that the programs need, except glibc, with their licences.  Its platform tag names the
oldest glibc that has every symbol version which the programs and libraries need.  Needs Python
3.11, cmake, dpkg-query, ldd and readelf.  The output depends only on its input and
SOURCE_DATE_EPOCH.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile

from gen_sbom import needed, run

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PYTHON = SOURCE / "libclient/python"
# These paths keep the layout of an installation: kilnd finds its programs in its own directory, and
# libkiln and kilnctl look in ../bin and ../lib.
PROGRAMS = ("bin/kilnd", "bin/kilnctl", "bin/kiln-cc", "bin/kiln-ptxas",
            "libexec/kiln/kiln-compiler",
            "libexec/kiln/kiln-transfer", "libexec/kiln/kiln-launch")
LIBRARIES = ("lib/libkiln.so.0", "lib/libkiln-rtc.so.0", "lib/libkiln-torch.so.0")
GLIBC = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|util|resolv|pthread))\.so\.\d+$")
COMMON_LICENSE = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])")
PT_DYNAMIC, DT_NULL, DT_RPATH, DT_RUNPATH = 2, 0, 15, 29

# A script that is installed into the bin directory of the wheel's environment.
SCRIPT = """\
#!python
# SPDX-License-Identifier: MIT
# Runs the program of this name from the package kiln.
import importlib.util
import os
import sys

name = os.path.basename(__file__)
package = importlib.util.find_spec("kiln").submodule_search_locations[0]
os.execv(os.path.join(package, "bin", name), [name, *sys.argv[1:]])
"""

# The same for programs that are started for each compile: Python's start would take longer than a
# small compile.
SHELL_SCRIPT = """\
#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the program of this name from the package kiln.
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
for program in "${self%/*}"/../lib/python3*/*-packages/kiln/bin/"${self##*/}"; do
    [ ! -x "$program" ] || exec "$program" "$@"
done
echo "${self##*/}: the package kiln is not in the environment of '$self'" >&2
exit 127
"""


def dynamic_tags(content):
    """Yields the file offset and the value of each tag in the dynamic section of a 64-bit ELF."""
    headers, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for header in range(headers, headers + size * count, size):
        if struct.unpack_from("<I", content, header)[0] != PT_DYNAMIC:
            continue
        at, = struct.unpack_from("<Q", content, header + 8)
        while (tag := struct.unpack_from("<Q", content, at)[0]) != DT_NULL:
            yield at, tag
            at += 16


def use_rpath(program):
    """Changes DT_RUNPATH to DT_RPATH, in which libraries also find their own libraries."""
    content = bytearray(program.read_bytes())
    for at, tag in dynamic_tags(content):
        if tag == DT_RUNPATH:
            struct.pack_into("<Q", content, at, DT_RPATH)
    program.write_bytes(content)


def host_libraries(programs):
    """Returns the path of each library that the programs need directly or indirectly, by name."""
    found = {}
    for program in programs:
        found.update(re.findall(r"^\t(\S+) => (\S+)", run("ldd", str(program)), re.M))
    return {name: pathlib.Path(path) for name, path in found.items() if not GLIBC.match(name)}


def copy_programs(build, package, scratch):
    for component in ("kilnd", "kiln-tools", "libkiln0"):
        subprocess.run(["cmake", "--install", build, "--prefix", scratch, "--strip",
                        "--component", component], check=True, stdout=subprocess.DEVNULL)
    for name, directory in (*((p, "bin") for p in PROGRAMS), *((p, "lib") for p in LIBRARIES)):
        (package / directory).mkdir(exist_ok=True)
        shutil.copy(scratch / name, package / directory)


def debian_packages(paths):
    """Returns the package of this host that has each of the files, under its path or its path
    without links."""
    names = {name: path for path in paths for real in (str(path), os.path.realpath(path))
             for name in (real, real.removeprefix("/usr"))}
    found = subprocess.run(["dpkg-query", "--search", *names], text=True, stderr=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, check=False).stdout
    return {names[name]: package.split(",")[0]
            for package, name in re.findall(r"^(\S.*): (/.*)$", found, re.M)}


def copy_host_libraries(package, licenses):
    """Copies the libraries of this host, and says in LIBRARIES.txt where they are from."""
    programs = sorted((package / "bin").iterdir())
    libraries = {name: path for name, path in host_libraries(programs).items()
                 if not (package / "lib" / name).exists()}
    packages = debian_packages(libraries.values())
    lines = ["Libraries of Debian in this wheel. 'apt-get source PACKAGE=VERSION' gets their "
             "source.", ""]
    for name, path in sorted(libraries.items()):
        shutil.copy(path, package / "lib" / name)
        if path not in packages:
            sys.exit(f"gen_wheel: no Debian package has '{path}'")
        debian = packages[path]
        version = run("dpkg-query", "--show", "--showformat=${Version}", debian)
        lines.append(f"{name}: package {debian}, version {version}")
        copy_license(debian, licenses)
    (licenses / "LIBRARIES.txt").write_text("\n".join(lines) + "\n")
    # If a program's libraries need further libraries, the program must have DT_RPATH: unlike
    # DT_RUNPATH, it also applies to the further libraries. kiln-compiler's libraries need no
    # further ones, so kiln-compiler keeps DT_RUNPATH: with DT_RPATH, the host's compilers that it
    # opens would load the wheel's libraries.
    for program in programs:
        if host_libraries([program]).keys() - needed(program):
            use_rpath(program)
    for name, path in host_libraries(programs).items():
        if path.resolve().parent != package / "lib":
            sys.exit(f"gen_wheel: a program would load '{path}', not the wheel's '{name}': "
                     "configure the build with CMAKE_INSTALL_LIBDIR=lib")


def copy_license(debian, licenses):
    """Copies the licence of a Debian package, and the common licences that it refers to."""
    text = pathlib.Path("/usr/share/doc", debian.split(":")[0], "copyright").read_bytes()
    (licenses / f"{debian.split(':')[0]}.txt").write_bytes(text)
    for name in COMMON_LICENSE.findall(text.decode(errors="replace")):
        shutil.copy(f"/usr/share/common-licenses/{name}", licenses / f"{name}.txt")


def platform_tag(files):
    """Returns the tag (PEP 600) for the oldest glibc that can load all |files|."""
    versions = set()
    for path in files:
        for version in re.findall(r"Name: GLIBC_(\S+)", run("readelf", "-VW", str(path))):
            if not re.fullmatch(r"[\d.]+", version):
                sys.exit(f"gen_wheel: '{path.name}' needs GLIBC_{version}, which has no number")
            versions.add(tuple(map(int, version.split("."))))
    return "manylinux_{}_{}_{}".format(*max(versions)[:2], platform.machine())


def metadata(project):
    return "\n".join([
        "Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
        f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {text}" for text in project["classifiers"]), ""])


def fill(root, build, scratch):
    """Writes the content of the wheel below |root|.  Returns the name of the wheel."""
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    stem = f"{project['name']}-{project['version']}"
    package, info = root / "kiln", root / f"{stem}.dist-info"
    shutil.copytree(PYTHON / "kiln", package, ignore=shutil.ignore_patterns("__pycache__"))
    (info / "licenses").mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", info / "licenses")
    copy_programs(build, package, scratch)
    copy_host_libraries(package, info / "licenses")
    tag = "py3-none-" + platform_tag([*(package / "bin").iterdir(), *(package / "lib").iterdir()])
    (info / "METADATA").write_text(metadata(project))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: gen_wheel\n"
                                f"Root-Is-Purelib: false\nTag: {tag}\n")
    scripts = root / f"{stem}.data/scripts"
    scripts.mkdir(parents=True)
    (scripts / "kilnctl").write_text(SCRIPT)
    for name in ("kiln-cc", "kiln-ptxas"):
        (scripts / name).write_text(SHELL_SCRIPT)
    write_record(root, info / "RECORD")
    return f"{stem}-{tag}.whl"


def files_below(root):
    return sorted(path for path in root.rglob("*") if path.is_file())


def write_record(root, record):
    rows = []
    for path in files_below(root):
        content = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.append(f"{path.relative_to(root)},sha256={digest},{len(content)}\n")
    record.write_text("".join(rows) + f"{record.relative_to(root)},,\n")


def write_wheel(root, wheel):
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_below(root):
            entry = zipfile.ZipInfo(str(path.relative_to(root)), moment)
            is_program = path.parent.name in ("bin", "scripts")
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kiln-wheel-") as directory:
        root, scratch = pathlib.Path(directory, "root"), pathlib.Path(directory, "installed")
        name = fill(root, options.build, scratch)
        options.out.mkdir(parents=True, exist_ok=True)
        write_wheel(root, options.out / name)
    print(options.out / name)


if __name__ == "__main__":
    main()

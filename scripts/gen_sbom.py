#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print a bill of materials (SPDX 2.3, JSON) of installed programs, made from what they link.

Usage: scripts/gen_sbom.py --version VERSION [--built-with PACKAGE]... DIRECTORY...

Lists every ELF file below the directories, and the Debian packages of this host that have the
libraries that these files need. --built-with names packages that the build used.  Libraries and
compilers that kiln opens at run time are not listed.  Needs dpkg-query, ldconfig and readelf.  The
output depends only on its input and SOURCE_DATE_EPOCH.
"""
import argparse
import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

FORMAT = "${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\t${Maintainer}\n"
HERE = "SPDXRef-kiln"


def run(*command):
    environment = dict(os.environ, LC_ALL="C", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return subprocess.run(command, check=True, text=True, capture_output=True,
                          env=environment).stdout


def elf_files(directory):
    """Yields the ELF programs and libraries below |directory|, sorted, without links and separate
    debug symbols."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".debug":
            with path.open("rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    yield path


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", str(path)))


def known_libraries():
    """Returns the path that the dynamic linker finds for the name of each shared library."""
    found = {}
    for name, path in re.findall(r"^\t(\S+) .*=> (\S+)$", run("ldconfig", "-p"), re.M):
        found.setdefault(name, path)
    return found


@functools.cache
def owner(path):
    """Returns the installed package that has the file |path|, under this path or under its path
    without links."""
    for name in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
        try:
            return run("dpkg-query", "--search", name).split(": ")[0].split(",")[0]
        except subprocess.CalledProcessError:
            continue
    raise LookupError(f"no installed package has '{path}'")


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name):
    """The SPDX package of the installed Debian package |name|."""
    row = run("dpkg-query", "--show", f"--showformat={FORMAT}", name).splitlines()[0].split("\t")
    binary, version, architecture, source, maintainer = row
    binary = binary.split(":")[0]
    return {"name": binary, "SPDXID": identifier("deb", binary), "versionInfo": version,
            "supplier": "Organization: " + re.sub(r"<(.*)>", r"(\1)", maintainer),
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION", "sourceInfo": f"source package {source}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{binary}@{version}?"
                                                  f"arch={architecture}"}]}


def described(path, name):
    content = path.read_bytes()
    sums = [{"algorithm": kind, "checksumValue": hashlib.new(kind, content).hexdigest()}
            for kind in ("SHA1", "SHA256")]
    return {"fileName": "./" + name, "SPDXID": identifier("file", name), "checksums": sums,
            "fileTypes": ["BINARY"], "licenseConcluded": "MIT", "copyrightText": "NOASSERTION"}


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def linked(directories):
    """Returns (files, packages by name, relationships) of all ELF files below |directories|."""
    found = [(path, path.relative_to(d).as_posix()) for d in directories for path in elf_files(d)]
    own = {path.name for path, _ in found} | {os.path.basename(link) for d in directories
                                             for link in d.rglob("*.so*")}
    libraries, packages, files, relations = known_libraries(), {}, [], []
    for path, name in found:
        files.append(described(path, name))
        relations.append(relation(HERE, "CONTAINS", files[-1]["SPDXID"]))
        for library in needed(path):
            if library in own:
                continue
            has = owner(libraries[library])
            packages.setdefault(has, package(has))
            relations.append(relation(files[-1]["SPDXID"], "DYNAMIC_LINK", packages[has]["SPDXID"]))
    return files, packages, relations


def unique(rows):
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())


def document(options):
    files, packages, relations = linked(options.directories)
    relations += [relation(HERE, "DEPENDS_ON", p["SPDXID"]) for p in packages.values()]
    for name in options.built_with:
        packages.setdefault(name, package(name))
        relations.append(relation(packages[name]["SPDXID"], "BUILD_DEPENDENCY_OF", HERE))
    kiln = {"name": "kiln", "SPDXID": HERE, "versionInfo": options.version,
            "supplier": "Organization: The kiln authors", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "MIT", "licenseDeclared": "MIT",
            "copyrightText": "2026 The kiln authors", "primaryPackagePurpose": "APPLICATION"}
    relations.insert(0, relation("SPDXRef-DOCUMENT", "DESCRIBES", HERE))
    content = {"packages": [kiln] + unique(packages.values()), "files": files,
               "relationships": unique(relations)}
    moment = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")),
                                             datetime.timezone.utc)
    mark = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"kiln-{options.version}",
            "documentNamespace": f"https://kiln.invalid/spdx/{mark}",
            "creationInfo": {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: kiln-gen_sbom"]}, **content}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--built-with", action="append", default=[])
    parser.add_argument("directories", nargs="+", type=pathlib.Path)
    print(json.dumps(document(parser.parse_args(arguments)), indent=1))


if __name__ == "__main__":
    sys.exit(main())

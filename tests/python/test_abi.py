# SPDX-License-Identifier: MIT
"""Compares the binding with the public headers, with the help of a C compiler."""
import ctypes
import os
import re
import shlex
import subprocess

import pytest

from conftest import SOURCE
from kiln import _abi, enums

INCLUDE = SOURCE / "libclient/include"
STRUCTS = {name: value for name, value in vars(_abi).items()
           if isinstance(value, type) and issubclass(value, ctypes.Structure)}
# Functions that the binding leaves out, because frameworks manage memory, streams and events
# themselves.
LEFT_OUT = re.compile(
    r"kiln_(admin_call|events|driver_flag|event_\w+|lease_\w+|library_\w+|memory_\w+"
    r"|conv_(?!(find|generation|plan_refresh|result_(free|generation|plan))$)\w+"
    r"|device_(?!(list|open|close|target|database_id|driver)$)\w+"
    r"|problem_from_driver|run_launch|stream_\w+)$")
# For each enum, the prefix of its members' names in C.
PREFIXES = {"ErrorCode": "KILN_E_", "Level": "KILN_LEVEL_", "Tier": "KILN_TIER_",
            "Priority": "KILN_", "Direction": "KILN_", "Layout": "KILN_", "DataType": "KILN_",
            "Tensor": "KILN_TENSOR_", "PlanSource": "KILN_PLAN_", "TuningTier": "KILN_TUNING_"}
NOT_IN_C = {"Role"}  # in C, roles are numbers that only a comment describes
C_TYPES = {ctypes.c_int: "int", ctypes.c_uint: "unsigned", ctypes.c_size_t: "size_t",
           ctypes.c_uint64: "uint64_t", ctypes.c_uint32: "uint32_t", ctypes.c_double: "double",
           ctypes.c_char_p: "char *", None: "void"}
# Pairs of types that ctypes cannot tell apart, because they have the same size.
SAME = {"size_t": "uint64_t", "unsigned": "uint32_t"}


def compiler(*arguments, text):
    command = shlex.split(os.environ.get("CC", "cc"))
    try:
        return subprocess.run([*command, "-I", INCLUDE, *arguments], input=text, text=True,
                              check=True, capture_output=True, timeout=60).stdout
    except FileNotFoundError:
        pytest.skip(f"no C compiler here: '{command[0]}'")


def c_name(struct):
    return "kiln_" + re.sub(r"(?<!^)(?=[A-Z])", "_", struct).lower()


@pytest.fixture(scope="module")
def headers():
    """Returns the declarations of all public headers, without comments, one on each line."""
    text = compiler("-E", "-P", "-x", "c", "-", text="#include <kiln/kiln.h>\n")
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """Returns {"struct.field": (offset, size), "struct": size, "NAME": value}, from a C program's
    output."""
    lines = []
    for name, struct in STRUCTS.items():
        c = f"struct {c_name(name)}"
        lines.append(f'printf("{name} %zu\\n", sizeof({c}));')
        for field, *_ in struct._fields_:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({c}, {field}), '
                         f"sizeof((({c} *)0)->{field}));")
    for kind, prefix in PREFIXES.items():
        for member in getattr(enums, kind):
            lines.append(f'printf("{kind}.{member.name} %d\\n", (int){prefix}{member.name});')
    program = tmp_path_factory.mktemp("abi") / "facts"
    compiler("-x", "c", "-", "-o", program, text="#include <kiln/kiln.h>\n#include <stdio.h>\n"
             "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n")
    printed = subprocess.run([program], check=True, capture_output=True, text=True,
                             timeout=60).stdout
    return {name: tuple(map(int, values))
            for name, *values in (line.split() for line in printed.splitlines())}


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_have_the_layout_of_the_c_headers(name, facts, headers):
    struct = STRUCTS[name]
    assert facts[name] == (ctypes.sizeof(struct),)
    for field, *_ in struct._fields_:
        place = getattr(struct, field)
        assert facts[f"{name}.{field}"] == (place.offset, place.size), field
    body = body_of(name, headers)
    assert members(body) == [field for field, *_ in struct._fields_]


def body_of(name, headers):
    """Returns the members of a struct. A pointer to a function counts as a void *."""
    body = re.search(r"struct %s \{(.*?)\};" % c_name(name), headers).group(1)
    return re.sub(r"\w+ \(\*(\w+)\)\([^)]*\)", r"void *\1", body)


def members(body):
    """Returns the names in the order of their declarations."""
    declared = re.split("[;,]", body)
    return [re.search(r"(\w+)\s*(\[\w+\])?\s*$", part).group(1)
            for part in declared if part.strip()]


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_members_have_the_types_of_the_c_headers(name, headers):
    """Compares the types of members by name. Sizes do not suffice, because a pointer and a size_t
    have the same size, like an int and an unsigned."""
    body = body_of(name, headers)
    for declaration in filter(str.strip, body.split(";")):
        first, *more = declaration.split(",")
        for part in (first, *(first.split()[0] + " " + other for other in more)):
            field = members(part)[0]
            kind = dict(STRUCTS[name]._fields_)[field]
            kind = kind._type_ if issubclass(kind, ctypes.Array) else kind
            declared = part[:re.search(r"\b%s\b\s*(\[\w+\])?\s*$" % field, part).start()]
            if "*" in first:
                declared = first[:first.rindex("*") + 1]
            assert written(kind) == plain(declared), field


def plain(c_type):
    """Returns a type of C in the same form as written()."""
    text = re.sub(r"\b(const|struct)\b", "", c_type)
    text = re.sub(r"\s+", " ", text.replace("*", " * ")).strip()
    text = re.sub(r"^\w+", lambda word: SAME.get(word[0], word[0]), text)
    handle = re.fullmatch(r"kiln_\w+ ((\* )*\*)", text)
    if handle and text.split()[0] not in map(c_name, STRUCTS):
        text = "void " + handle.group(1)
    return text


def written(kind):
    """Returns a type of ctypes as C would write it. An opaque handle is a void *."""
    if kind is ctypes.c_void_p:
        return "void *"
    if kind in CALLBACKS:
        return plain(CALLBACKS[kind] + " *")
    if kind is ctypes.c_char:
        return "char"
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        return c_name(next(name for name, struct in STRUCTS.items() if struct is kind))
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        return plain(written(kind._type_) + " *")
    return plain(C_TYPES[kind])


def parameters(text):
    """Returns the types in a C parameter list."""
    if text.strip() == "void":
        return []
    found = []
    for part in text.split(","):
        part = re.sub(r"(\w+)\s*\[\w*\]\s*$", r"*\1", part)
        found.append(plain(re.sub(r"(?<=[\s*])\w+\s*$", "", part)))
    return found


CALLBACKS = {_abi.KernelReady: "kiln_kernel_ready", _abi.PlanReady: "kiln_plan_ready",
             _abi.DeviceFound: "kiln_device_found"}


@pytest.mark.parametrize("name,result,arguments", _abi.FUNCTIONS,
                         ids=[name for name, *_ in _abi.FUNCTIONS])
def test_functions_have_the_types_of_the_c_headers(name, result, arguments, headers):
    found = re.search(r"([\w ]+[ *]+)\b%s\(([^;]*)\);" % name, headers)
    assert found, "the headers have no such function"
    assert written(result) == plain(found.group(1))
    assert [written(a) for a in arguments] == parameters(found.group(2))


@pytest.mark.parametrize("callback", CALLBACKS, ids=CALLBACKS.get)
def test_callbacks_have_the_types_of_the_c_headers(callback, headers):
    found = re.search(r"typedef (\w+) %s\(([^;]*)\);" % CALLBACKS[callback], headers)
    assert written(callback._restype_) == found.group(1)
    assert [written(a) for a in callback._argtypes_] == parameters(found.group(2))


@pytest.mark.parametrize("kind", PREFIXES)
def test_enums_have_the_values_of_the_c_headers(kind, facts, headers):
    for member in getattr(enums, kind):
        assert facts[f"{kind}.{member.name}"] == (member.value,), member
    # The binding must lack no member. So find C's enum by its first member, and compare the numbers
    # of members.
    first = PREFIXES[kind] + next(iter(getattr(enums, kind))).name
    bodies = re.findall(r"enum \{([^}]*)\}", headers)
    body = next(b for b in bodies if re.search(rf"\b{first}\b", b))
    assert len([m for m in body.split(",") if m.strip()]) == len(getattr(enums, kind))


def test_every_enum_is_compared():
    kinds = {name for name, value in vars(enums).items()
             if isinstance(value, type) and issubclass(value, enums.IntEnum)} - {"IntEnum"}
    assert kinds == set(PREFIXES) | NOT_IN_C


def test_every_export_is_bound_or_left_out():
    exports = set(re.findall(r"\b(kiln_\w+);", (SOURCE / "libclient/exports.map").read_text()))
    bound = {name for name, *_ in _abi.FUNCTIONS}
    assert bound <= exports
    left_out = {name for name in exports if LEFT_OUT.match(name)}
    assert not left_out & bound
    assert exports == bound | left_out

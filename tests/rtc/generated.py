# SPDX-License-Identifier: MIT
"""Generates programs with options, names, files and calls, for tests of libkiln-rtc with NVRTC.

A case has two variants, A and B. B differs from A in one input, or in none. A result of A that
libkiln-rtc uses for B although it must not shows as a difference from NVRTC itself.
"""
import copy
import dataclasses
import random

OUTPUTS = ("CUBIN", "PTX", "LTOIR", "OptiXIR", "ProgramLog")


@dataclasses.dataclass
class Variant:
    """The inputs of a program, and the calls that the program makes. In texts, @ stands for the
    directory of the case."""
    source: str = ""
    name: str | None = None
    headers: dict = dataclasses.field(default_factory=dict)  # given in memory
    files: dict = dataclasses.field(default_factory=dict)  # on disk, by path below the directory
    expressions: list = dataclasses.field(default_factory=list)
    options: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    directory: str = "."  # the current directory, below that of the case
    calls: list = dataclasses.field(default_factory=list)


def maybe(r, probability):
    return r.random() < probability


# ---- sources ----

STATEMENTS = (
    "x[i] = sinf(x[i]) * {n};", "for (int j = 0; j < {n}; j++) x[i] += x[j];",
    "__shared__ float s[{n}]; s[i % {n}] = x[i]; __syncthreads(); x[i] = s[0];",
    "if (i < {n}) x[i] = 1.0f / x[i];", "x[i] = sqrtf(x[i]) + {n}.5f;",
    "x[i] = fmaf(x[i], {n}.0f, x[0]);", "atomicAdd(x, {n}.0f);", "double d = x[i]; x[i] = d * {n};")
WARNINGS = ("int unused{n};", "return; x[i] = 0;", "unsigned u = -{n}; if (u < 0) x[i] = 1;")
PARTS = (  # declarations, statements, name expressions
    ("static __device__ int counter{n};", "counter{n}++;", []),
    ("namespace {{ __device__ int hidden{n}; }}", "hidden{n}++;", []),
    ("static __device__ float f{n}(float a) {{ return a * {n}; }}", "x[i] = f{n}(x[i]);", []),
    ("__constant__ float c{n}[4];", "x[i] += c{n}[1];", ["&c{n}"]),
    ("namespace ns {{ __device__ int v{n}; }}", "ns::v{n} = i;", ["&ns::v{n}", "ns::v{n}"]),
    ("template <class T, int N> __global__ void t{n}(T *y) {{ y[0] = N; }}", "",
     ["t{n}<float, 3>", "t{n}<int,1>", "t{n}< float ,3>", "&t{n}<double, 2>"]),
    ("__device__ const char *where{n} = __FILE__;", "x[i] += where{n}[i];", []),
    ("", "x[i] += __LINE__;", []), ("", "x[i] += sizeof(__FILE__);", []),
    ("#line {n} \"other.cu\"", "", []),
    ("#define CHECK{n}(c) ((c) ? 0 : report(__FILE__, __LINE__))\n"
     "__device__ int report(const char *f, int l) {{ return f[0] + l; }}", "CHECK{n}(x[i]);", []),
    ("#ifdef N\n__device__ int defined{n} = N;\n#endif", "", []),
    ("#ifdef HERE\n__device__ const char *here{n} = HERE;\n#endif", "", []),
    ("#ifdef WHERE\n__device__ int size{n} = sizeof(WHERE);\n#endif", "", []),
    ("#define JOIN{n}(a, b) a##b", "x[i] += sizeof(JOIN{n}(__FI, LE__));", []),
    ("", "x[i] += sizeof(__BASE_FILE__);", []),
    ("#ifdef PLACE\n__device__ int place{n} = sizeof(PLACE);\n#endif", "", []),
    ("#warning number {n}", "", []))
TIME = "const char *seconds{n}() {{ return __TIME__; }}"
ERRORS = ("#error number {n}", "int broken{n} = undeclared;", "void f{n}( {{",
          "#include \"none{n}.h\"")


def add_body(r, v):
    """Adds declarations, a kernel and name expressions."""
    n = r.randrange(2, 1000)
    declarations, statements = [], []
    for declaration, statement, expressions in r.sample(PARTS, r.choice((0, 1, 1, 2, 3))):
        declarations.append(declaration.format(n=n))
        statements.append(statement.format(n=n))
        v.expressions += [e.format(n=n) for e in r.sample(expressions, min(len(expressions), 2))]
    statements += [s.format(n=n) for s in r.sample(STATEMENTS, r.choice((1, 1, 2)))]
    if maybe(r, 0.03):
        declarations.append(TIME.format(n=n))
    if maybe(r, 0.15):
        statements.append(r.choice(WARNINGS).format(n=n))
    if maybe(r, 0.05):
        declarations.append(r.choice(ERRORS).format(n=n))
    linkage = 'extern "C" ' if maybe(r, 0.7) else ""
    v.source += "\n".join([*declarations, linkage + f"__global__ void k{n}(float *x, int i) {{",
                           *statements, "}"]) + "\n"
    if maybe(r, 0.3):
        v.expressions.append(f"k{n}")
    if maybe(r, 0.02):
        v.expressions.append("nothing" + str(n))
    r.shuffle(v.expressions)


HEADER_TEXTS = (
    "#define FROM_HEADER {n}\n", "__device__ inline int h{n}() {{ return {n}; }}\n",
    "static __device__ int in_header{n};\n", "#warning in a header {n}\n",
    "__device__ const char *header{n} = __FILE__;\n", "#pragma once\nstruct s{n} {{ int a; }};\n",
    "#define WHERE __FILE__\n__device__ int line{n} = __LINE__;\n",
    "#define PLACE WHERE\n", "__device__ int main_file{n} = sizeof(__BASE_FILE__);\n",
    "#define CALL{n}(c) ((c) ? 0 : sizeof(__builtin_FILE()))\n")
TIME_HEADER = "#define CLOCK __TIME__\n__device__ const char *at{n}() {{ return CLOCK; }}\n"


def header_text(r):
    text = TIME_HEADER if maybe(r, 0.03) else r.choice(HEADER_TEXTS)
    return text.format(n=r.randrange(1000))



def add_headers(r, v):
    """Adds headers in memory and on disk."""
    for i in range(r.choice((0, 0, 0, 1, 2))):
        name = f"memory/{i}.h" if maybe(r, 0.3) else f"memory{i}.h"
        v.headers[name] = header_text(r)
        v.source += r.choice((f'#include "{name}"\n', f"#include <{name}>\n"))
    for i in range(r.choice((0, 0, 0, 1, 2, 4))):
        directory = r.choice(("first", "second", "third", "sub", "."))
        v.files[f"{directory}/disk{i}.h"] = header_text(r)
        v.source += r.choice((f'#include "disk{i}.h"\n', f"#include <disk{i}.h>\n",
                              f'#if __has_include("disk{i}.h")\n#include "disk{i}.h"\n#endif\n'))
    if v.files or maybe(r, 0.1):
        root = r.choice(("@/", "", "./"))
        for directory in r.sample(("first", "second", "third"), 3):
            v.options += r.choice(([f"-I{root}{directory}"], [f"--include-path={root}{directory}"],
                                   ["-I", root + directory]))
    if v.files and maybe(r, 0.2):
        v.files["second/nested.h"] = '#include "deeper.h"\n'
        v.files[r.choice(("second/deeper.h", "third/deeper.h"))] = "#define DEEPER 1\n"
        v.source += "#include <nested.h>\n"


# ---- options ----

ARCHITECTURES = (["-arch=sm_90"], ["-arch=sm_80"], ["--gpu-architecture=sm_90"],
                 ["-arch=compute_90"], ["--gpu-architecture=compute_80"], ["-arch", "sm_90"],
                 ["-arch=sm_90a"], [], ["-arch=sm_100"])
# Not here: --restrict and --optimization-info, which NVRTC also uses for later programs of the
# process. A process with libkiln-rtc compiles fewer programs, so later results would differ.
OPTIONS = (
    ["-dlto"], ["-lineinfo"], ["-G"], ["-DN=3"], ["-D", "N=4"], ["-DHERE=__FILE__"],
    ["--define-macro=N=5"], ["-UN"], ["--std=c++17"], ["--std=c++20"], ["-std=c++14"],
    ["-default-device"], ["--maxrregcount=32"], ["--ftz=true"], ["-ftz=false"],
    ["--prec-div=false"], ["--prec-sqrt=false"], ["--fmad=false"], ["--use_fast_math"],
    ["-w"], ["--display-error-number"], ["--no-display-error-number"],
    ["--diag-suppress=177"], ["--diag-error=177"], ["-rdc=true"], ["-dc"],
    ["--extra-device-vectorization"], ["--device-int128"], ["--no-source-include"], ["--minimal"],
    ["-ewp"], ["--frandom-seed=7"], ["--brief-diagnostics=true"],
    ["--version-ident=true"], ["--ptxas-options=-v"], ["-Xptxas", "-O1"], ["--dopt=on", "-G"],
    ["--fdevice-syntax-only"], ["--optix-ir"], ["--no-cache"])
# With these options, most compiles fail, or libkiln-rtc does not request them from kilnd.
RARE_OPTIONS = (["--pre-include=first/disk0.h"], ["--unheard-of"], ["-time=@/times.csv"], ["k.cu"],
                [""], ["--std=c++99"], ["--maxrregcount=none"], ["-arch=sm_1"], ["-DN=("])


def add_options(r, v):
    v.options += r.choice(ARCHITECTURES)
    for option in r.sample(OPTIONS, r.choice((0, 0, 1, 1, 2, 3))):
        v.options += option
    if maybe(r, 0.05):
        v.options += r.choice(RARE_OPTIONS)


# ---- names ----

def name_of(r):
    return r.choice((None, None, "", "k.cu", "other.cu", "sub/k.cu", "@/sub/k.cu", "@/first/k.cu",
                     "/tmp/{}/{:08x}.cubin.cu".format(r.randrange(10 ** 9), r.randrange(1 << 32)),
                     "/tmp/{}/kernel.cu".format(r.randrange(10 ** 9)), "a b'\u00fc.cu", "x.cpp"))


# ---- calls ----

def outputs(r):
    """Returns calls for all outputs in some order."""
    calls = [f"size {o}" for o in OUTPUTS] + [f"get {o}" for o in OUTPUTS]
    if maybe(r, 0.6):
        r.shuffle(calls)
    return calls


def calls_of(r, v):
    names = [f"add {i}" for i in range(len(v.expressions))]
    lowered = [f"lowered {i}" for i in range(len(v.expressions))]
    usual = ["create", *names, "compile", *outputs(r), *lowered, "destroy"]
    compiled = usual.index("compile")
    kind = r.randrange(24)
    if kind == 0:  # getters before the compile
        return [*usual[:compiled], *outputs(r), *lowered, *usual[compiled:]]
    if kind == 1:  # the program compiles twice
        return [*usual[:compiled], "compile", *r.sample(outputs(r), 2), *usual[compiled:]]
    if kind == 2:
        return [*usual[:compiled], "compile", "compile more", *outputs(r), *lowered, "destroy"]
    if kind == 3:  # no compile
        return [*usual[:compiled], "destroy"]
    if kind == 4:  # a name expression after the compile
        return [*usual[:-1], "add other", "lowered other", *outputs(r), "destroy"]
    if kind == 5:  # calls that fail
        return ["create nothing", *usual[:compiled], "compile nothing", "add nothing",
                *usual[compiled:-1], "size nothing", "get nothing", "lowered nothing",
                *outputs(r), "destroy", "destroy"]
    if kind == 6:  # functions that libkiln-rtc does not know
        return [*usual[:-1], "pch", *outputs(r), "destroy", "version"]
    if kind == 7:  # a function that NVRTC calls while it compiles
        return ["create", *names, r.choice(("callback 0", "callback 1")), *usual[compiled:]]
    return usual


# ---- variants ----

def change(r, v, kind):
    """Changes one input of |v|."""
    if kind == "name":
        v.name = name_of(r)
    elif kind == "option":
        v.options += r.choice(OPTIONS + RARE_OPTIONS)
    elif kind == "source":
        v.source += f"__device__ int more{r.randrange(1000)};\n"
    elif kind == "memory" and v.headers:
        v.headers[r.choice(list(v.headers))] += "#define MORE 1\n__device__ int more;\n"
    elif kind == "edit" and v.files:
        v.files[r.choice(list(v.files))] += "__device__ int edited;\n"
    elif kind == "remove" and v.files:
        del v.files[r.choice(list(v.files))]
    elif kind == "appear" and v.files:
        name = r.choice(list(v.files)).rpartition("/")[2]
        directory = r.choice(("first", "second", "sub", "."))
        v.files[f"{directory}/{name}"] = "__device__ int appeared;\n"
    elif kind == "directory":
        v.directory = r.choice(("sub", "first"))
    elif kind == "expression":
        v.expressions.reverse()
    elif kind == "environment":
        v.environment["NVRTC_APPEND_FLAGS"] = r.choice(("-lineinfo", "-DN=9", "--ftz=true"))


KINDS = ("nothing", "name", "name", "name", "option", "source", "memory", "edit", "edit", "remove",
         "appear", "appear", "directory", "directory", "expression", "environment")


def generate(seed):
    """Returns variants A and B of the case with the number |seed|."""
    r = random.Random(seed)
    a = Variant(source=f"// case {seed}\n", name=name_of(r))
    add_headers(r, a)
    add_body(r, a)
    add_options(r, a)
    if maybe(r, 0.02):
        a.environment["NVRTC_APPEND_FLAGS"] = r.choice(("-lineinfo", "-DN=9", "--ftz=true"))
    b = copy.deepcopy(a)
    change(r, b, r.choice(KINDS))
    a.calls, b.calls = calls_of(r, a), calls_of(r, b)
    return a, b

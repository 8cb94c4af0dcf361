# SPDX-License-Identifier: MIT
"""Measures what libkiln-rtc costs: answered compiles, stored compiles, the start of a process.

Usage: bench_rtc.py --bin DIR --work DIR [--quick]

Prints JSON lines, as the other benchmarks do. Each value is the minimum of many calls, because
other processes can only add to it. A compile by NVRTC or comgr takes much longer than a time slice,
so its value is processor time.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

PATHS_ABSENT, PATHS_READ = 198, 116  # what CuPy 14 examines for one kernel
SOURCE = "__global__ void k(float *x) { x[0] = 1; }\n" + "// as long as a kernel of PyTorch\n" * 400
NVRTC = "/usr/local/cuda/lib64/libnvrtc.so.13"
COMGR = "/usr/lib/x86_64-linux-gnu/libamd_comgr.so.2"
COMGR_KERNELS = {  # for each chain of actions, the name and text of a source
    "opencl": ("k.cl", "__kernel void k(__global float *x) { x[0] = sin(x[1]); }"),
    "assembly": ("k.s", ".text\n.globl k\n.type k,@function\nk:\n  s_endpgm\n"),
}
# For each compiler that kiln-cc starts: its path, and the name, text and options of a source.
LAUNCHED = {
    "clang": (shutil.which("clang-19", path="/usr/bin:/usr/lib/llvm-19/bin"), "k.hip",
              'extern "C" __attribute__((global)) void k(float *x) { *x = 1.0f; }\n',
              ["-x", "hip", "--offload-arch=gfx942", "--cuda-device-only", "-nogpuinc", "-nogpulib",
               "--no-gpu-bundle-output", "-O3", "-c"]),
    "ptxas": ("/usr/local/cuda/bin/ptxas", "k.ptx",
              ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { "
              ".reg .b64 %r; ld.param.u64 %r, [p]; st.global.u32 [%r], 1; ret; }\n",
              ["--gpu-name=sm_90"]),
}
LAUNCHES = 25
READY_MAX_S = 30
RUN_MAX_S = 300
PR_SET_PDEATHSIG = 1


class Compiler:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.buffer = ctypes.create_string_buffer(1 << 20)

    def create(self, source):
        program = ctypes.c_void_p()
        assert self.library.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None,
                                               None) == 0
        return program

    def destroy(self, program):
        self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def compile(self, source, options):
        """Makes the calls that a program makes for one kernel. Returns the size of the result."""
        program, size = self.create(source), ctypes.c_size_t()
        given = (ctypes.c_char_p * len(options))(*options)
        assert self.library.nvrtcCompileProgram(program, len(options), given) == 0
        assert self.library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
        assert self.library.nvrtcGetCUBIN(program, self.buffer) == 0
        self.destroy(program)
        return size.value


def minimum_us(count, call, clock=time.perf_counter_ns):
    best = float("inf")
    for i in range(count):
        begin = clock()
        call(i)
        best = min(best, clock() - begin)
    return best / 1e3


def minimum_of_create(compiler, count, source):
    return minimum_us(count, lambda i: compiler.destroy(compiler.create(source)))


def child_hit(path, count, source, *options):
    """Prints the time of an answered compile, and how much of it the library itself needs."""
    compiler, given = Compiler(path), [o.encode() for o in options]
    compiler.compile(source.encode(), given)
    print(json.dumps({
        "hit_us": minimum_us(int(count), lambda i: compiler.compile(source.encode(), given)),
        "create_us": minimum_of_create(compiler, int(count), source.encode())}))


def child_store(path, count, first, source, *options):
    """Prints the time of a compile that no process has done before. The compiler is a fast fake
    one."""
    compiler, given = Compiler(path), [o.encode() for o in options]
    compiler.compile(b"// first", given)
    print(json.dumps({"store_us": minimum_us(int(count), lambda i: compiler.compile(
        f"{source}// {int(first) + i}".encode(), given))}))


def child_miss(path, count, first):
    """Prints the processor time of a compile that no process has done before. This process
    compiles, because kilnd does not compile programs with a directory among their options."""
    compiler, options = Compiler(path), [b"-arch=sm_90", b"-I/nowhere"]
    compiler.compile(b"__global__ void first() {}", options)
    def compile_new(i):
        text = f"__global__ void k(float *x) {{ x[0] = sinf(x[{1000000 + int(first) + i}]); }}"
        compiler.compile(text.encode(), options)
    print(json.dumps({"miss_us": minimum_us(int(count), compile_new, time.process_time_ns)}))


def child_floor(path, count, key):
    """Prints the time in which libkiln fetches one kernel."""
    libkiln = ctypes.CDLL(path)
    class Options(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("socket_path", ctypes.c_char_p),
                    ("timeout_ms", ctypes.c_int), ("name", ctypes.c_char_p),
                    ("cache_entries", ctypes.c_int), ("fallback", ctypes.c_char_p)]
    options = Options(size=ctypes.sizeof(Options), cache_entries=-1, fallback=b"off")
    client = ctypes.c_void_p()
    assert libkiln.kiln_client_open(ctypes.byref(options), ctypes.byref(client), None) == 0
    libkiln.kiln_kernel_unref.argtypes = [ctypes.c_void_p]
    def fetch(_):
        kernel = ctypes.c_void_p()
        assert libkiln.kiln_kernel_fetch(client, key.encode(), 10000, ctypes.byref(kernel),
                                         None) == 0
        libkiln.kiln_kernel_unref(kernel)
    print(json.dumps({"fetch_us": minimum_us(int(count), fetch)}))


CHILDREN = {"hit": child_hit, "store": child_store, "miss": child_miss, "floor": child_floor}


class Bench:
    def __init__(self, options):
        self.build = options.bin.parent
        self.work = options.work
        self.count = 300 if options.quick else 2000
        self.rounds = 2 if options.quick else 5
        self.preload = str(self.build / "lib/libkiln-rtc.so.0")
        self.fake = str(self.build / "tests/rtc/libnvrtc.so.99")
        self.environment = dict(
            os.environ, KILN_SOCKET=str(self.work / "kilnd.sock"), KILN_FALLBACK="off",
            KILN_RTC_PATIENCE="60000", HOME=str(self.work), XDG_CONFIG_HOME=str(self.work),
            LD_LIBRARY_PATH=str(self.build / "tests/rtc"))
        self.kilnd = None

    def start(self):
        libc = ctypes.CDLL(None)
        self.kilnd = subprocess.Popen(
            [self.build / "bin/kilnd", "--socket", self.environment["KILN_SOCKET"], "--cache-dir",
             self.work / "cache", "--state-dir", self.work / "state"],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        end = time.monotonic() + READY_MAX_S
        while subprocess.run([self.build / "bin/kilnctl", "ping"], env=self.environment,
                             capture_output=True, check=False).returncode:
            if time.monotonic() > end:
                raise RuntimeError(f"kilnd was not ready within {READY_MAX_S} s")
            time.sleep(0.01)

    def stop(self):
        self.kilnd.terminate()
        self.kilnd.wait(READY_MAX_S)

    def run(self, preload, name, *arguments):
        environment = dict(self.environment, **({"LD_PRELOAD": self.preload} if preload else {}))
        done = subprocess.run([sys.executable, "-B", __file__, "--child", name,
                               *map(str, arguments)], env=environment, text=True,
                              stdout=subprocess.PIPE, timeout=RUN_MAX_S, check=True)
        return json.loads(done.stdout)

    def largest_key(self):
        """Returns the key of the largest stored result."""
        done = subprocess.run([self.build / "bin/kilnctl", "kernel", "ls", "--json"],
                              env=self.environment, text=True, stdout=subprocess.PIPE, check=True)
        return max(json.loads(done.stdout)["kernels"], key=lambda k: k["size"])["key"]

    def print(self, what, **values):
        print(json.dumps({"bench": "rtc", "what": what, **values}), flush=True)

    def measure_hits(self, what, source, options):
        """Measures answered compiles, each time next to libkiln's fetch of the same result."""
        self.run(True, "hit", self.fake, 1, source, *options)
        key = self.largest_key()
        for _ in range(self.rounds):
            hit = self.run(True, "hit", self.fake, self.count, source, *options)
            plain = self.run(False, "hit", self.fake, 20, source, *options)
            floor = self.run(False, "floor", self.build / "lib/libkiln.so.0", self.count, key)
            self.print(what, hit_us=hit["hit_us"] - plain["create_us"],
                       fetch_us=floor["fetch_us"])

    def measure_stores(self, what, source, options):
        """Measures how much longer a compile takes if its result is stored."""
        count = self.count // 10
        for i in range(self.rounds):
            bare = self.run(False, "store", self.fake, count, i * count, source, *options)
            store = self.run(True, "store", self.fake, count, i * count, source, *options)
            self.print(what, bare_us=bare["store_us"], store_us=store["store_us"])

    def write_headers(self):
        """Writes headers so that a compile reads PATHS_READ files and misses PATHS_ABSENT paths.
        Returns a source and options."""
        directories = [self.work / name for name in ("a", "b", "c")]
        for directory in directories:
            directory.mkdir()
        for i in range(PATHS_READ):
            directory = directories[2 if i < PATHS_ABSENT // 2 else 0]
            (directory / f"{i}.h").write_text(f"int a{i};\n" * 20)
        time.sleep(0.1)  # libkiln-rtc does not trust a file that is as new as the compile
        source = "".join(f'#include "{i}.h"\n' for i in range(PATHS_READ))
        return source, [f"-I{directory}" for directory in directories]

    def measure_misses(self):
        if not os.path.exists(NVRTC):
            print(f"bench: {NVRTC} is not here, so no compile is measured", file=sys.stderr)
            return
        count = 20 if self.count < 1000 else 40
        for i in range(self.rounds):
            bare = self.run(False, "miss", NVRTC, count, i * count)
            miss = self.run(True, "miss", NVRTC, count, i * count)
            self.print("miss", bare_us=bare["miss_us"], miss_us=miss["miss_us"])

    def comgr_us(self, preload, chain, count):
        """Returns the processor time of a process that compiles a kernel |count| times."""
        name, source = COMGR_KERNELS[chain]
        environment = dict(self.environment, **({"LD_PRELOAD": self.preload} if preload else {}))
        job = subprocess.Popen(
            [self.build / "tests/rtc/kiln_comgr_job", "--library", COMGR, "--chain", chain,
             "--name", name, *[source] * count], env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(job.pid, 0)
        assert status == 0
        return (usage.ru_utime + usage.ru_stime) * 1e6

    def measure_comgr(self):
        """Measures a kernel when comgr compiles it, and when kilnd answers instead."""
        if not os.path.exists(COMGR):
            print(f"bench: {COMGR} is not here, so comgr is not measured", file=sys.stderr)
            return
        for chain in COMGR_KERNELS:
            self.comgr_us(True, chain, 1)
            for _ in range(self.rounds):
                each = [(self.comgr_us(preload, chain, 1 + count)
                         - self.comgr_us(preload, chain, 1)) / count
                        for preload, count in ((False, 5), (True, 100))]
                self.print("comgr_" + chain, bare_us=each[0], hit_us=each[1])

    def launch(self, *command):
        subprocess.run([*map(str, command)], env=self.environment, cwd=self.work, check=True,
                       timeout=RUN_MAX_S)

    def measure_launcher(self):
        """Measures a compiler that is started as a program, and kiln-cc when kilnd answers."""
        for what, (compiler, name, text, options) in LAUNCHED.items():
            if not compiler or not os.path.exists(compiler):
                print(f"bench: {what} is not here, so kiln-cc is not measured with it",
                      file=sys.stderr)
                continue
            (self.work / name).write_text(text)
            time.sleep(0.1)  # libkiln-rtc does not trust a file that is as new as the compile
            plain = [compiler, *options, name, "-o", "k.o"]
            self.launch(self.build / "bin/kiln-cc", *plain)
            for _ in range(LAUNCHES):
                self.print("launch_" + what, bare_us=minimum_us(1, lambda i: self.launch(*plain)),
                           hit_us=minimum_us(1, lambda i: self.launch(
                               self.build / "bin/kiln-cc", *plain)))

    def measure_start(self):
        with_library = dict(self.environment, LD_PRELOAD=self.preload)
        def start(environment):
            os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)
        for _ in range(self.rounds):
            self.print("start", bare_us=minimum_us(self.count // 4,
                                                   lambda i: start(self.environment)),
                       start_us=minimum_us(self.count // 4, lambda i: start(with_library)))

    def measure(self):
        source, options = self.write_headers()
        self.measure_hits("memory", SOURCE, [])
        self.measure_hits("files", source, options)
        self.measure_stores("store_memory", SOURCE, [])
        self.measure_stores("store_files", source, options)
        self.measure_misses()
        self.measure_comgr()
        self.measure_launcher()
        self.measure_start()


def main():
    if sys.argv[1:2] == ["--child"]:
        CHILDREN[sys.argv[2]](*sys.argv[3:])
        return
    p = argparse.ArgumentParser(description="Measure libkiln-rtc.")
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--quick", action="store_true")
    options = p.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    bench = Bench(options)
    bench.start()
    try:
        bench.measure()
    finally:
        bench.stop()


if __name__ == "__main__":
    main()

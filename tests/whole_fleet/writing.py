# SPDX-License-Identifier: MIT
"""Scenarios of hosts that write to an object store, and of processes that are killed."""
from __future__ import annotations

import functools
import os
import pathlib
import shutil
import signal
import subprocess
import time

import hosts
import stores
from reading import check_cold_node, read_together
from scene import PREFIX, Scene, at_once, expect, expect_equal, expect_quick

UPLOAD_MAX_S = 180.0
RATIO_MAX = 1.3
LATE_S = 2.0


class Stage(Scene):
    """A scene with an object store, and nginx in front of it."""
    store: stores.Store
    front_of_store: stores.Front

    @property
    def url(self) -> str:
        return f"{self.front_of_store.url}/{PREFIX}"

    def clear(self) -> None:
        client = self.store.client()
        while names := client.names(PREFIX):
            for name in names:
                client.must("DELETE", name)

    def writer(self, place: int | None = 0, *settings: str) -> hosts.Host:
        host = self.host(place)
        host.start(*self.settings(self.url, writes=True), *settings, user=self.store.builder)
        return host

    def loose(self) -> list[str]:
        return self.store.client().names(f"{PREFIX}/v1/k/")

    def await_uploads(self) -> None:
        stores.wait_until("uploads", lambda: len(self.loose()) >= self.cold.kernels, UPLOAD_MAX_S)

    def publish(self) -> dict[str, int]:
        """Compacts the tree in the store."""
        url = f"http://127.0.0.1:{stores.STORE_PORT}/{PREFIX}"
        return self.compact(url, user=self.store.builder)


def store_conditions(stage: Stage) -> str:
    """what the store does with If-None-Match, and whether kilnd uses leases"""
    found = stores.conditions(stage.store)
    host = stage.writer()
    stores.wait_until("the host to know whether leases work",
                      lambda: host.leases() in ("on", "off"), UPLOAD_MAX_S)
    expect_equal(f"leases, if conditions are {found}", host.leases(),
                 "on" if found == "honoured" else "off")
    return f"conditions {found}; leases {host.leases()}"


def write_and_read(stage: Stage) -> str:
    """a builder's kilnd adds its kernels, and a cold host takes them all"""
    host = stage.writer()
    host.prefetch()
    stage.await_uploads()
    expect_equal("kernels in the index", stage.publish()["kernels"], stage.cold.kernels)
    reader = stage.reader(stage.url, 1, user=stage.store.reader)
    return check_cold_node(stage, reader, stage.front_of_store)


def compact_again(stage: Stage) -> str:
    """a second compaction replaces the pointer, and a cold host takes the kernels of both"""
    host = stage.writer()
    host.prefetch()
    stage.await_uploads()
    client, name = stage.store.client(), stage.loose()[0]
    record = client.must("GET", name)
    client.must("DELETE", name)
    expect_equal("kernels in the index", stage.publish()["kernels"], stage.cold.kernels - 1)
    client.must("PUT", name, record)
    result = stage.publish()
    expect_equal("new kernels in the second index", result["kernels"], 1)
    reader = stage.host(1)
    reader.start("--fleet-wait", "30s", *stage.settings(stage.url), user=stage.store.reader)
    reader.prefetch()
    stage.expect_all_from_fleet(reader)
    return f"conditions {'honoured' if result['conditions'] else 'not honoured'}"


def wrong_secret(stage: Stage) -> str:
    """a wrong secret key of the store is counted as a refusal, not a miss, and no job fails"""
    user = stores.User(stage.store.reader.access, "another-secret")
    if stage.store.client(user).ask("GET", f"{stores.BUCKET}/absent").status != 403:
        return "not tried: this store accepts any secret key"
    host = stage.reader(stage.url, user=user)
    host.prefetch()
    stage.expect_all_compiled(host)
    expect(host.metric("fleet_requests_total", result="forbidden") > 0, "no refusal was counted")
    return "counted as forbidden"


def cold_fleet(stage: Stage) -> str:
    """all hosts start with empty caches at the same time: together, they compile each kernel once.
    The time is that of one host's compiles, and of as many hosts that only read"""
    writers = [stage.host(place) for place in range(stage.wires.hosts)]
    for host in writers: # many of these kernels are expected to take less than 500 ms
        host.launch(*stage.PATIENT, "--fleet-lease", "0s",
                    *stage.settings(stage.url, writes=True), user=stage.store.builder)
    at_once(hosts.Host.await_start, writers)
    for host in writers:
        stores.wait_until("leases", lambda host=host: host.leases() == "on",  # type: ignore[misc]
                          UPLOAD_MAX_S)
        host.try_compilers()
    begin = time.monotonic()
    at_once(hosts.Host.prefetch, writers)
    seconds = time.monotonic() - begin
    for host in writers:
        stage.expect_right_objects(host)
    compiled = sum(host.compiled() for host in writers)
    requests = stage.front_of_store.requests()
    stage.await_uploads()
    expect_equal("kernels in the index", stage.publish()["kernels"], stage.cold.kernels)
    stage.end()
    reading = read_together(stage, stage.front_of_store, stage.url, stage.store.reader)
    result = (f"{len(writers)} hosts: {compiled} compiles of {stage.cold.kernels} kernels, "
              f"{len(requests)} requests, {seconds:.1f} s; one host alone {stage.cold.seconds:.1f} "
              f"s, the hosts that only read {reading:.1f} s")
    expect(compiled == stage.cold.kernels, result)
    expect_quick(f"of {result}", seconds, RATIO_MAX * (stage.cold.seconds + reading))
    return result


def two_writers(stage: Stage) -> str:
    """two builders without leases compile everything, and add each kernel once"""
    writers = [stage.writer(place, "--fleet-lease", "1h") for place in (0, 1)]
    at_once(hosts.Host.prefetch, writers)
    stage.await_uploads()
    for host in writers:
        stores.wait_until("both to be done", lambda host=host:  # type: ignore[misc]
                          uploaded(host) == stage.cold.kernels, UPLOAD_MAX_S)
    done = [host.metric("fleet_uploads_total", result="done") for host in writers]
    expect_equal("loose records", len(stage.loose()), stage.cold.kernels)
    return f"{done[0]} and {done[1]} added"


def uploaded(host: hosts.Host) -> int:
    return sum(host.metric("fleet_uploads_total", result=result) for result in ("done", "exists"))


def occupied_names(stage: Stage) -> str:
    """an attacker overwrites all loose records: kernels are compiled, and nothing is packed unless
    the store ignores conditions, so that a builder replaces the attacker's records"""
    host = stage.writer()
    host.prefetch()
    stage.await_uploads()
    liar = stage.store.client()
    for name in stage.loose():
        liar.must("PUT", name, b"KILNREC1 and what a liar likes")
    second = stage.writer(1)
    second.prefetch()
    stage.expect_right_objects(second)
    honours = stores.conditions(stage.store) == "honoured"
    result = stage.publish()
    expect(not honours or result["kernels"] == 0, "the index has kernels")
    return f"{second.compiled()} compiled, {result['refused']} refused by the compaction"


def absent_store(stage: Stage) -> str:
    """the store is down while a builder compiles, and later gets every kernel"""
    stage.front_of_store.stop()
    try:
        host = stage.writer()
        seconds = host.prefetch().seconds
        stage.expect_all_compiled(host)
    finally:
        stage.front_of_store.start()
    stage.await_uploads()
    expect_quick("of the job", seconds, RATIO_MAX * stage.cold.seconds + LATE_S)
    return f"{seconds:.1f} s, with the store {stage.cold.seconds:.1f} s"


def killed_writer(stage: Stage) -> str:
    """kilnd or kiln-transfer is killed (-9) after some uploads: the tree still gets every kernel"""
    for who in ("kilnd", "kiln-transfer"):
        stage.clear()
        stage.front_of_store.forget()
        host = stage.writer()
        host.prefetch()
        stores.wait_until("some uploads", lambda: sum(
            one.method == "PUT" and "/v1/k/" in one.name
            for one in stage.front_of_store.requests()) >= 3, UPLOAD_MAX_S)
        pid = host.transfer_pid()
        if who == "kilnd":
            host.kill()
            host.start(*stage.settings(stage.url, writes=True), user=stage.store.builder)
        elif pid is not None:
            os.kill(pid, signal.SIGKILL)
        stage.await_uploads()
        stage.end()
    expect_equal("kernels in the index", stage.publish()["kernels"], stage.cold.kernels)
    return "all kernels in the index"


def cut_writer(stage: Stage) -> str:
    """the network fails while a builder uploads, and works again later"""
    host = stage.writer()
    host.prefetch()
    stores.wait_until("some uploads", lambda: len(stage.loose()) > 0, UPLOAD_MAX_S)
    stage.wires.cut(0)
    time.sleep(LATE_S)
    stage.wires.mend(0)
    stage.await_uploads()
    expect_equal("kernels in the index", stage.publish()["kernels"], stage.cold.kernels)
    return "all kernels in the index"


# For each command, the system calls at which strace kills it.
POINTS = {"push": ("write", "fsync", "linkat", "unlinkat"),
          "compact": ("write", "fsync", "linkat", "renameat", "unlinkat")}
CALLS = (1, 2, 3, 40, 84)


def killed_commands(scene: Scene) -> str:
    """push and compact are killed (-9) at several system calls: another run completes the tree"""
    strace = stores.program("strace", "strace")
    killed = 0
    for command, points in POINTS.items():
        for point in points:
            for call in CALLS:
                killed += kill_command(scene, [strace, "-f", "-qq", "-o", "/dev/null", "-e",
                                               f"trace={point}", "-e",
                                               f"inject={point}:signal=KILL:when={call}"], command)
    expect(killed > len(CALLS), "hardly any command was killed")
    return f"{killed} killed"


def kill_command(scene: Scene, prefix: list[str], command: str) -> int:
    tree = scene.directory / "killed-tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    words = [str(scene.build.programs / "kilnctl"), "fleet", command, "--key"]
    if command == "compact":
        scene.push(tree)
        words += [scene.secret("index"), "--trust", str(scene.keys), str(tree)]
    else:
        words += [scene.secret("builder"), str(tree)]
    status = scene.builder.command(*prefix, *words, fails=True).status
    verify(scene, tree)
    scene.push(tree)
    scene.compact(tree)
    host = scene.reader(f"file://{tree}", None)
    host.prefetch()
    scene.expect_all_from_fleet(host)
    scene.end()
    return int(status == -signal.SIGKILL or status == 128 + signal.SIGKILL)


def verify(scene: Scene, tree: pathlib.Path) -> None:
    """Checks the files that a killed command left, if an index names them."""
    if list(tree.glob("v1/i/*/current")):
        scene.builder.kilnctl("fleet", "verify", "--trust", str(scene.keys), str(tree))


RECORD = "64-56-56-1x1-64-56-56-2-0x0-1x1-1x1-0-NCHW-FP32-F"
DEVICE = "gfx90a68"
RECORD_CALLS = (1, 2)


def killed_records(scene: Scene) -> str:
    """push, compact and the exporting kilnd are killed (-9): another run shares all records"""
    tuner = scene.host(None)
    tuner.start()
    points = [(command, point, call) for command, calls in
              [*POINTS.items(), ("kilnd", ("fsync", "rename", "sendmsg"))]
              for point in calls for call in RECORD_CALLS]
    killed = {command: 0 for command, _, _ in points}
    for number, (command, point, call) in enumerate(points):
        tree = scene.directory / "killed-records"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        tune(tuner, number)
        inject = ["-f", "-qq", "-o", "/dev/null", "-e", f"trace={point}", "-e",
                  f"inject={point}:signal=KILL:when={call}"]
        if command == "kilnd":
            killed[command] += kill_exporter(scene, tuner, inject, tree)
        else:
            killed[command] += kill_sharing(scene, tuner, inject, command, tree)
        verify(scene, tree)
        share_records(scene, tuner, tree)
        scene.compact(tree)
        expect_records(scene, tree, number)
    for command, count in killed.items():
        expect(count > 0, f"no {command} was killed")
    return f"{sum(killed.values())} of {len(points)} killed"


def time_of(number: int) -> str:
    return f"0.5{number:03}1"


def tune(tuner: hosts.Host, number: int) -> None:
    """Changes the host's only tuning record."""
    path = tuner.directory / f"{DEVICE}.HIP.fdb.txt"
    path.write_text(f"{RECORD}=ConvAsm1x1U:{time_of(number)},0,miopenConvolutionFwdAlgoDirect\n",
                    encoding="ascii")
    tuner.kilnctl("db", "import", "--tier", "host", str(path))


def share_words(scene: Scene, tuner: hosts.Host, tree: pathlib.Path) -> list[str]:
    return [str(tuner.build.programs / "kilnctl"), "fleet", "push", "--records", "--key",
            scene.secret("builder"), str(tree)]


def share_records(scene: Scene, tuner: hosts.Host, tree: pathlib.Path) -> None:
    tuner.command(*share_words(scene, tuner, tree))


def kill_sharing(scene: Scene, tuner: hosts.Host, inject: list[str], command: str,
                 tree: pathlib.Path) -> int:
    """Runs a command that strace kills. Returns whether it was killed."""
    words = share_words(scene, tuner, tree)
    if command == "compact":
        tuner.command(*words)
        words[2:-1] = ["compact", "--key", scene.secret("index"), "--trust", str(scene.keys)]
    status = tuner.command(stores.program("strace", "strace"), *inject, *words, fails=True).status
    return int(status in (-signal.SIGKILL, 128 + signal.SIGKILL))


def is_traced(process: subprocess.Popen[bytes]) -> bool:
    """Also true if the process has ended."""
    status = pathlib.Path(f"/proc/{process.pid}/status")
    return process.poll() is not None or "TracerPid:\t0\n" not in status.read_text("ascii")


def kill_exporter(scene: Scene, tuner: hosts.Host, inject: list[str], tree: pathlib.Path) -> int:
    """strace kills kilnd while it exports records. Starts kilnd again. Returns whether it was
    killed."""
    process = tuner.process
    assert process
    with subprocess.Popen([stores.program("strace", "strace"), *inject, "-p",
                           str(process.pid)]) as tracer:
        stores.wait_until("strace", functools.partial(is_traced, process))
        tuner.command(*share_words(scene, tuner, tree), fails=True)
        tracer.terminate()
    was_killed = process.poll() is not None
    if was_killed:
        tuner.process = None
        tuner.start()
    return int(was_killed)


def expect_records(scene: Scene, tree: pathlib.Path, number: int) -> None:
    """Checks that a new host takes the record."""
    host = scene.reader(f"file://{tree}", None)
    ask = ("db", "get", RECORD, "--db-id", DEVICE, "--json")
    stores.wait_until("the record of the fleet", lambda:
                      time_of(number) in host.kilnctl(*ask, fails=True).output)
    host.kill()


FIGURES = [write_and_read, cold_fleet]
SCENARIOS = [store_conditions, compact_again, wrong_secret, two_writers, occupied_names,
             absent_store, killed_writer, cut_writer]
LOCAL = [killed_commands, killed_records]

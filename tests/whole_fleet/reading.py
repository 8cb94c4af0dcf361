# SPDX-License-Identifier: MIT
"""Scenarios of hosts that only read a tree: from nginx, and from a directory."""
from __future__ import annotations

import pathlib
import threading
import time

import hosts
import scene as scenes
import stores
from scene import Broken, Scene, at_once, expect, expect_at_most, expect_equal, expect_quick

REQUESTS_MAX, BYTES_MAX, SECONDS_MAX = 6, 1_000_000, 0.4
IDLE_S = 130
REVOKED_MAX_S = 70.0
RETRY_MAX_S = 200.0  # a request may take 30 s to fail; then pauses of one and two minutes
WAIT_MAX_S = 0.3


def describe(requests: list[stores.Request], seconds: float) -> str:
    return (f"{len(requests)} requests, {sum(one.size for one in requests):,} bytes, "
            f"{seconds:.3f} s")


def check_cold_node(scene: Scene, host: hosts.Host, front: stores.Front) -> str:
    """Checks that a host with an empty cache takes all kernels, with few requests, in little time.
    """
    host.kilnctl("toolchain", "ls")  # its kilnd has been running for a while
    front.forget()
    seconds = host.prefetch().seconds
    place = host.place
    requests = front.requests(place[1] if place else None)
    scene.expect_all_from_fleet(host)
    expect_at_most("requests", len(requests), REQUESTS_MAX)
    expect_at_most("bytes", sum(one.size for one in requests), BYTES_MAX)
    expect_quick(f"of {describe(requests, seconds)}", seconds, SECONDS_MAX)
    return describe(requests, seconds)


def cold_node(scene: Scene) -> str:
    """a cold host takes all kernels from nginx: few requests, little time"""
    with scene.front(scene.tree) as front:
        return check_cold_node(scene, scene.reader(front.url), front)


def cold_node_directory(scene: Scene) -> str:
    """a cold host takes all kernels from a directory"""
    host = scene.reader(f"file://{scene.tree}", None)
    seconds = host.prefetch().seconds
    scene.expect_all_from_fleet(host)
    return f"{seconds:.3f} s"


def warm_node(scene: Scene) -> str:
    """a host with all kernels requests only the pointer, at most every 40 seconds"""
    with scene.front(scene.tree) as front:
        host = scene.reader(front.url)
        host.prefetch()
        front.forget()
        begin = time.monotonic()
        while time.monotonic() < begin + IDLE_S:
            host.prefetch()
            time.sleep(5)
        requests = front.requests()
        scene.expect_all_from_fleet(host)
    others = [one.name for one in requests if not one.name.endswith("/current")]
    expect_equal("requests for other files than the pointer", others, [])
    expect_at_most("requests", len(requests), IDLE_S // 40 + 1)
    return f"{describe(requests, IDLE_S)} of jobs that find everything"


def absent_kernels(scene: Scene) -> str:
    """kernels that the index lacks cost no request"""
    with scene.front(scene.tree) as front:
        host = scene.reader(front.url)
        host.prefetch()
        front.forget()
        host.prefetch(scene.problems(4))
        requests = [one for one in front.requests() if not one.name.endswith("/current")]
        expect(host.compiled() > 0, "no problem had a kernel that the fleet lacks")
    expect_equal("requests", requests, [])
    return f"{host.compiled()} kernels compiled without a request"


def read_together(scene: Scene, front: stores.Front, url: str, user: stores.User | None = None
                  ) -> float:
    """Lets all hosts start with empty caches and take all kernels from |url| at the same time.
    Returns the seconds that this took."""
    readers = [scene.host(place) for place in range(scene.wires.hosts)]
    for host in readers:
        host.launch(*scene.PATIENT, *scene.settings(url), user=user)
    at_once(hosts.Host.await_start, readers)
    front.forget()
    begin = time.monotonic()
    at_once(hosts.Host.prefetch, readers)
    seconds = time.monotonic() - begin
    for host in readers:
        scene.expect_all_from_fleet(host)
    return seconds


def many_cold_nodes(scene: Scene) -> str:
    """all hosts start at the same time and take all kernels from nginx"""
    with scene.front(scene.tree) as front:
        seconds = read_together(scene, front, front.url)
        return f"{scene.wires.hosts} hosts: {describe(front.requests(), seconds)}"


def index_cost(scene: Scene) -> str:
    """an index of 100,000 kernels: its size, its memory, and the time of a miss"""
    directory = scene.directory / "index-keys"
    directory.mkdir()
    program = scene.build.programs.parent / "tests" / "fleet_index_cost"
    found = scene.builder.command(str(program), str(directory)).json()
    expect_at_most("bytes of the index", found["size"], 2_000_000)
    expect_at_most("bytes of memory", found["memory"], 4 << 20)
    expect_quick("of a miss", found["miss_ns"] * 1e-9, 1e-6)
    return (f"{found['size']:,} bytes, in memory {found['memory']:,}, "
            f"a miss {found['miss_ns']:.0f} ns")


# ---- trust ----


def compiles_everything(scene: Scene, tree: pathlib.Path, reason: str,
                        keys: pathlib.Path | None = None) -> None:
    """Checks that a host uses nothing of the tree, and counts |reason|."""
    with scene.front(tree) as front:
        host = scene.reader(front.url, keys=keys)
        host.prefetch()
        scene.expect_all_compiled(host)
        expect(host.metric("fleet_refused_total", reason=reason) > 0,
               f"no file was refused as {reason}; "
               f"all: {host.metric('fleet_refused_total')}")


def revoked_key(scene: Scene) -> str:
    """a revoked key: within a minute, the host takes no further kernel that the key signed"""
    keys = scene.copy_keys()
    scene.builder.prefetch(scene.problems(3, kind=1))
    tree = scene.copy_tree()
    scene.push(tree)
    scene.compact(tree)
    with scene.front(tree) as front:
        host = scene.reader(front.url, keys=keys)
        host.prefetch()
        before = host.from_fleet()
        (keys / "builder.pub").unlink()
        begin = time.monotonic()
        time.sleep(REVOKED_MAX_S)
        host.prefetch(scene.problems(3, kind=1))
        expect_equal("kernels that the host took from the fleet", host.from_fleet(), before)
        expect(host.compiled() > 0, "nothing was compiled")
    return f"refused {time.monotonic() - begin:.0f} s later; other kernels stayed"


def untrusted_builder(scene: Scene) -> str:
    """kernels of a builder that is not trusted: compaction leaves them out; a host refuses them"""
    tree = scene.directory / "liars-tree"
    tree.mkdir()
    scene.push(tree, "liar")
    expect(scene.compact(tree)["refused"] > 0, "compaction took the kernels of a liar")
    keys = scene.copy_keys()
    scene.trust(keys, "liar", "--targets", "gfx90a")
    scene.compact(tree, keys=keys)
    compiles_everything(scene, tree, "untrusted")
    return "refused"


def untrusted_index(scene: Scene) -> str:
    """an index whose signer is not trusted is not used"""
    tree = scene.copy_tree()
    for path in tree.glob("v1/i/*/current"):
        path.unlink()
    keys = scene.copy_keys()
    scene.trust(keys, "liar", "--index")
    scene.compact(tree, "liar", keys)
    compiles_everything(scene, tree, "untrusted")
    return "refused"


def other_target(scene: Scene) -> str:
    """kernels whose builder is trusted only for another target are not used"""
    keys = scene.copy_keys()
    (keys / "builder.pub").unlink()
    scene.trust(keys, "builder", "--targets", "gfx906")
    compiles_everything(scene, scene.tree, "not-allowed", keys)
    return "refused"


def change_bytes(path: pathlib.Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x20
    path.write_bytes(content)


def wrong_bytes(scene: Scene) -> str:
    """an attacker changes every 512th byte of the packs: each changed kernel is compiled"""
    tree = scene.copy_tree()
    for pack in tree.glob("v1/p/*.pack"):
        for at in range(0, pack.stat().st_size, 512):
            change_bytes(pack, at)
    with scene.front(tree) as front:
        host = scene.reader(front.url)
        host.prefetch()
        scene.expect_right_objects(host)
        refused = host.metric("fleet_refused_total")
        expect(refused > 0 and host.compiled() > 0, "no kernel was refused")
        return f"{refused} refused, {host.from_fleet()} used, {host.compiled()} compiled"


def swapped_records(scene: Scene) -> str:
    """an attacker changes the order of a pack's records: hosts use none of them"""
    tree = scene.copy_tree()
    for pack in tree.glob("v1/p/*.pack"):
        records = pack.read_bytes().split(b"KILNREC1")[1:]
        pack.write_bytes(b"".join(b"KILNREC1" + one for one in records[1:] + records[:1]))
    with scene.front(tree) as front:
        host = scene.reader(front.url)
        host.prefetch()
        scene.expect_right_objects(host)
        expect_equal("kernels that the host compiled", host.compiled(), scene.cold.kernels)
        return f"{host.metric('fleet_refused_total')} refused, {host.compiled()} compiled"


def replayed_index(scene: Scene) -> str:
    """an attacker publishes an old index: a host that saw a newer one refuses it after a restart"""
    tree = scene.copy_tree()
    pointer = next(tree.glob("v1/i/*/current"))
    old = pointer.read_bytes()
    scene.builder.prefetch(scene.problems(2, kind=2))
    scene.push(tree)
    scene.compact(tree)
    expect(pointer.read_bytes() != old, "compaction made no new epoch")
    with scene.front(tree) as front:
        host = scene.reader(front.url)
        host.prefetch()
        host.stop()
        pointer.write_bytes(old)
        host.start("--workers", "1", *scene.settings(front.url))
        host.prefetch(scene.problems(2, kind=3))
        expect(host.metric("fleet_refused_total", reason="rolled-back") > 0,
               "the old index was not refused")
        scene_objects = host.objects()
        expect(all(scene_objects[key] == value for key, value in scene.cold.objects.items()),
               "a kernel has another object")
    return "refused"


def all_at_once(scene: Scene) -> str:
    """an attacker replaces all files with rubbish: pointers, indices and packs"""
    tree = scene.copy_tree()
    for path in tree.rglob("*"):
        if path.is_file():
            path.write_bytes(bytes((7 * i + 13) % 251 for i in range(path.stat().st_size)))
    compiles_everything(scene, tree, "malformed")
    return "refused"


# ---- failures ----

FAULTS = {
    "403": ("return 403;", "forbidden"),
    "404": ("return 404;", "absent"),
    "429": ("return 429;", "busy"),
    "503": ("return 503;", "busy"),
    "redirect": ("return 302 /elsewhere;", "refused"),
    "whole file": ("max_ranges 0;", "malformed"),
}


def faults(scene: Scene) -> str:
    """each kind of failure of the store is counted separately, and no job fails"""
    for name, (rule, result) in FAULTS.items():
        with scene.front(scene.tree, rule) as front:
            host = scene.reader(front.url)
            host.prefetch()
            scene.expect_all_compiled(host)
            expect(host.metric("fleet_requests_total", result=result) > 0,
                   f"{name} was not counted as {result}")
            scene.end()
    return ", ".join(FAULTS)


def silent_store(scene: Scene) -> str:
    """a store that answers nothing delays one job by 300 ms, and later jobs not at all"""
    alone = scene.host()
    alone.start("--workers", "1")
    one, other = scene.problems(1, kind=4), scene.problems(1, kind=5)
    plain = [alone.prefetch(one).seconds, alone.prefetch(other).seconds]
    with scene.front(scene.tree) as front:
        host = scene.reader(front.url, 1)
        scene.wires.cut(1)
        delays = [host.prefetch(one).seconds - plain[0], host.prefetch(other).seconds - plain[1]]
    expect(host.metric("fleet_late_total") > 0, "no look-up was late")
    expect_quick("by which the first job is delayed", delays[0], WAIT_MAX_S + 0.2)
    expect_quick("by which the second job is delayed", delays[1], WAIT_MAX_S)
    return f"delayed by {delays[0] * 1000:.0f} and {delays[1] * 1000:.0f} ms"


def partition(scene: Scene) -> str:
    """the network fails while a job reads, and works again later"""
    with scene.front(scene.tree) as front:
        host = scene.reader(front.url)

        def cut() -> None:
            stores.wait_until("the first request", lambda: bool(front.requests(0)))
            scene.wires.cut(0)

        cutter = threading.Thread(target=cut)
        cutter.start()
        host.prefetch()
        cutter.join(hosts.COMMAND_MAX_S)
        scene.expect_right_objects(host)
        taken, compiled = host.from_fleet(), host.compiled()
        scene.wires.mend(0)
        begin = time.monotonic()
        stores.wait_until("the host to use the fleet again",
                          lambda: host.metric("fleet_up") == 1, RETRY_MAX_S)
    return (f"{taken} from the fleet, {compiled} compiled; used again after "
            f"{time.monotonic() - begin:.0f} s")


def compaction_while_reading(scene: Scene) -> str:
    """hosts read while compactions publish new indices"""
    tree = scene.copy_tree()
    done = threading.Event()

    def compact() -> int:
        rounds = 0
        while not done.is_set():
            scene.builder.prefetch(scene.problems(1, kind=10 + rounds))
            scene.push(tree)
            scene.compact(tree)
            rounds += 1
        return rounds

    def read(place: int) -> hosts.Host:
        host = scene.reader(front.url, place)
        host.prefetch()
        return host

    with scene.front(tree) as front:
        writer_result: list[int] = []
        writer = threading.Thread(target=lambda: writer_result.append(compact()))
        writer.start()
        try:
            readers = at_once(read, list(range(min(8, scene.wires.hosts))))
        finally:
            done.set()
            writer.join(hosts.COMMAND_MAX_S)
    for host in readers:
        scene.expect_right_objects(host)
    if not writer_result:
        raise Broken("compaction failed")
    compiled = sum(host.compiled() for host in readers)
    expect(compiled == 0 or scenes.BUSY, f"the hosts compiled {compiled} kernels")
    return f"{len(readers)} hosts, {writer_result[0]} compactions, {compiled} kernels compiled"


FIGURES = [cold_node, cold_node_directory, many_cold_nodes, index_cost]
SCENARIOS = [absent_kernels, warm_node, revoked_key, untrusted_builder, untrusted_index,
             other_target, wrong_bytes, swapped_records, replayed_index, all_at_once, faults,
             silent_store, partition, compaction_while_reading]

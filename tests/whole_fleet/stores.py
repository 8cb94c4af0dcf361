# SPDX-License-Identifier: MIT
"""Object stores, and nginx in front of them, which logs every request.

All ports are fixed, because the stores have a network namespace of their own (run.py).
"""
from __future__ import annotations

import http.client
import os
import pathlib
import shutil
import subprocess
import time
from typing import Callable, NamedTuple

import network
import s3

HERE = pathlib.Path(__file__).resolve().parent
BUCKET = "fleet"
START_MAX_S = 120.0
PYTHON = "/usr/bin/python3"  # Debian's, which has the modules of Debian's Swift
FRONT_PORT, STORE_PORT = 8080, 18080


class Missing(Exception):
    """A program is not installed here."""


class Request(NamedTuple):
    host: str
    method: str
    status: int
    size: int  # bytes in both directions, with headers
    name: str


class User(NamedTuple):
    access: str
    secret: str


def wait_until(what: str, holds: Callable[[], bool], most_s: float = START_MAX_S) -> None:
    end = time.monotonic() + most_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {most_s:.0f} s for {what}")
        time.sleep(0.02)


def answers(address: str, port: int) -> bool:
    connection = http.client.HTTPConnection(address, port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def program(name: str, package: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if path is None:
        raise Missing(f"there is no {name} here (Debian package {package})")
    return path


class Processes:
    """Starts processes that write their output to files in |directory|, and ends them."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *command: str,
              stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.out").open("ab") as log:
            started = subprocess.Popen(command, stdout=log, stderr=log, stdin=stdin)
        self.running.append(started)
        return started

    def run(self, name: str, *command: str) -> None:
        with (self.directory / f"{name}.out").open("ab") as log:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           timeout=START_MAX_S, check=True)

    def close(self) -> None:
        for one in reversed(self.running):
            one.kill()
            one.wait(START_MAX_S)


class Front:
    """nginx, which serves a directory, or passes requests to a store. It logs each request.

    |rules| are more lines of the server's configuration, for example faults.
    """

    def __init__(self, directory: pathlib.Path, root: pathlib.Path | None) -> None:
        self.directory = directory
        directory.mkdir()
        self.place = f"root {root};" if root else \
            f"location / {{ proxy_pass http://127.0.0.1:{STORE_PORT}; }}"
        self.processes = Processes(directory)
        self.url = f"http://{network.STORE}:{FRONT_PORT}"
        self._skipped = 0

    def _configure(self, rules: str) -> None:
        temporary = "\n".join(f"{name}_temp_path {self.directory}/{name};" for name in
                              ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.directory / "nginx.conf").write_text(f"""
daemon off;
master_process off;
pid {self.directory}/pid;
error_log {self.directory}/error.log;
events {{ worker_connections 4096; }}
http {{
    {temporary}
    log_format short '$remote_addr $request_method $status $request_length $bytes_sent $uri';
    access_log {self.directory}/access.log short;
    client_max_body_size 5m;
    proxy_set_header Host $http_host;
    proxy_http_version 1.1;
    server {{
        listen {network.STORE}:{FRONT_PORT} backlog=1024;
        {rules}
        {self.place}
    }}
}}
""", encoding="ascii")

    def start(self, rules: str = "") -> None:
        self._configure(rules)
        self.processes.start("nginx", program("nginx", "nginx-light"), "-p", str(self.directory),
                             "-c", str(self.directory / "nginx.conf"),
                             "-e", str(self.directory / "error.log"))
        wait_until("nginx to answer", lambda: answers(network.STORE, FRONT_PORT))
        self.forget()

    def stop(self) -> None:
        self.processes.close()
        self.processes.running.clear()

    def restart(self, rules: str = "") -> None:
        self.stop()
        self.start(rules)

    def _all(self) -> list[Request]:
        path = self.directory / "access.log"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [Request(host, method, int(status), int(received) + int(sent), name)
                for host, method, status, received, sent, name in (line.split() for line in lines)]

    def forget(self) -> None:
        """Makes requests() ignore all requests that were made so far."""
        self._skipped = len(self._all())

    def requests(self, host: int | None = None) -> list[Request]:
        return [one for one in self._all()[self._skipped:]
                if host is None or one.host == network.address_of(host)]


class Store:
    """An object store with an S3 interface, at 127.0.0.1. Subclasses start it."""
    name = ""
    builder, reader = User("builder", "builder-secret"), User("reader", "reader-secret")

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.processes = Processes(directory)

    def start(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.processes.close()

    def client(self, user: User | None = None) -> s3.Store:
        return s3.Store(f"http://127.0.0.1:{STORE_PORT}", *(user or self.builder))


CEPH = """
[global]
fsid = 6b696c6e-0000-4000-8000-666c65657431
mon_host = v2:127.0.0.1:13300
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
keyring = {directory}/keyring
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
mon_cluster_log_file = {directory}/cluster.log
pid_file =
mon_data = {directory}/mon
osd_data = {directory}/osd
osd_objectstore = memstore
memstore_device_bytes = 536870912
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data_avail_crit = 0
paxos_propose_interval = 0.05
paxos_min_wait = 0.01

[client.rgw.a]
keyring = {directory}/keyring
rgw_frontends = beast endpoint=127.0.0.1:{port}
"""
# The readers may list the bucket. Without that right, they would get status 403 for a missing file
# instead of 404.
CEPH_POLICY = """{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
"Principal": {"AWS": ["arn:aws:iam:::user/reader"]}, "Action": ["s3:GetObject", "s3:ListBucket"],
"Resource": ["arn:aws:s3:::%s", "arn:aws:s3:::%s/*"]}]}""" % (BUCKET, BUCKET)


class Ceph(Store):
    """Ceph's radosgw, with one monitor and one OSD that has its objects in memory."""
    name = "ceph"

    def _add_keys(self) -> None:
        tool, keyring = program("ceph-authtool", "ceph-common"), str(self.directory / "keyring")
        self.processes.run("keys", tool, "--create-keyring", keyring, "--gen-key", "-n", "mon.",
                           "--cap", "mon", "allow *")
        for name in ("osd.0", "client.admin", "client.rgw.a"):
            self.processes.run("keys", tool, keyring, "--gen-key", "-n", name, "--cap", "mon",
                               "allow *", "--cap", "osd", "allow *")

    def _start_cluster(self, options: list[str]) -> None:
        monmap, disk = str(self.directory / "monmap"), "6b696c6e-0000-4000-8000-6f7364000000"
        self.processes.run("monmap", program("monmaptool", "ceph-common"), "--create", "--fsid",
                           "6b696c6e-0000-4000-8000-666c65657431", "--addv", "a",
                           "[v2:127.0.0.1:13300]", monmap)
        monitor, osd = program("ceph-mon", "ceph-mon"), program("ceph-osd", "ceph-osd")
        self.processes.run("mon", monitor, "--mkfs", "-i", "a", "--monmap", monmap, *options)
        self.processes.start("mon", monitor, "-f", "-i", "a", *options)
        self.processes.run("osd-new", program("ceph", "ceph-common"), *options, "osd", "new", disk)
        self.processes.run("osd", osd, "--mkfs", "-i", "0", "--osd-uuid", disk, *options)
        self.processes.start("osd", osd, "-f", "-i", "0", *options)

    def start(self) -> None:
        gateway = program("radosgw", "radosgw")
        configuration = self.directory / "ceph.conf"
        configuration.write_text(CEPH.format(directory=self.directory, port=STORE_PORT),
                                 encoding="ascii")
        options = ["-c", str(configuration), "--keyring", str(self.directory / "keyring")]
        (self.directory / "mon").mkdir()
        (self.directory / "osd").mkdir()
        self._add_keys()
        self._start_cluster(options)
        for user in (self.builder, self.reader):
            self.processes.run("users", program("radosgw-admin", "radosgw"), *options, "user",
                               "create", "--uid", user.access, "--display-name", user.access,
                               "--access-key", user.access, "--secret-key", user.secret)
        self.processes.start("gateway", gateway, "-f", "-n", "client.rgw.a", "-c",
                             str(configuration))
        wait_until("radosgw to answer", lambda: answers("127.0.0.1", STORE_PORT))
        self.client().must("PUT", BUCKET)
        self.client().must("PUT", BUCKET, CEPH_POLICY.encode(), query="policy=")


class Swift(Store):
    """Debian's Swift with its S3 interface (swift_store.py)."""
    name = "swift"
    builder, reader = User("fleet:builder", "builder-secret"), User("fleet:reader", "reader-secret")

    def start(self) -> None:
        have = subprocess.run([PYTHON, "-c", "import swift"], check=False, capture_output=True,
                              timeout=START_MAX_S)
        if have.returncode != 0:
            raise Missing("there is no Swift here (Debian package python3-swift)")
        self.processes.start("swift", PYTHON, "-B", str(HERE / "swift_store.py"),
                             str(self.directory / "data"), "127.0.0.1", str(STORE_PORT), BUCKET,
                             stdin=subprocess.PIPE)
        wait_until("Swift to answer", lambda: answers("127.0.0.1", STORE_PORT))
        wait_until("the bucket", lambda: self.client().ask("HEAD", BUCKET).status == 200)


class S3rver(Store):
    """npm's s3rver, if it is installed. It ignores conditions of PUT."""
    name = "s3rver"
    builder = reader = User("S3RVER", "S3RVER")

    def start(self) -> None:
        self.processes.start("s3rver", program("s3rver", "of npm: npm install -g s3rver"),
                             "--directory", str(self.directory / "data"), "--address", "127.0.0.1",
                             "--port", str(STORE_PORT), "--configure-bucket", BUCKET)
        wait_until("s3rver to answer", lambda: answers("127.0.0.1", STORE_PORT))


STORES: dict[str, type[Store]] = {one.name: one for one in (Ceph, Swift, S3rver)}


def conditions(store: Store) -> str:
    """Writes a file twice to find out what the store does with conditions of PUT."""
    client, name = store.client(), f"{BUCKET}/probe"
    first = client.ask("PUT", name, b"first", if_none_match="*")
    second = client.ask("PUT", name, b"second", if_none_match="*")
    client.ask("DELETE", name)
    return {(200, 412): "honoured", (200, 200): "ignored"}.get(
        (first.status, second.status), f"refused with {first.status}")


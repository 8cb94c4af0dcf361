# SPDX-License-Identifier: MIT
"""Runs an object store with the S3 protocol: all four servers of Debian's Swift in this process.

Usage: python3 swift_store.py DIRECTORY ADDRESS PORT BUCKET

The store has one copy of each object, in files below DIRECTORY.  The filesystem must support
extended attributes.  Only the proxy listens on ADDRESS; the other servers listen on 127.0.0.1.  The
users of the store are those in USERS.  Prints "ready" when BUCKET exists, and ends when its
standard input ends.
"""
# pylint: disable=wrong-import-position,import-error
from __future__ import annotations

import eventlet

eventlet.monkey_patch()

import os
import pathlib
import sys

from eventlet import wsgi
from swift.common import swob, utils
from swift.common.ring import RingBuilder
from swift.common.storage_policy import reload_storage_policies
from swift.common.wsgi import loadapp

REGION = "us-east-1"
DEVICE = "disk"
#: the users by access key: each has a secret key and a role
USERS = {"fleet:builder": ("builder-secret", ".admin"), "fleet:reader": ("reader-secret", ""),
         "fleet:nobody": ("nobody-secret", "")}

CONFIGURATION = """
[DEFAULT]
swift_dir = {directory}
devices = {directory}
mount_check = false
fallocate_reserve = 0
disable_fallocate = true
log_level = ERROR

[pipeline:main]
pipeline = {middleware} {server}-server

[app:{server}-server]
use = egg:swift#{server}
allow_account_management = true
account_autocreate = true

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:s3api]
use = egg:swift#s3api
location = """ + REGION + """
s3_acl = false
check_bucket_owner = false

[filter:tempauth]
use = egg:swift#tempauth
{users}
"""


class Cache:
    """Stands for memcached. Nothing expires."""

    def __init__(self) -> None:
        self.values: dict = {}

    def set(self, key, value, **_options) -> None:
        self.values[key] = value

    def delete(self, key, **_options) -> None:
        self.values.pop(key, None)

    def get(self, key, **_options):
        return self.values.get(key)


def with_cache(app):
    cache = Cache()

    def answer(environment, start_response):
        environment["swift.cache"] = cache
        return app(environment, start_response)
    return answer


def users() -> str:
    return "\n".join(f"user_{name.replace(':', '_')} = {key} {groups}"
                     for name, (key, groups) in USERS.items())


def application(directory: pathlib.Path, server: str, middleware: str = ""):
    path = directory / f"{server}.conf"
    path.write_text(CONFIGURATION.format(directory=directory, server=server, middleware=middleware,
                                         users=users()), encoding="ascii")
    return loadapp(str(path))


def serve(app, address: str, port: int = 0) -> int:
    """Returns the port on which the server listens."""
    socket = eventlet.listen((address, port), reuse_port=False)
    eventlet.spawn(wsgi.server, socket, app, log_output=False)
    return socket.getsockname()[1]


def add_ring(directory: pathlib.Path, kind: str, port: int) -> None:
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "weight": 1.0,
                     "replication_ip": "127.0.0.1", "replication_port": port, "device": DEVICE})
    builder.rebalance()
    builder.get_ring().save(str(directory / f"{kind}.ring.gz"))


def add_bucket(proxy, bucket: str) -> None:
    """Creates the bucket through Swift's own interface, because S3 has no request that gives the
    readers their permission."""
    answer = swob.Request.blank(
        f"/v1/AUTH_fleet/{bucket}", method="PUT", environ={"swift_owner": True},
        headers={"X-Container-Read": "fleet:reader"}).get_response(proxy)
    if answer.status_int not in (201, 202):
        sys.exit(f"swift_store: cannot create the bucket: {answer.status}")


def main(directory: pathlib.Path, address: str, port: int, bucket: str) -> None:
    (directory / DEVICE).mkdir(parents=True)
    (directory / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = kiln\n",
                                          encoding="ascii")
    utils.set_swift_dir(str(directory))
    reload_storage_policies()
    for kind in ("account", "container", "object"):
        add_ring(directory, kind, serve(application(directory, kind), "127.0.0.1"))
    proxy = application(directory, "proxy", "catch_errors s3api tempauth")
    serve(with_cache(proxy), address, port)
    add_bucket(proxy._pipeline_final_app, bucket)
    print("ready", flush=True)
    eventlet.tpool.execute(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), sys.argv[4])

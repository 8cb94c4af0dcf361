# SPDX-License-Identifier: MIT
"""libkiln-rtc with a kilnd of another build, which refuses some of its requests."""
import json
import os
import socket
import struct
import subprocess
import threading

from conftest import WAIT_MAX_S, wait_until
from test_rtc import SOURCE, daemon, job, waits  # noqa: F401 (fixtures)

HEADER = struct.Struct("<4sHHQIHH")
COMPILE_END, ERROR, INVALID = 55, 134, 2


def receive(connection):
    """Returns the header, the body and the descriptors of the next frame, or None at the end."""
    raw, files, _, _ = socket.recv_fds(connection, HEADER.size, 64, socket.MSG_WAITALL)
    if len(raw) < HEADER.size:
        return None
    size = HEADER.unpack(raw)[4]
    body = connection.recv(size, socket.MSG_WAITALL) if size else b""
    return raw, body, files


def send(connection, frame):
    raw, body, files = frame
    socket.send_fds(connection, [raw + body], files)
    for file in files:
        os.close(file)


class OtherBuild:
    """Forwards all frames between programs and kilnd, but refuses each compile_end."""

    def __init__(self, kilnd, path):
        self.kilnd = str(kilnd)
        self.path = str(path)
        self.refused = 0
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.kilnd)
            for target in self.forward_requests, self.forward_answers:
                threading.Thread(target=target, args=(client, server), daemon=True).start()

    def refuse(self, client, frame):
        raw, _, files = frame
        text = b"body of 'compile_end' ends too early"
        body = struct.pack("<HI", INVALID, len(text)) + text + struct.pack("<I", 0)
        magic, version, _, request_id, _, _, _ = HEADER.unpack(raw)
        client.sendall(HEADER.pack(magic, version, ERROR, request_id, len(body), 0, 0) + body)
        self.refused += 1
        for file in files:
            os.close(file)

    def forward_requests(self, client, server):
        try:
            while frame := receive(client):
                if HEADER.unpack(frame[0])[2] == COMPILE_END:
                    self.refuse(client, frame)
                else:
                    send(server, frame)
        except OSError:
            pass
        server.shutdown(socket.SHUT_RDWR)

    def forward_answers(self, client, server):
        try:
            while frame := receive(server):
                send(client, frame)
        except OSError:
            pass
        client.close()
        server.close()


def clients(job):  # noqa: F811
    return json.loads(job.daemon.kilnctl("stats", "--json"))["clients"]


def test_a_refused_result_keeps_no_other_process_waiting(job, tmp_path):  # noqa: F811
    other = OtherBuild(job.daemon.socket, tmp_path / "socket")
    alone = clients(job)
    with subprocess.Popen(job.command("--hold", SOURCE), text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=dict(job.environment, KILN_SOCKET=other.path)) as first:
        assert "compile 0" in first.stdout.readline()
        assert other.refused > 0
        wait_until("the connection to end", lambda: clients(job) <= alone)
        before = waits(job)
        assert "compile 0" in job.run(SOURCE)
        assert waits(job) == before
        first.communicate("\n", timeout=WAIT_MAX_S)
    other.listening.close()
    assert job.compiles() == 2

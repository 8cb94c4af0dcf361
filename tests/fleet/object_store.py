# SPDX-License-Identifier: MIT
"""A small object store on loopback: GET with ranges, PUT with conditions, and DELETE of files in a
directory, and S3's ListObjectsV2. It does not check signatures. A test chooses how it fails."""
from __future__ import annotations

import datetime
import hashlib
import http.server
import os
import pathlib
import re
import threading
import urllib.parse
from typing import NamedTuple

NAME = re.compile(r"/([a-z0-9]+/)*[a-z0-9][a-z0-9.]*")


PAGE_MAX = 3  # names of a page; few, so that tests see several pages


class Answered(NamedTuple):
    method: str
    path: str
    status: int
    condition: str


def entity_tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def log_message(self, *_: object) -> None:
        pass

    def _fault(self) -> str:
        return self.server.put_fault if self.command == "PUT" else self.server.fault

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        fault = self._fault()
        condition = self.headers.get("If-None-Match") or self.headers.get("If-Match") or ""
        self.server.answered.append(Answered(self.command, self.path, status, condition))
        if fault == "wrong-bytes" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if fault == "truncate" else body)
        self.close_connection = fault == "truncate"

    def _is_faulty(self) -> bool:
        """Answers the request if the fault needs no file, and returns whether it did."""
        fault = self._fault()
        if fault == "silent":
            self.server.stopped.wait(30)
            self.close_connection = True
        elif fault == "forbidden":
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif fault == "failing":
            self._answer(500)
        elif fault == "busy":
            self._answer(503, Retry_After="1")
        elif fault == "unsupported" and (self.headers.get("If-None-Match")
                                         or self.headers.get("If-Match")):
            self._answer(501)
        else:
            return False
        return True

    def _path(self) -> pathlib.Path | None:
        return self.server.directory / self.path[1:] if NAME.fullmatch(self.path) else None

    def _read(self) -> bytes | None:
        path = self._path()
        return path.read_bytes() if path and path.is_file() else None

    def _keys(self, query: dict[str, str]) -> list[str]:
        """Returns the keys and common prefixes of the bucket that begin with the prefix."""
        bucket = self.server.directory / urllib.parse.urlsplit(self.path).path[1:]
        prefix, found = query["prefix"], set()
        for path in bucket.rglob("*"):
            key = str(path.relative_to(bucket))
            if path.is_file() and key.startswith(prefix):
                first, *rest = key[len(prefix):].split("/", 1)
                found.add(prefix + first + ("/" if rest else ""))
        return sorted(found)

    def _describe(self, key: str) -> str:
        bucket = self.server.directory / urllib.parse.urlsplit(self.path).path[1:]
        seen = (bucket / key).stat()
        modified = datetime.datetime.fromtimestamp(seen.st_mtime, datetime.timezone.utc)
        return (f"<Contents><Key>{key}</Key>"
                f"<LastModified>{modified:%Y-%m-%dT%H:%M:%S}.000Z</LastModified>"
                f"<Size>{seen.st_size}</Size></Contents>")

    def _list(self, query: dict[str, str]) -> bytes:
        after = query.get("continuation-token", "").removeprefix("+/=")
        keys = [key for key in self._keys(query) if key > after]
        page = keys[:PAGE_MAX]
        more = len(keys) > len(page)
        token = f"<NextContinuationToken>+/={page[-1]}</NextContinuationToken>" if more else ""
        names = "".join(f"<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"
                        if key.endswith("/") else self._describe(key) for key in page)
        return (f'<?xml version="1.0"?><ListBucketResult><Prefix>{query["prefix"]}</Prefix>'
                f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{names}"
                "</ListBucketResult>").encode()

    def do_GET(self) -> None:
        if self._is_faulty():
            return
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if "list-type" in query:
            self._answer(200, self._list(query))
            return
        content = self._read()
        if content is None:
            self._answer(404)
            return
        tag = entity_tag(content)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted or self._fault() == "whole-file":
            self._answer(200, content, ETag=tag)
            return
        first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        self._answer(206, content[first:last + 1], ETag=tag,
                     Content_Range=f"bytes {first}-{last}/{len(content)}")

    def _may_write(self, present: bytes | None) -> bool:
        if self._fault() == "no-conditions":
            return True
        if self._fault() == "pointer-changed" and self.path.endswith("/current"):
            return False
        expected = self.headers.get("If-Match")
        if expected is not None:
            return present is not None and entity_tag(present).strip('"') == expected
        return self.headers.get("If-None-Match") != "*" or present is None

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._is_faulty():
            return
        path = self._path()
        if not path:
            self._answer(400)
            return
        with self.server.lock:
            status = 200 if self._may_write(self._read()) else 412
            if status == 200:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self._answer(status, ETag=entity_tag(content))


    def do_DELETE(self) -> None:
        if self._is_faulty():
            return
        path = self._path()
        if path and path.is_file():
            path.unlink()
        self._answer(204)


class ObjectStore(http.server.ThreadingHTTPServer):
    """Serves until close(). |fault| (of reading) and |put_fault| may be changed at any time:

    truncate, wrong-bytes  half of the body, or one bit is wrong
    whole-file             ranges are ignored
    no-conditions          a file is replaced in spite of conditions
    unsupported            status 501 for a condition
    pointer-changed        a pointer is not written, as if another host had replaced it
    forbidden, failing     status 403 or 500
    busy                   status 503
    silent                 no answer
    """
    daemon_threads = True
    block_on_close = False

    def __init__(self, directory: os.PathLike[str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.directory = pathlib.Path(directory)
        self.fault = self.put_fault = ""
        self.answered: list[Answered] = []
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

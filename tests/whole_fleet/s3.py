# SPDX-License-Identifier: MIT
"""Requests to an object store, signed with AWS Signature Version 4."""
from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import re
import urllib.parse
from typing import NamedTuple

TIMEOUT_S = 30


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Refused(Exception):
    """A request that had to succeed did not."""


class Store:
    """A user of the store at |url|. All names of objects begin with the bucket."""

    def __init__(self, url: str, access: str, secret: str, region: str = "us-east-1") -> None:
        self.host = urllib.parse.urlsplit(url).netloc
        self.access, self.secret, self.region = access, secret, region

    def _key(self, day: str) -> bytes:
        key = ("AWS4" + self.secret).encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key

    def _signed(self, method: str, path: str, query: str, body: bytes) -> dict[str, str]:
        now = datetime.datetime.now(datetime.timezone.utc)
        moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": self.host, "x-amz-content-sha256": digest, "x-amz-date": moment}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = "\n".join(("AWS4-HMAC-SHA256", moment, scope,
                          hashlib.sha256(canonical.encode()).hexdigest()))
        signature = hmac.digest(self._key(day), text.encode(), "sha256").hex()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, "
                                    f"SignedHeaders={names}, Signature={signature}")
        return headers

    def ask(self, method: str, name: str, body: bytes = b"", query: str = "",
            **conditions: str) -> Answer:
        path = "/" + urllib.parse.quote(name)
        headers = self._signed(method, path, query, body)
        headers.update({key.replace("_", "-"): value for key, value in conditions.items()})
        connection = http.client.HTTPConnection(self.host, timeout=TIMEOUT_S)
        try:
            connection.request(method, path + ("?" + query if query else ""), body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()},
                          answer.read())
        finally:
            connection.close()

    def must(self, method: str, name: str, body: bytes = b"", query: str = "") -> bytes:
        answer = self.ask(method, name, body, query)
        if answer.status // 100 != 2:
            raise Refused(f"{method} {name}: {answer.status} {answer.body[:200]!r}")
        return answer.body

    def names(self, prefix: str) -> list[str]:
        """Returns at most 1000 names of objects, sorted. |prefix| begins with the bucket."""
        bucket, _, rest = prefix.partition("/")
        text = self.must("GET", bucket, query="prefix=" + urllib.parse.quote(rest, safe=""))
        return [f"{bucket}/{name}" for name in
                re.findall("<Key>([^<]*)</Key>", text.decode())]

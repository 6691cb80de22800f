"""Servers that the reading tests talk to: a folder over HTTP that can misbehave, and real S3 servers."""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICES = Path(__file__).resolve().parent.parent / "services"


class FolderServer:
    """Serves a folder over HTTP/1.1 with ETag, HEAD and Range.

    `faults` maps a key to what it answers instead: a status, "reset", or "html". `times` limits how often. `prefix`
    is put before every key (a bucket's name).
    """

    def __init__(self, root: Path, prefix: str = "") -> None:
        self.root = root
        self.prefix = prefix
        self.faults: dict[str, int | str] = {}
        self.times: dict[str, int] = {}
        self.asked: list[str] = []
        self.ranges = True
        self.refuse_all = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # One packet an answer: two would wait 40 ms for each other.
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.answer(self, body=True)

            def do_HEAD(self) -> None:
                outer.answer(self, body=False)

        class Server(http.server.ThreadingHTTPServer):
            # A reader opens dozens of connections at once; the default of 5 makes most of them wait a second.
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.url = self.endpoint + prefix

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: http.server.BaseHTTPRequestHandler, body: bool) -> None:
        path = urllib.parse.unquote(request.path.split("?")[0])
        key = path.removeprefix(self.prefix).strip("/")
        self.asked.append(key)
        fault = 403 if self.refuse_all else self.faults.get(key)
        if fault is not None and self.times.get(key, 1) > 0:
            if key in self.times:
                self.times[key] -= 1
            if fault == "reset":
                # A reset rather than an orderly end: nothing lingers.
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                request.connection.close()
                request.close_connection = True
                return
            if fault == "html":
                self._send(request, 200, b"<!doctype html><title>page</title>", body, {"Content-Type": "text/html"})
                return
            self._send(request, int(fault), b"fault", body, {})
            return
        file = self.root / key
        if not file.is_file():
            self._send(request, 404, b"not found", body, {})
            return
        content = file.read_bytes()
        headers = {"ETag": f'"{file.stat().st_mtime_ns}-{len(content)}"', "Accept-Ranges": "bytes"}
        wanted = request.headers.get("Range")
        if wanted and self.ranges:
            first, last = wanted.removeprefix("bytes=").split("-")
            begin = int(first) if first else max(0, len(content) - int(last))
            end = min(int(last) + 1, len(content)) if first and last else len(content)
            if begin >= len(content):
                self._send(request, 416, b"", body, {"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
            self._send(request, 206, content[begin:end], body, headers)
            return
        self._send(request, 200, content, body, headers)

    @staticmethod
    def _send(
        request: http.server.BaseHTTPRequestHandler, status: int, content: bytes, body: bool, headers: dict[str, str]
    ) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(name, value)
        request.end_headers()
        if body:
            request.wfile.write(content)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def put(endpoint: str, bucket: str, key: str, content: bytes) -> None:
    url = f"{endpoint}/{bucket}/{urllib.parse.quote(key)}"
    urllib.request.urlopen(urllib.request.Request(url, data=content, method="PUT"), timeout=10).close()


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


@contextlib.contextmanager
def s3rver(folder: Path, bucket: str) -> Iterator[str]:
    """A real S3 server that lets anybody read; gives its endpoint. Skips where it is not installed."""
    program = SERVICES / "node_modules" / "s3rver" / "bin" / "s3rver.js"
    node = shutil.which("node")
    if node is None or not program.is_file():
        pytest.skip(f"s3rver not found: run `npm ci` in {SERVICES}")
    port = free_port()
    command = [node, str(program), "-d", str(folder), "-a", "127.0.0.1", "-p", str(port), "--silent"]
    process = subprocess.Popen(
        [*command, "--configure-bucket", bucket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)

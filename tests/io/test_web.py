"""The plain way to ask a web server: what it understands, what it leaves to the other way, and where it goes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from chunkloom.io import web


class Scripted:
    """A server that says what it is told to, byte for byte, and writes down what it was asked."""

    def __init__(self, answers: list[bytes], closes: bool = False) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._answers, self._closes = iter(answers), closes
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                while request := connection.recv(65536):
                    self.asked.append(request)
                    answer = next(self._answers, b"")
                    connection.sendall(answer)
                    if self._closes or not answer:
                        break

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def scripted(monkeypatch) -> Iterator[object]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made: list[Scripted] = []

    def start(*answers: bytes, closes: bool = False) -> Scripted:
        made.append(Scripted(list(answers), closes))
        return made[-1]

    yield start
    for server in made:
        server.close()


def plain(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_a_whole_object_and_what_tells_it_from_its_next_version(scripted):
    body = bytes(range(256)) * 4000
    server = scripted(plain(body, b'ETag: "v1"'), plain(b"", b"Last-Modified: today"))
    assert web.get(server.root, "/a/b") == (body, "v1")
    assert web.get(server.root, "/a/c") == (b"", "today")
    assert server.connections == 1


def test_what_is_asked_is_escaped_and_cannot_end_the_request(scripted):
    server = scripted(plain(b"x"), plain(b"x"))
    web.get(server.root, "a b#c%d\r\nX: y/ü", "?v=1")
    line = server.asked[0].split(b"\r\n")[0]
    assert line == b"GET /a%20b%23c%25d%0D%0AX%3A%20y/%C3%BC?v=1 HTTP/1.1"
    assert web.get(server.root, "a", "?v=1\r\nX: y") is web.ELSEWHERE
    assert len(server.asked) == 1


def test_nothing_there_is_none_and_the_connection_stays(scripted):
    server = scripted(plain(b"no such key", status=b"404 Not Found"), plain(b"x"))
    assert web.get(server.root, "a") is None
    assert web.get(server.root, "b") == (b"x", "")
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"", b"Location: http://127.0.0.1:9/secret", status=b"302 Found"),
        plain(b"no", status=b"403 Forbidden"),
        plain(b"no", status=b"500 Internal Server Error"),
        plain(b"part", b"Content-Range: bytes 0-3/9", status=b"206 Partial Content"),
        plain(b"packed", b"Content-Encoding: gzip"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nmore than that",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"",
    ],
    ids=lambda answer: answer[:60].decode().replace("\r\n", " "),
)
def test_everything_unusual_is_left_to_the_other_way(scripted, answer):
    server = scripted(answer)
    assert web.get(server.root, "a") is web.ELSEWHERE
    assert len(server.asked) == 1


def test_a_body_cut_short_is_no_body(scripted):
    server = scripted(plain(b"x" * 100)[:-40], closes=True)
    assert web.get(server.root, "a") is web.ELSEWHERE


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(scripted):
    server = scripted(plain(b"1"), plain(b"2"), closes=True)
    assert web.get(server.root, "a") == (b"1", "")
    assert web.get(server.root, "b") == (b"2", "")
    assert server.connections == 2


@pytest.mark.parametrize("root", ["http://user@127.0.0.1:9", "http://", "http://127.0.0.1:1", "http://127.0.0.1:x"])
def test_places_that_cannot_be_asked(scripted, root):
    assert web.get(root, "a") is web.ELSEWHERE


def test_behind_a_proxy_the_other_way_is_taken(scripted, monkeypatch):
    server = scripted(plain(b"x"))
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    assert web.get(server.root, "a") is web.ELSEWHERE
    assert server.asked == []


def test_many_threads_each_get_their_own_answer(scripted):
    server = scripted(*[plain(b"%d" % i) for i in range(1)])
    assert web.get(server.root, "0") == (b"0", "")

    class Echo(Scripted):
        def _serve(self) -> None:
            while True:
                try:
                    connection, _ = self._socket.accept()
                except OSError:
                    return
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

        def _talk(self, connection: socket.socket) -> None:
            with connection:
                while request := connection.recv(65536):
                    connection.sendall(plain(request.split(b" ")[1] * 2000))

    echo = Echo([])
    found: dict[int, object] = {}

    def ask(i: int) -> None:
        for _ in range(20):
            found[i] = web.get(echo.root, str(i))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: (b"/%d" % i * 2000, "") for i in range(8)}
    echo.close()

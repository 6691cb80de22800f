"""The HTTP behaviour of the chunk server."""

from __future__ import annotations

import dataclasses
import http.client
import threading
import time

import numpy as np
import pytest

from chunkloom import Op, Pipeline, array_volume
from chunkloom.engine.cache import ChunkCache
from chunkloom.errors import ParameterError
from chunkloom.serving.app import RESERVED, create_app

ARRAY = np.arange(40 * 40 * 40, dtype=np.uint16).reshape(40, 40, 40)


def volume():
    return array_volume(ARRAY, chunk=(16, 16, 16))


def ask(server, path, method="GET", headers=None):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_a_chunk_is_full_size_and_zero_past_the_end(serve):
    status, _, body = ask(serve({"a": volume()}, codec="none"), "/a/zarr2/s0/2/2/2")
    chunk = np.frombuffer(body, "<u2").reshape(16, 16, 16)
    assert status == 200
    assert np.array_equal(chunk[:8, :8, :8], ARRAY[32:, 32:, 32:])
    assert not chunk[8:].any()


@pytest.mark.parametrize(
    "path",
    [
        "/b/zarr2/s0/0/0/0",
        "/a/zarr9/s0/0/0/0",
        "/a/zarr2/s9/0/0/0",
        "/a/zarr2/s0/3/0/0",
        "/a/zarr2/s0/-1/0/0",
        "/a/zarr2/s0/00/0/0",
        "/a/zarr2/s0/0/0",
        "/a/zarr2/s0/0/0/0/0",
        "/a/zarr2/s0/0/0/0/",
        "/a/zarr2/s0/c/0/0/0",
        "/a/zarr3/s0/0/0/0",
        "/a/zarr2/.zattr",
        "/a/zarr2",
        "/a/@0123456789abcdef/zarr2/s0/0/0/0",
        "/a/zarr2/s0/99999999999999999999/0/0",
    ],
)
def test_what_is_not_there_is_404_with_a_reason(serve, path):
    status, headers, body = ask(serve({"a": volume()}), path)
    assert status == 404
    assert headers["access-control-allow-origin"] == "*"
    assert body


def test_both_key_forms_name_the_same_chunk(serve):
    server = serve({"a": volume()})
    assert ask(server, "/a/zarr2/s0/1/2/0")[2] == ask(server, "/a/zarr/s0/1.2.0")[2]


def test_an_etag_is_answered_with_304_without_computing(serve):
    computed = []

    @dataclasses.dataclass(frozen=True)
    class Counts(Op):
        def apply(self, block):
            computed.append(1)
            return block

    server = serve({"a": Pipeline(volume(), [Counts()], cache=ChunkCache(0))}, encoded_bytes=0)
    status, headers, _ = ask(server, "/a/zarr2/s0/0/0/0")
    assert (status, headers["cache-control"]) == (200, "no-cache")
    status, _, body = ask(server, "/a/zarr2/s0/0/0/0", headers={"If-None-Match": headers["etag"]})
    assert (status, body) == (304, b"")
    assert len(computed) == 1


def test_a_kept_chunk_is_revalidated_too(serve):
    server = serve({"a": volume()})
    etag = ask(server, "/a/zarr2/s0/0/0/0")[1]["etag"]
    assert ask(server, "/a/zarr2/s0/0/0/0", headers={"If-None-Match": etag})[0] == 304
    assert ask(server, "/a/zarr2/s0/0/0/0", headers={"If-None-Match": '"other"'})[0] == 200


def test_a_url_with_the_digest_never_changes(serve):
    made = volume()
    server = serve({"a": made})
    _, headers, body = ask(server, f"/a/@{made.digest}/zarr3/s0/c/0/0/0")
    assert "immutable" in headers["cache-control"]
    assert body == ask(server, "/a/zarr3/s0/c/0/0/0")[2]
    server.app.add("a", array_volume(ARRAY + 1, chunk=(16, 16, 16)))
    assert ask(server, f"/a/@{made.digest}/zarr3/s0/c/0/0/0")[0] == 404
    assert ask(server, "/a/zarr3/s0/c/0/0/0")[2] != body


def test_head_computes_nothing(serve):
    @dataclasses.dataclass(frozen=True)
    class Fails(Op):
        def apply(self, block):
            raise AssertionError("computed")

    server = serve({"a": Pipeline(volume(), [Fails()])})
    status, headers, body = ask(server, "/a/zarr2/s0/0/0/0", method="HEAD")
    assert (status, body) == (200, b"")
    assert "etag" in headers


def test_a_failing_op_is_500_with_the_chunk_and_the_reason(serve):
    @dataclasses.dataclass(frozen=True)
    class Fails(Op):
        def apply(self, block):
            raise ValueError("the lens cap is on")

    status, _, body = ask(serve({"a": Pipeline(volume(), [Fails()])}), "/a/zarr2/s0/1/2/0")
    assert status == 500
    assert b"a/0/1.2.0" in body
    assert b"the lens cap is on" in body


def test_other_methods_are_refused_and_preflight_is_answered(serve):
    server = serve({"a": volume()})
    assert ask(server, "/a/zarr2/s0/0/0/0", method="POST")[0] == 405
    status, headers, _ = ask(server, "/a/zarr2/s0/0/0/0", method="OPTIONS", headers={"Origin": "http://x"})
    assert status == 204
    assert headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    assert headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("name", [*sorted(RESERVED), "", "a/b", "@a"])
def test_a_name_that_cannot_be_served_is_refused(name):
    with pytest.raises(ParameterError, match="cannot be a volume's name"):
        create_app({name: volume()})


def test_a_hung_up_clients_queued_chunks_are_never_computed(serve):
    computed, gate = [], threading.Event()

    @dataclasses.dataclass(frozen=True)
    class Slow(Op):
        def apply_at(self, block, box, level):
            computed.append(box.lo)
            gate.wait(20)
            return block

    server = serve({"a": Pipeline(array_volume(ARRAY, chunk=(8, 8, 8)), [Slow()])})
    connections = []
    for i in range(12):
        connection = http.client.HTTPConnection(server.host, server.port)
        connection.request("GET", f"/a/zarr2/s0/{i % 5}/{i // 5}/0")
        connections.append(connection)
    wait_for(lambda: sum(server.app.scheduler.snapshot()["waiting"].values()) == 10)
    for connection in connections:
        connection.sock.close()
    wait_for(lambda: not server.app.scheduler.snapshot()["waiting"])
    gate.set()
    status, _, _ = ask(server, "/a/zarr2/s0/4/4/4")
    assert status == 200
    assert len(computed) == 3


def test_eight_clients_of_one_chunk_cost_one_computation(serve):
    computed, gate = [], threading.Event()

    @dataclasses.dataclass(frozen=True)
    class Slow(Op):
        def apply(self, block):
            computed.append(1)
            gate.wait(20)
            return block

    server = serve({"a": Pipeline(volume(), [Slow()])})
    bodies = []
    threads = [threading.Thread(target=lambda: bodies.append(ask(server, "/a/zarr2/s0/0/0/0")[2])) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_for(lambda: computed)
    time.sleep(0.2)  # the rest join the running job; there is nothing to see until it ends
    gate.set()
    for thread in threads:
        thread.join()
    assert len(computed) == 1
    assert len(set(bodies)) == 1
    assert len(bodies) == 8


def test_the_app_can_be_mounted_under_another():
    import asyncio

    app = create_app({"a": volume()})
    sent = []

    async def ask_mounted():
        async def receive():
            await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/volumes/a/zarr2/.zgroup",
            "root_path": "/volumes",
            "headers": [],
        }
        await app(scope, receive, send)

    asyncio.run(ask_mounted())
    assert sent[0]["status"] == 200


def test_a_taken_port_is_refused_by_number(serve):
    from chunkloom.errors import ServerError
    from chunkloom.serving.run import bind

    server = serve({"a": volume()})
    with pytest.raises(ServerError, match=f"port {server.port}"):
        bind("127.0.0.1", server.port)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)

"""Reads of stored chunks are claimed like computations; who asks is a client; and a server that closes says so."""

from __future__ import annotations

import http.client
import threading

import pytest

from chunkloom import Pipeline, array_volume, create_app, open_volume
from chunkloom.engine.demand import Scheduler
from chunkloom.io.source import StoredArray
from chunkloom.serving.chunks import client_of
from chunkloom.serving.run import VolumeServer

from .test_app import ARRAY, ask, wait_for
from .test_passthrough import BLOSC, zarr2


@pytest.fixture
def slow_storage(monkeypatch):
    """Reads wait for a gate, and are written down."""
    gate, read = threading.Event(), []
    real = StoredArray.stored_piece

    def waits(self, index):
        read.append(index)
        assert gate.wait(20)
        return real(self, index)

    monkeypatch.setattr(StoredArray, "stored_piece", waits)
    yield gate, read
    gate.set()


def send(server, path):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    connection.request("GET", path)
    return connection


def test_eight_clients_of_one_stored_chunk_cost_one_read(serve, tmp_path, slow_storage):
    gate, read = slow_storage
    server = serve({"a": Pipeline(open_volume(zarr2(tmp_path / "a.zarr", BLOSC)))})
    connections = [send(server, "/a/zarr2/s0/0/0/0") for _ in range(8)]
    wait_for(lambda: sum(len(job.claims) for job in list(server.app.readers._jobs.values())) == 8)
    gate.set()
    bodies = {connection.getresponse().read() for connection in connections}
    assert (len(read), len(bodies)) == (1, 1)


def test_a_hung_up_clients_queued_reads_never_happen(serve, tmp_path, slow_storage):
    gate, read = slow_storage
    server = serve({"a": Pipeline(open_volume(zarr2(tmp_path / "a.zarr", BLOSC)))})
    paths = [f"/a/zarr2/s0/{z}/{y}/{x}" for z in range(2) for y in range(4) for x in range(2)]
    connections = [send(server, path) for path in paths]
    wait_for(lambda: sum(server.app.readers.snapshot()["waiting"].values()) == len(paths) - server.app.readers.workers)
    for connection in connections:
        connection.sock.close()
    wait_for(lambda: not server.app.readers.snapshot()["waiting"])
    gate.set()
    assert ask(server, paths[-1])[0] == 200
    assert len(read) == server.app.readers.workers + 1


@pytest.mark.parametrize("stored", [True, False], ids=["passed on", "computed"])
def test_a_chunk_asked_for_while_the_server_closes_is_503(serve, tmp_path, stored):
    volume = open_volume(zarr2(tmp_path / "a.zarr", BLOSC)) if stored else array_volume(ARRAY)
    server = serve({"a": Pipeline(volume)})
    server.app.readers.close()
    server.app.scheduler.close()
    status, _, body = ask(server, "/a/zarr2/s0/0/0/0")
    assert status == 503
    assert b"a/0/0.0.0: the server is closing" in body


def test_a_scheduler_that_was_given_is_not_closed():
    scheduler = Scheduler(1)
    with VolumeServer(create_app({"a": array_volume(ARRAY)}, scheduler=scheduler)) as server:
        assert ask(server, "/a/zarr2/s0/0/0/0")[0] == 200
    assert scheduler.claim("more", lambda work: 7).future.result(20) == 7
    scheduler.close()


def test_many_connections_of_one_program_are_one_client():
    def scope(host, port, agent):
        return {"client": (host, port), "headers": [(b"user-agent", agent)] if agent else []}

    first = client_of(scope("10.0.0.7", 50001, b"Chromium"))
    assert client_of(scope("10.0.0.7", 50002, b"Chromium")) == first
    assert client_of(scope("10.0.0.8", 50001, b"Chromium")) != first
    assert client_of(scope("10.0.0.7", 50001, b"python")) != first
    assert client_of({"client": None, "headers": []}) == (None, None)

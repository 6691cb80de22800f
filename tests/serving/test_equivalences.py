"""Which ids of a served volume are one object: an address that says so, and events when there is more to say."""

from __future__ import annotations

import http.client
import json

import cc3d
import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache

from .rest_client import ask
from .test_rest_watching import read_event

MASK = (ndimage.gaussian_filter(np.random.default_rng(1).normal(size=(37, 50, 41)), 2) > 0.02).astype(np.uint8)
CHUNK = (16, 16, 16)


def labelled():
    return Pipeline(array_volume(MASK, chunk=CHUNK), [ops.ConnectedComponents()], chunk=CHUNK, cache=ChunkCache())


def fetch_all(server, name="a"):
    """The whole volume as a client puts it together."""
    grid = server.app.volumes[name].volume.levels[0].chunk_grid
    whole = np.zeros([n * 16 for n in grid], np.uint64)
    for index in np.ndindex(*grid):
        body = ask(server, f"/{name}/zarr2/s0/{'/'.join(map(str, index))}").body
        place = tuple(slice(16 * i, 16 * i + 16) for i in index)
        whole[place] = np.frombuffer(body, "<u8").reshape(CHUNK)
    return whole[tuple(slice(n) for n in MASK.shape)]


def test_ids_and_equivalences_together_are_the_objects_of_the_whole(serve):
    server = serve({"a": labelled()}, codec="none")
    nothing = ask(server, "/api/volumes/a/equivalences").json
    assert (nothing["joins"], nothing["groups"]) == (True, [])
    made = fetch_all(server)
    found = ask(server, "/api/volumes/a/equivalences").json
    assert found["digest"] == server.app.volumes["a"].digest
    smallest = {int(i): int(group[0]) for group in found["groups"] for i in group}
    joined = np.vectorize(lambda i: smallest.get(i, i), otypes=[np.uint64])(made)
    pairs = np.unique(np.stack([joined.ravel(), cc3d.connected_components(MASK, connectivity=6).ravel()]), axis=1)
    assert pairs.shape[1] == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))


def test_ids_beyond_what_a_number_of_json_holds_are_exact(serve):
    volume = labelled()
    big = np.full(CHUNK, 2**63 + 3, np.uint64)
    volume.seams.add((0, 0, 0), big)
    volume.seams.add((0, 0, 1), big + np.uint64(2))
    server = serve({"a": volume})
    assert ask(server, "/api/volumes/a/equivalences").json["groups"] == [[str(2**63 + 3), str(2**63 + 5)]]


@pytest.mark.parametrize("name", ["plain", "gone"])
def test_volumes_without_such_ids_and_unknown_ones(serve, name):
    server = serve({"plain": array_volume(MASK)})
    reply = ask(server, f"/api/volumes/{name}/equivalences")
    assert reply.status == (200 if name == "plain" else 404)
    assert name == "gone" or (reply.json["joins"], reply.json["groups"]) == (False, [])


def test_an_event_tells_that_there_is_more_until_the_volume_is_gone(serve):
    volume = labelled()
    server = serve({"a": volume}, codec="none")
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    read_event(stream)
    fetch_all(server)
    event, data = read_event(stream)
    assert event == "event: volume"
    told = json.loads(data.removeprefix("data: "))
    assert told == {"change": "joined", "name": "a", "digest": server.app.volumes["a"].digest}
    server.app.remove("a")
    assert volume.seams._listeners == []
    connection.close()


def test_joins_that_a_slow_listener_has_not_heard_of_count_once():
    import asyncio

    from chunkloom.serving.events import Change, Events, server_sent

    async def listen():
        events = Events()
        stream = server_sent(events, quiet_s=0.01)
        await anext(stream)
        for change in ("joined", "created", "joined", "joined"):
            events.publish(Change(change, "a", "0"))
        await asyncio.sleep(0)
        heard = [json.loads((await anext(stream)).partition("data: ")[2])["change"] for _ in range(2)]
        quiet = await anext(stream)
        await stream.aclose()
        return heard, quiet

    assert asyncio.run(listen()) == (["created", "joined"], ": nothing new\n\n")


def test_a_chunk_that_the_client_has_already_is_looked_at_all_the_same(serve):
    """A browser's cache outlives the server: what joins in it must be found again."""
    server = serve({"a": labelled()}, codec="none")
    paths = ["/a/zarr2/s0/0/0/0", "/a/zarr2/s0/0/0/1"]
    etags = [ask(server, path).headers["etag"] for path in paths]
    again = serve({"a": labelled()}, codec="none")
    for path, etag in zip(paths, etags, strict=True):
        assert ask(again, path, headers={"If-None-Match": etag}).status == 304
    expected = ask(server, "/api/volumes/a/equivalences").json["groups"]
    assert ask(again, "/api/volumes/a/equivalences").json["groups"] == expected != []

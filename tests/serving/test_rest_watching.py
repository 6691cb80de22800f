"""Watching a server: events over a stream, and metrics."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from chunkloom import array_volume
from chunkloom.serving.access import ApiOptions, SourceRules

from .rest_client import RAW, TOKEN, ask, edit, write_zarr


@pytest.fixture
def served(serve, tmp_path):
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([str(tmp_path)]))
    return serve({"em": array_volume(RAW, chunk=(16, 16, 16))}, api=api)


@pytest.fixture
def stored(tmp_path):
    return write_zarr(tmp_path / "raw.zarr")


def read_event(stream):
    lines = []
    while (line := stream.readline().decode().rstrip("\n")) or not lines:
        lines.append(line)
    return [line for line in lines if line]


def test_events_tell_of_each_change(served, stored):
    connection = http.client.HTTPConnection(served.host, served.port, timeout=20)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert read_event(stream) == [": listening"]
    first = edit(served, "/api/volumes", "POST", {"name": "a", "source": stored}).json["digest"]
    second = edit(served, "/api/volumes/a", "PUT", {"source": stored, "ops": [{"op": "invert"}]}).json["digest"]
    edit(served, "/api/volumes/a", "DELETE")
    told = []
    for _ in range(3):
        event, data = read_event(stream)
        assert event == "event: volume"
        told.append(json.loads(data.removeprefix("data: ")))
    assert told == [
        {"change": "created", "name": "a", "digest": first},
        {"change": "replaced", "name": "a", "digest": second},
        {"change": "deleted", "name": "a", "digest": second},
    ]
    connection.close()


def test_a_listener_that_left_is_forgotten(served):
    connection = http.client.HTTPConnection(served.host, served.port, timeout=20)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    read_event(stream)
    assert len(served.app.gate.events._listeners) == 1
    stream.close()
    connection.close()
    end = time.monotonic() + 20
    while served.app.gate.events._listeners:
        assert time.monotonic() < end, "still listening"
        time.sleep(0.01)


def test_a_slow_listener_loses_the_oldest_changes_and_a_silent_one_hears_that_all_is_well():
    import asyncio

    from chunkloom.serving.events import MOST_WAITING, Change, Events, server_sent

    async def listen():
        events = Events()
        stream = server_sent(events, quiet_s=0.01)
        heard = [await anext(stream), await anext(stream)]
        for i in range(MOST_WAITING + 5):
            events.publish(Change("created", str(i), ""))
        await asyncio.sleep(0)
        heard.append(await anext(stream))
        await stream.aclose()
        return heard

    listening, quiet, oldest = asyncio.run(listen())
    assert (listening, quiet) == (": listening\n\n", ": nothing new\n\n")
    assert '"name": "5"' in oldest


def test_metrics_count_requests_chunks_and_caches(served):
    from prometheus_client.parser import text_string_to_metric_families

    for _ in range(2):
        ask(served, "/em/zarr2/s0/0/0/0")
    ask(served, "/em/zarr2/s0/9/0/0")
    ask(served, "/api/queue")
    reply = ask(served, "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(reply.body.decode())
        for sample in family.samples
    }
    assert found["chunkloom_requests_total", "volumes", "200"] == 2
    assert found["chunkloom_requests_total", "volumes", "404"] == 1
    assert found["chunkloom_requests_total", "api", "200"] == 1
    assert found["chunkloom_chunks_total", "done"] == 1
    assert found["chunkloom_chunk_seconds_count",] == 1
    assert found["chunkloom_chunk_seconds_bucket", "+Inf"] == 1
    assert 0 < found["chunkloom_chunk_seconds_sum",] < 20
    assert found["chunkloom_cache_bytes", "encoded"] > 0
    assert found["chunkloom_cache_lookups_total", "encoded", "yes"] == 1
    assert found["chunkloom_volumes",] == 1
